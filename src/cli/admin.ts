import { timingSafeEqual } from "node:crypto";
import { readFileSync, rmSync } from "node:fs";
import { CLAIM_SETTING, digestOf, readClaim } from "../config/admin-claim.ts";
import type { Settings } from "../config/environment.ts";
import { EMAIL_RULE, isEmail } from "../config/schema.ts";
import { NO_LIMITS } from "../records.ts";
import { type Db, transaction } from "../store/db.ts";
import { bumpKeyRevision } from "../store/revisions.ts";
import { deleteSetting } from "../store/settings.ts";
import { findUserByEmail, listUsers, putUser } from "../store/users.ts";
import { type Command, DATA_OPTION, fail, misuse } from "./command.ts";
import { readPassword } from "./password.ts";
import { withInstallation } from "./store-access.ts";

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
      const { db, settings, clock, newId } = installation;
      const email = input.need("email").toLowerCase();
      if (!isEmail(email)) misuse(`--email must be ${EMAIL_RULE}.`, "For example: --email ops@example.com");
      // Before the password is asked for: nobody should type one for nothing.
      await checkClaim(db, settings, clock.nowMs());
      const passwordHash = await Bun.password.hash(await readPassword(input), "argon2id");
      await transaction(db, async (tx) => {
        // Once more, behind the lock that this takes: of two claims at the same time one must fail.
        await bumpKeyRevision(tx);
        await checkClaim(tx, settings, clock.nowMs());
        await deleteSetting(tx, CLAIM_SETTING);
        const present = await findUserByEmail(tx, email);
        await putUser(tx, {
          id: present?.id ?? newId("user"),
          email: present?.email ?? email,
          role: "admin",
          passwordHash,
          limits: present?.limits ?? NO_LIMITS,
          createdAtMs: present?.createdAtMs ?? clock.nowMs(),
        });
      });
      rmSync(settings.adminTokenFile, { force: true });
      input.terminal.print(`${email} is the administrator now. The one-time token is used up.`);
      return 0;
    }),
};

async function checkClaim(db: Db, settings: Settings, nowMs: number): Promise<void> {
  const claim = await readClaim(db);
  const again = "Restart the gateway: it makes a new token while there is no administrator.";
  if (claim === null) {
    const admin = (await listUsers(db)).find(({ role }) => role === "admin");
    if (admin !== undefined) fail(`There is an administrator already: ${admin.email}. The token works once.`);
    fail("There is no token to claim with.", "Start the gateway first: model-gateway start");
  }
  const token = readToken(settings.adminTokenFile);
  if (token === null) {
    fail(
      `The token file ${settings.adminTokenFile} is missing.`,
      `Is this the right data folder? If so: ${again}`,
    );
  }
  if (!isDigestOf(token, claim.digest)) {
    fail(`The token in ${settings.adminTokenFile} does not belong to this installation.`, again);
  }
  if (claim.expiresAtMs <= nowMs) fail("The token has expired.", again);
}

function readToken(file: string): string | null {
  try {
    return readFileSync(file, "utf8").trim();
  } catch {
    return null;
  }
}

function isDigestOf(token: string, digest: string): boolean {
  const made = Buffer.from(digestOf(token));
  const kept = Buffer.from(digest);
  return made.length === kept.length && timingSafeEqual(made, kept);
}
