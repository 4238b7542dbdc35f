/** `model-gateway keys`: lists and revokes API keys. */

import { instantText } from "../base/time.ts";
import { limitsText, limitsToFile } from "../config/schema/usage-limits.ts";
import { type KeyRecord, keyTitle } from "../records/key.ts";
import { findUser, listUsers } from "../store/identity/users.ts";
import { listGroups } from "../store/policy/groups.ts";
import { findKeyByPublicId, listKeys, revokeKey } from "../store/policy/keys.ts";
import { readSuspendedKeys } from "../store/policy/suspended-keys.ts";
import { type CommandDefinition, DATA_OPTION, fail, JSON_OPTION } from "./command.ts";
import { runLogged } from "./operator.ts";
import { printJson } from "./output.ts";
import { withInstallation } from "./store-access.ts";
import { count, table } from "./terminal.ts";

export const listAllKeys: CommandDefinition = {
  changes: "nothing",
  options: { all: { about: "include revoked keys" }, json: JSON_OPTION, data: DATA_OPTION },
  run: (input) =>
    withInstallation(input, async ({ db, clock }) => {
      const { print, printNote: remark, paint } = input.terminal;
      const groups = new Map((await listGroups(db)).map(({ id, name }) => [id, name]));
      const emails = new Map((await listUsers(db)).map(({ id, email }) => [id, email]));
      const nowMs = clock.nowMs();
      const all = await listKeys(db);
      const suspended = await readSuspendedKeys(db);
      const listed = all.filter(
        ({ id, status }) => input.flag("all") || status === "active" || suspended.has(id),
      );
      const keys = listed.map((key) => ({
        public_id: key.publicId,
        name: key.name,
        user: key.userId === null ? null : (emails.get(key.userId) ?? key.userId),
        group: groups.get(key.groupId) ?? key.groupId,
        status: suspended.has(key.id) ? ("suspended" as const) : getStatus(key, nowMs),
        expires: instantText(key.expiresAtMs),
        created: instantText(key.createdAtMs),
        limits: key.limits,
      }));
      if (input.flag("json")) {
        const keyList = keys.map((key) => ({ ...key, limits: limitsToFile(key.limits) ?? null }));
        return printJson(input, keyList);
      }
      const hidden = all.length - keys.length;
      if (keys.length > 0) {
        const colour = {
          active: paint.green,
          expired: paint.yellow,
          suspended: paint.yellow,
          revoked: paint.red,
        };
        const rows = keys.map((key) => [
          key.public_id,
          key.name,
          key.user ?? "-",
          key.group,
          colour[key.status](key.status),
          key.expires?.slice(0, 10) ?? "-",
          key.created?.slice(0, 10) ?? "-",
          limitsText(key.limits) ?? "-",
        ]);
        const header = ["PUBLIC ID", "NAME", "USER", "GROUP", "STATUS", "EXPIRES", "CREATED", "LIMITS"];
        print(table(header, rows, paint));
      } else {
        remark(
          `No keys yet. To create one: ${input.command("keys create", "--name", "NAME", "--group", "GROUP")}`,
        );
      }
      if (hidden > 0)
        remark(paint.dim(`\n${count(hidden, "revoked key")} not shown; use --all to include them.`));
    }),
};

export const revoke: CommandDefinition = {
  changes: "access",
  options: { json: JSON_OPTION, data: DATA_OPTION },
  run: (input) =>
    withInstallation(input, async (installation) => {
      const { db, clock } = installation;
      const publicId = input.require("PUBLIC_ID");
      const key = await findKeyByPublicId(db, publicId);
      // The typed text is not repeated: it may be a pasted secret.
      if (key === null)
        fail(
          "No key has this public id.",
          `The public id is in the first column of: ${input.command("keys list", "--all")}`,
        );
      const email = key.userId === null ? null : ((await findUser(db, key.userId))?.email ?? key.userId);
      const revoked = await runLogged(
        installation,
        (txInstallation) => revokeKey(txInstallation.db, key.id, clock.nowMs()),
        (done) => (done ? { action: "key.remove", target: keyTitle(key.name, email), changes: [] } : null),
      );
      if (input.flag("json")) input.terminal.print(JSON.stringify({ public_id: publicId, revoked }));
      else if (revoked)
        input.terminal.print(
          `Key "${key.name}" (${publicId}) is revoked. Running servers reject it within a second.`,
        );
      else input.terminal.print(`Key "${key.name}" (${publicId}) was already revoked.`);
    }),
};

function getStatus(key: KeyRecord, nowMs: number): "active" | "expired" | "revoked" {
  if (key.status === "revoked") return "revoked";
  return key.expiresAtMs !== null && key.expiresAtMs <= nowMs ? "expired" : "active";
}
