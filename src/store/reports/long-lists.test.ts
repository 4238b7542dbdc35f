/** Queries on tables with a hundred thousand rows use an index, and return the same as on small tables. */

import { describe, expect, test } from "bun:test";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { groupRecord } from "../../records/records.test-support.ts";
import { openDb } from "../engine/db.ts";
import { insertRows } from "../engine/insert-rows.ts";
import { migrate } from "../engine/migrate.ts";
import { listMembers } from "../policy/group-usage.ts";
import { putGroup } from "../policy/groups.ts";

describe("a query for", () => {
  test.each([
    [
      "the links of an e-mail address",
      "one_time_link WHERE email = '' AND purpose = ''",
      "one_time_link_email",
    ],
    ["expired links", "one_time_link WHERE expires_at_ms < 1", "one_time_link_expires"],
    ["an action of the audit log", "audit WHERE action = '' ORDER BY seq DESC", "audit_action"],
    [
      "the subscriptions of a plan",
      "subscription WHERE plan_id = '' ORDER BY created_at_ms DESC, id DESC",
      "subscription_plan_at",
    ],
  ])("%s is answered in order by an index", async (_, asked, index) => {
    const db = await openDb("sqlite::memory:");
    await migrate(db);
    const steps = await db.sql.text(`EXPLAIN QUERY PLAN SELECT * FROM ${asked}`, []);
    expect(steps).toHaveLength(1);
    expect(steps[0]?.detail).toContain(`INDEX ${index} `);
    await db.close();
  });
});

eachEngine((engine) => {
  test("members of a large group are paged by e-mail address", async () => {
    const db = await engine.open();
    for (const id of ["large", "other"]) {
      await putGroup(db, groupRecord(id, { name: id, access: "members" }));
    }
    const names = Array.from({ length: 5_010 }, (_, i) => `u${String(i).padStart(4, "0")}`);
    await insertRows(
      db,
      "app_user",
      ["id", "email", "email_folded", "role", "created_at_ms"],
      names.map((name) => [name, `${name}@X.example`, `${name}@x.example`, "user", 1]),
    );
    await insertRows(
      db,
      "group_member",
      ["group_id", "user_id", "position"],
      // The second user is a member of the other group only.
      names.map((name, i) => [i === 1 ? "other" : "large", name, 0]),
    );
    const page = async (after: string | null, search: string | null) =>
      (await listMembers(db, "large", { after, search, limit: 3 })).map(({ userId }) => userId);
    expect(await page(null, null)).toEqual(["u0000", "u0002", "u0003"]);
    expect(await page("u0003@x.example", null)).toEqual(["u0004", "u0005", "u0006"]);
    expect(await page(null, "U500")).toEqual(["u5000", "u5001", "u5002"]);
    expect(await page(null, "u0001")).toEqual([]);
  });
});
