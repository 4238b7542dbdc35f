/** `admin claim` and `admin link`: the first administrator, and links for users who cannot sign in. */

import {
  ClaimRejected,
  type ClaimRejection,
  checkClaim,
  claimAdministrator,
  readToken,
} from "../config/first-run/admin-claim.ts";
import type { Settings } from "../config/installation/environment.ts";
import { EMAIL_RULE, isEmail, isHttpUrl, PUBLIC_URL_RULE } from "../config/schema/basic-values.ts";
import { createLink } from "../console-api/auth/create-link.ts";
import { dropSecondFactor } from "../console-api/auth/remove-second-factor.ts";
import { type AccessChange, endAccess } from "../console-api/auth/user-access.ts";
import { type Db, transaction } from "../store/engine/db.ts";
import type { LinkPurpose } from "../store/identity/links.ts";
import { listUsers } from "../store/identity/users.ts";
import { type CommandDefinition, DATA_OPTION, fail, type Input, misuse } from "./command.ts";
import { operator } from "./operator.ts";
import { readPassword } from "./password.ts";
import { PROGRAM } from "./program-name.ts";
import {
  chooseSecretTarget,
  SECRET_OPTIONS,
  SECRET_RULE,
  secretFileText,
  storeSecrets,
} from "./secret-output.ts";
import { requireUser, withInstallation } from "./store-access.ts";

export const claimAdmin: CommandDefinition = {
  changes: "access",
  about:
    "The token is read from the data folder. It works once, for an hour after the start that created it.",
  options: {
    email: { value: "EMAIL", about: "the administrator's e-mail address", required: true },
    "password-stdin": { about: "read the password from standard input instead of prompting" },
    data: DATA_OPTION,
  },
  run: (input) =>
    withInstallation(input, async (installation) => {
      const { db, settings, clock } = installation;
      const email = emailFrom(input);
      const token = readToken(settings.adminTokenFile);
      // Checked before the password prompt, so that the operator does not type a password in vain.
      const rejection = await checkClaim(db, token ?? "", clock.nowMs());
      if (rejection !== null) await failClaim(rejection, token, settings, db);
      const passwordHash = await Bun.password.hash(await readPassword(input), "argon2id");
      try {
        await claimAdministrator(installation, {
          token: token ?? "",
          email,
          passwordHash,
          actor: operator(),
          address: null,
        });
      } catch (error) {
        if (error instanceof ClaimRejected) await failClaim(error.reason, token, settings, db);
        throw error;
      }
      input.terminal.print(`${email} is now the administrator. The one-time token has been used.`);
    }),
};

async function failClaim(
  rejection: ClaimRejection,
  token: string | null,
  { adminTokenFile }: Settings,
  db: Db,
): Promise<never> {
  const again = "Restart the gateway: it creates a new token as long as no administrator can sign in.";
  switch (rejection) {
    case "claimed": {
      const admin = (await listUsers(db)).find(
        ({ role, status, passwordHash }) => role === "admin" && status === "active" && passwordHash !== null,
      );
      return fail(`An administrator already exists: ${admin?.email}. The token works only once.`);
    }
    case "none":
      return fail("No token exists.", `Start the gateway first: ${PROGRAM} start`);
    case "wrong":
      return token === null
        ? fail(
            `The token file ${adminTokenFile} is missing.`,
            `Check the data folder. If it is correct: ${again}`,
          )
        : fail(`The token in ${adminTokenFile} does not belong to this installation.`, again);
    case "expired":
      return fail("The token has expired.", again);
  }
}

const FOR_USERS = ["sign_in", "reset"] as const satisfies readonly LinkPurpose[];

export const makeAdminLink: CommandDefinition = {
  changes: "access",
  about: `With --for sign-in the link signs the user in, with --for reset the user chooses a new password. The link works once, for an hour. It begins with PUBLIC_URL. Two-factor authentication stays on; --drop-second-factor turns it off.
--revoke-all is for a compromised account: with --for reset it invalidates the password, the second factor, and all sessions, tokens, API keys and links of the user.
${SECRET_RULE}`,
  options: {
    email: { value: "EMAIL", about: "the user's e-mail address", required: true },
    for: { value: "PURPOSE", about: "sign-in or reset (sign-in)" },
    url: { value: "URL", about: "the public address of the gateway (PUBLIC_URL, http://127.0.0.1:8787)" },
    "drop-second-factor": {
      about: "turn two-factor authentication off, for a user who lost the app and the recovery codes",
    },
    "revoke-all": {
      about: "invalidate all credentials of the user, including API keys; requires --for reset",
    },
    ...SECRET_OPTIONS,
    data: DATA_OPTION,
  },
  run: (input) =>
    withInstallation(input, async (installation) => {
      const requestedPurpose = (input.text("for") ?? "sign-in").replace("-", "_");
      const purpose =
        FOR_USERS.find((one) => one === requestedPurpose) ??
        misuse("--for must be sign-in or reset.", "See: --help");
      const url = input.text("url")?.replace(/\/+$/, "") ?? installation.settings.publicUrl;
      if (!isHttpUrl(url))
        misuse(`--url must be ${PUBLIC_URL_RULE}.`, "For example: --url https://gateway.example.com");
      const revokesAll = input.flag("revoke-all");
      if (revokesAll && purpose !== "reset")
        misuse("--revoke-all requires --for reset, because it also removes the password.", "See: --help");
      const user = await requireUser(installation.db, emailFrom(input));
      const target = chooseSecretTarget(input, installation.settings, "links");
      const by = { actor: operator(), address: null };
      const { link, ended } = await transaction(installation.db, async (tx) => {
        const change: AccessChange = { user, action: "user.reset_access", by };
        const ended = revokesAll ? await endAccess(tx, installation, change) : null;
        if (input.flag("drop-second-factor")) await dropSecondFactor(tx, installation, user, by);
        return { ended, link: await createLink(tx, installation, { purpose, user }, by) };
      });
      const file = storeSecrets(target, [{ name: user.email, secret: `${url}${link.path}` }]);
      input.terminal.print(file === null ? `${url}${link.path}` : `The link is in ${secretFileText(file)}`);
      if (ended !== null) {
        const { keys, tokens, sessions } = ended;
        input.terminal.printNote(
          `\nInvalidated: the password, the second factor, API keys (${keys}), tokens (${tokens}), sessions (${sessions}).`,
        );
      }
      input.terminal.printNote(
        `\nThe link works once, for an hour. It gives access to the account of ${user.email}: send it only to this user.`,
      );
    }),
};

function emailFrom(input: Input): string {
  const email = input.require("email").toLowerCase();
  return isEmail(email)
    ? email
    : misuse(`--email must be ${EMAIL_RULE}.`, "For example: --email ops@example.com");
}
