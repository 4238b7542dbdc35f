/** `model-gateway tokens`: creates, lists and revokes personal access tokens, also the one for `/metrics`. */

import { instantText } from "../base/time.ts";
import { limits } from "../config/limits/product-limits.ts";
import { isName, NAME_RULE } from "../config/schema/basic-values.ts";
import { effectiveRole } from "../records/user.ts";
import { mintAccessToken } from "../secrets/random-secret.ts";
import {
  type AccessTokenRecord,
  deleteAccessToken,
  findTokenOwner,
  insertAccessToken,
  listAccessTokens,
  needsAdmin,
  TOKEN_SCOPES,
} from "../store/identity/access-tokens.ts";
import { listUsers } from "../store/identity/users.ts";
import { type CommandDefinition, DATA_OPTION, fail, JSON_OPTION, misuse } from "./command.ts";
import { EXPIRES_OPTION, instantFrom } from "./instants.ts";
import { runLogged } from "./operator.ts";
import { printJson, printList } from "./output.ts";
import {
  chooseSecretTarget,
  SECRET_OPTIONS,
  SECRET_RULE,
  secretFileText,
  storeSecrets,
} from "./secret-output.ts";
import { requireUser, withInstallation } from "./store-access.ts";

const SCOPES = TOKEN_SCOPES.join(", ");

export const createToken: CommandDefinition = {
  changes: "access",
  about: `For Prometheus, create a token of an administrator with the scope read, and write it to the file that it reads:
--name prometheus --user ops@example.com --secret-file /etc/prometheus/model-gateway-token
${SECRET_RULE}`,
  options: {
    name: { value: "NAME", about: "the name of the token", required: true },
    user: { value: "EMAIL", about: "the user that the token acts for", required: true },
    scope: { value: "SCOPE", about: `${SCOPES} (read)` },
    expires: EXPIRES_OPTION,
    ...SECRET_OPTIONS,
    json: JSON_OPTION,
    data: DATA_OPTION,
  },
  run: (input) =>
    withInstallation(input, async (installation) => {
      const { db, clock, newId, randomBytes, settings } = installation;
      const name = input.require("name");
      if (!isName(name)) misuse(`--name must be ${NAME_RULE}.`, "For example: --name prometheus");
      const scope =
        TOKEN_SCOPES.find((one) => one === (input.text("scope") ?? "read")) ??
        misuse(`--scope must be one of: ${SCOPES}.`, "For example: --scope read");
      const expiresAtMs = instantFrom(input, "expires");
      if (expiresAtMs !== null && expiresAtMs <= clock.nowMs()) fail("--expires is in the past.");
      const user = await requireUser(db, input.require("user"));
      if (needsAdmin(scope) && effectiveRole(user) !== "admin")
        fail(
          `Only administrators may have a token with the scope ${scope}.`,
          "Choose another user or scope.",
        );
      const target = chooseSecretTarget(input, settings, "tokens");
      const { secret, digest } = mintAccessToken(randomBytes);
      const token: AccessTokenRecord = {
        id: newId("pat"),
        userId: user.id,
        name,
        last4: secret.slice(-4),
        scope,
        createdAtMs: clock.nowMs(),
        expiresAtMs,
        usedAtMs: null,
      };
      await runLogged(
        installation,
        async ({ db: tx }) => {
          if ((await listAccessTokens(tx, user.id)).length >= limits.accessTokensMax)
            fail(`${user.email} already has ${limits.accessTokensMax} tokens, which is the maximum.`);
          await insertAccessToken(tx, token, digest);
        },
        () => ({
          action: "token.create",
          target: `token ${name} of ${user.email}`,
          changes: [
            { field: "scope", from: null, to: scope },
            { field: "expires", from: null, to: instantText(expiresAtMs) },
          ],
        }),
      );
      const { print, paint } = input.terminal;
      const file = storeSecrets(target, [{ name, secret }]);
      if (input.flag("json")) {
        const delivered = file === null ? { secret } : { secret_file: file };
        return printJson(input, { id: token.id, name, user: user.email, scope, ...delivered });
      }
      const made = `Token ${paint.bold(name)} of ${user.email}, scope ${scope}`;
      print(
        file === null ? `${made}, shown only once:\n\n  ${secret}\n` : `${made}: ${secretFileText(file)}`,
      );
      print(paint.dim(`To revoke it: ${input.command("tokens revoke", token.id)}`));
    }),
};

export const listAllTokens: CommandDefinition = {
  changes: "nothing",
  options: {
    user: { value: "EMAIL", about: "only the tokens of this user" },
    json: JSON_OPTION,
    data: DATA_OPTION,
  },
  run: (input) =>
    withInstallation(input, async ({ db }) => {
      const email = input.text("user");
      const users = email === undefined ? await listUsers(db) : [await requireUser(db, email)];
      const tokens = [];
      for (const user of users)
        for (const token of await listAccessTokens(db, user.id))
          tokens.push({
            id: token.id,
            name: token.name,
            user: user.email,
            scope: token.scope,
            last4: token.last4,
            created: instantText(token.createdAtMs),
            expires: instantText(token.expiresAtMs),
            used: instantText(token.usedAtMs),
          });
      printList(input, {
        json: tokens,
        header: ["ID", "NAME", "USER", "SCOPE", "ENDS", "CREATED", "EXPIRES", "USED"],
        rows: tokens.map((token) => [
          token.id,
          token.name,
          token.user,
          token.scope,
          `…${token.last4}`,
          token.created.slice(0, 10),
          token.expires?.slice(0, 10) ?? "-",
          token.used?.slice(0, 10) ?? "never",
        ]),
        empty: "No tokens yet.",
      });
    }),
};

export const revokeToken: CommandDefinition = {
  changes: "access",
  options: { json: JSON_OPTION, data: DATA_OPTION },
  run: (input) =>
    withInstallation(input, async (installation) => {
      const id = input.require("ID");
      const owner = await findTokenOwner(installation.db, id);
      // The typed text is not repeated: it may be a pasted secret.
      if (owner === null)
        fail("No token has this id.", `The id is in the first column of: ${input.command("tokens list")}`);
      const revoked = await runLogged(
        installation,
        ({ db }) => deleteAccessToken(db, owner.id, id),
        (token) =>
          token === null
            ? null
            : {
                action: "token.revoke",
                target: `token ${token.name} of ${owner.email}`,
                changes: [{ field: "scope", from: token.scope, to: null }],
              },
      );
      if (input.flag("json")) input.terminal.print(JSON.stringify({ id, revoked: revoked !== null }));
      else input.terminal.print(`Token "${revoked?.name}" of ${owner.email} is revoked.`);
    }),
};
