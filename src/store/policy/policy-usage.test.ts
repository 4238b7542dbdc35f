/** Figures of groups, accounts and models. */

import { expect, test } from "bun:test";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { groupRecord, keyRecord, userRecord } from "../../records/records.test-support.ts";
import { putUser } from "../identity/users.ts";
import { readAccountUsage } from "../reports/account-usage.ts";
import { insertUsage, usageRow } from "../usage/usage-row.test-support.ts";
import { listMembers, readGroupFacts } from "./group-usage.ts";
import { putGroup } from "./groups.ts";
import { insertKey, revokeKey } from "./keys.ts";

const DAY_MS = 86_400_000;
const NOW_MS = 100 * DAY_MS;

const group = (id: string) => groupRecord(id, { access: "members" });
const user = (email: string) => userRecord(`id of ${email}`, { email, groups: ["g1"] });

eachEngine((engine) => {
  test("counts the keys, members and last day of one group only", async () => {
    const db = await engine.open();
    for (const id of ["g1", "g2"]) await putGroup(db, group(id));
    for (const email of ["b@example.com", "A@example.com", "c_d@example.com"]) await putUser(db, user(email));
    for (const id of ["k1", "k2", "k3"]) await insertKey(db, keyRecord(id));
    await revokeKey(db, "k3", 2);
    await insertUsage(db, [
      usageRow({ atMs: NOW_MS - 1, chargedNano: 5n, costNano: 5n }),
      usageRow({ atMs: NOW_MS - 2, outcome: "failed" }),
      usageRow({ atMs: NOW_MS - 2 * DAY_MS, chargedNano: 7n }),
    ]);
    const facts = await readGroupFacts(db, ["g1", "g2"], NOW_MS - DAY_MS);
    expect(facts.get("g1")).toEqual({ keys: 2, members: 3, requests: 2, failed: 1, chargedNano: 5n });
    expect(facts.get("g2")).toEqual({ keys: 0, members: 0, requests: 0, failed: 0, chargedNano: 0n });

    const emails = async (after: string | null, search: string | null) =>
      (await listMembers(db, "g1", { after, search, limit: 2 })).map(({ email }) => email);
    expect(await emails(null, null)).toEqual(["A@example.com", "b@example.com"]);
    expect(await emails("b@example.com", null)).toEqual(["c_d@example.com"]);
    expect(await emails(null, "_")).toEqual(["c_d@example.com"]);
  });

  test("the usage of an account is summed for each span, as far back as rows may be read", async () => {
    const db = await engine.open();
    const money = { upstreamNano: 2n, costNano: 3n, chargedNano: 3n };
    await insertUsage(db, [
      usageRow({ atMs: NOW_MS - 1, accountId: "a", ...money }),
      usageRow({ atMs: NOW_MS - 2, accountId: "a", outcome: "upstream_cut", ...money }),
      usageRow({ atMs: NOW_MS - 3 * DAY_MS, accountId: "a", ...money }),
      usageRow({ atMs: NOW_MS - 40 * DAY_MS, accountId: "a", ...money }),
      usageRow({ atMs: NOW_MS - 1, accountId: "b", ...money }),
    ]);
    const spans = [DAY_MS, 7 * DAY_MS];
    const { byAccount, sinceMs } = await readAccountUsage(db, spans, NOW_MS, 10_000);
    expect(byAccount.get("a")).toEqual([
      { requests: 2, failed: 1, upstreamNano: 4n, costNano: 6n, chargedNano: 6n },
      { requests: 3, failed: 1, upstreamNano: 6n, costNano: 9n, chargedNano: 9n },
    ]);
    expect(byAccount.get("b")?.map(({ requests }) => requests)).toEqual([1, 1]);
    expect(sinceMs).toBe(NOW_MS - 7 * DAY_MS);
  });

  test("with too many rows, the result contains the time since which they were counted", async () => {
    const db = await engine.open();
    const rows = Array.from({ length: 2_500 }, (_, i) => usageRow({ atMs: NOW_MS - i, accountId: "a" }));
    await insertUsage(db, rows);
    const { byAccount, sinceMs } = await readAccountUsage(db, [DAY_MS], NOW_MS, 2_000);
    expect(byAccount.get("a")?.[0]?.requests).toBe(2_000);
    expect(sinceMs).toBe(NOW_MS - 1_999);
  });
});
