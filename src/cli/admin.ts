/**
 * `model-gateway admin claim` and `admin link`: the first administrator, and one-time links for users who cannot
 * sign in.
 */

import {
  type ClaimRefusal,
  ClaimRefused,
  checkClaim,
  claimAdministrator,
  readToken,
} from "../config/first-run/admin-claim.ts";
import type { Settings } from "../config/installation/environment.ts";
import { isHttpUrl, PUBLIC_URL_RULE } from "../config/schema/schema.ts";
import { EMAIL_RULE, isEmail } from "../config/schema/words.ts";
import { dropSecondFactor } from "../console-api/auth/drop-second-factor.ts";
import { createLink } from "../console-api/auth/make-link.ts";
import { type AccessChange, endAccess } from "../console-api/auth/user-access.ts";
import { type Db, transaction } from "../store/engine/db.ts";
import type { LinkPurpose } from "../store/identity/links.ts";
import { listUsers } from "../store/identity/users.ts";
import { type Command, DATA_OPTION, fail, type Input, misuse } from "./command.ts";
import { operator } from "./operator.ts";
import { readPassword } from "./password.ts";
import { needUser, withInstallation } from "./store-access.ts";

export const claimAdmin: Command = {
  words: "admin claim",
  summary: "Become the administrator with the one-time token of the first start",
  about: "The token is read from the data folder. It works once, for an hour after the start that made it.",
  options: {
    email: { value: "EMAIL", about: "the administrator's address", required: true },
    "password-stdin": { about: "read the password from standard input instead of asking for it" },
    data: DATA_OPTION,
  },
  run: (input) =>
    withInstallation(input, async (installation) => {
      const { db, settings, clock } = installation;
      const email = emailFrom(input);
      const token = readToken(settings.adminTokenFile);
      // Checked before the password prompt, so that the operator does not type a password in vain.
      const refusal = await checkClaim(db, token ?? "", clock.nowMs());
      if (refusal !== null) await failClaim(refusal, token, settings, db);
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
        if (error instanceof ClaimRefused) await failClaim(error.reason, token, settings, db);
        throw error;
      }
      input.terminal.print(`${email} is the administrator now. The one-time token is used up.`);
      return 0;
    }),
};

async function failClaim(
  refusal: ClaimRefusal,
  token: string | null,
  { adminTokenFile }: Settings,
  db: Db,
): Promise<never> {
  const again = "Restart the gateway: it makes a new token while no administrator can sign in.";
  switch (refusal) {
    case "claimed": {
      const admin = (await listUsers(db)).find(
        ({ role, status, passwordHash }) => role === "admin" && status === "active" && passwordHash !== null,
      );
      return fail(`There is an administrator already: ${admin?.email}. The token works once.`);
    }
    case "none":
      return fail("There is no token to claim with.", "Start the gateway first: npx model-gateway start");
    case "wrong":
      return token === null
        ? fail(
            `The token file ${adminTokenFile} is missing.`,
            `Is this the right data folder? If so: ${again}`,
          )
        : fail(`The token in ${adminTokenFile} does not belong to this installation.`, again);
    case "expired":
      return fail("The token has expired.", again);
  }
}

const FOR_USERS = ["sign_in", "reset"] as const satisfies readonly LinkPurpose[];

export const makeAdminLink: Command = {
  words: "admin link",
  summary: "Make a one-time link for somebody who cannot sign in",
  about: `sign-in lets them in as they are; reset lets them choose a new password. It works once, for an hour.
PUBLIC_URL says what the link begins with. A second factor is asked for all the same; --drop-second-factor removes it.
--revoke-all is for an account that somebody else got into: with --for reset it ends the password, the second factor, and all sessions, tokens, API keys and links of the user at once.`,
  options: {
    email: { value: "EMAIL", about: "whom it is for", required: true },
    for: { value: "PURPOSE", about: "sign-in or reset (sign-in)" },
    url: { value: "URL", about: "how people reach the gateway (PUBLIC_URL, http://127.0.0.1:8787)" },
    "drop-second-factor": { about: "for somebody who has lost it, and the recovery codes too" },
    "revoke-all": { about: "end everything that acts as the user, API keys included; with --for reset" },
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
        misuse("--revoke-all goes with --for reset: it leaves no password to sign in with.", "See: --help");
      const user = await needUser(installation.db, emailFrom(input));
      const by = { actor: operator(), address: null };
      const { link, ended } = await transaction(installation.db, async (tx) => {
        const change: AccessChange = { user, action: "user.reset_access", by };
        const ended = revokesAll ? await endAccess(tx, installation, change, null) : null;
        if (input.flag("drop-second-factor")) await dropSecondFactor(tx, installation, user, by);
        return { ended, link: await createLink(tx, installation, { purpose, user }, by) };
      });
      input.terminal.print(`${url}${link.path}`);
      if (ended !== null) {
        const { keys, tokens, sessions } = ended;
        input.terminal.remark(
          `\nEnded: the password, the second factor, API keys (${keys}), tokens (${tokens}), sessions (${sessions}).`,
        );
      }
      input.terminal.remark(`\nIt works once, for an hour. Whoever opens it is ${user.email}.`);
      return 0;
    }),
};

function emailFrom(input: Input): string {
  const email = input.need("email").toLowerCase();
  return isEmail(email)
    ? email
    : misuse(`--email must be ${EMAIL_RULE}.`, "For example: --email ops@example.com");
}
