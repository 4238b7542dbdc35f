import { describe, expect, test } from "bun:test";
import { eachEngine, onPostgres } from "../../../test/support/each-engine.ts";
import type { ServiceAccountRecord } from "../../records/service-account.ts";
import { appendChange, listChanges, verifyAuditLog } from "../audit-log/audit-log.ts";
import { transaction } from "../engine/db.ts";
import {
  countTopUp,
  deleteServiceAccount,
  findServiceAccount,
  listServiceAccounts,
  putServiceAccount,
  readTopUpDay,
  readTopUpDayStart,
} from "./service-accounts.ts";
import { findServiceToken, insertServiceToken, listServiceTokens } from "./service-tokens.ts";

const BILLING: ServiceAccountRecord = {
  id: "svc_1",
  name: "billing",
  scopes: ["wallet.read", "wallet.top_up"],
  bounds: { callNano: 5n * 10n ** 9n, dayNano: 9_000_000n * 10n ** 9n },
  expiresAtMs: 2_000,
  createdAtMs: 1_000,
};
const TOKEN = { serviceAccountId: "svc_1", last4: "abcd", worksUntilMs: null, usedAtMs: null };

eachEngine(({ open }) => {
  describe("service accounts", () => {
    test("are read as they were written, and changed by their id", async () => {
      const db = await open();
      await putServiceAccount(db, BILLING);
      expect(await listServiceAccounts(db)).toEqual([BILLING]);
      const changed = { ...BILLING, scopes: ["config.apply"] as const, bounds: null, expiresAtMs: null };
      await putServiceAccount(db, changed);
      expect(await findServiceAccount(db, "svc_1")).toEqual(changed);
      expect(putServiceAccount(db, { ...BILLING, id: "svc_2" })).rejects.toThrow('the name "billing"');
    });

    test("ignore a scope that a later version has stored", async () => {
      const db = await open();
      await putServiceAccount(db, BILLING);
      await db.sql`UPDATE service_account SET scopes = '["wallet.read","of.later"]'`;
      expect((await findServiceAccount(db, "svc_1"))?.scopes).toEqual(["wallet.read"]);
    });

    test("lose their tokens when they are deleted", async () => {
      const db = await open();
      await putServiceAccount(db, BILLING);
      const token = { ...TOKEN, id: "svt_1", createdAtMs: 1_000 };
      await insertServiceToken(db, token, { digest: "d1", othersUntilMs: 1_000 });
      await deleteServiceAccount(db, "svc_1");
      expect(await findServiceToken(db, "d1", 1_500)).toBeNull();
    });
  });

  describe("tokens", () => {
    test("work until a newer one and its overlap, and until the account expires", async () => {
      const db = await open();
      await putServiceAccount(db, BILLING);
      const insert = (id: string, createdAtMs: number, othersUntilMs: number) =>
        insertServiceToken(db, { ...TOKEN, id, createdAtMs }, { digest: `digest of ${id}`, othersUntilMs });
      await insert("svt_1", 1_000, 1_000);
      await insert("svt_2", 1_100, 1_300);
      const works = async (id: string, nowMs: number) =>
        (await findServiceToken(db, `digest of ${id}`, nowMs)) !== null;
      expect([await works("svt_1", 1_299), await works("svt_1", 1_300)]).toEqual([true, false]);
      // A later overlap does not extend an earlier one.
      await insert("svt_3", 1_200, 1_900);
      expect([await works("svt_1", 1_299), await works("svt_1", 1_300)]).toEqual([true, false]);
      expect([await works("svt_3", 1_999), await works("svt_3", 2_000)]).toEqual([true, false]);
      const listed = await listServiceTokens(db, ["svc_1"], 1_400);
      expect(listed.map(({ id }) => id)).toEqual(["svt_3", "svt_2"]);
    });
  });

  describe("the sum of a day", () => {
    test("is exact with transactions of several nodes at once, and rolled back with its transaction", async () => {
      const db = await open();
      await putServiceAccount(db, BILLING);
      const bound = 1_000n;
      const count = () =>
        transaction(db, async (tx) => {
          if ((await countTopUp(tx, "svc_1", 0, 100n)) > bound) throw new Error("exceeded");
        });
      const settled = await Promise.allSettled(Array.from({ length: 25 }, count));
      expect(settled.filter(({ status }) => status === "fulfilled")).toHaveLength(10);
      expect(await readTopUpDay(db, 0)).toEqual(new Map([["svc_1", 1_000n]]));
      expect(await readTopUpDay(db, 86_400_000)).toEqual(new Map());
    });
  });

  test("the audit log names a service account, and has no kind that the version before does not know", async () => {
    const db = await open();
    const actor = { kind: "service", id: "svc_1", name: "billing" } as const;
    await appendChange(db, { atMs: 1, actor, action: "a.b", target: "c", changes: [], address: null });
    expect((await listChanges(db, {}, { after: null, limit: 1 })).rows[0]?.actor).toEqual(actor);
    expect(await db.sql`SELECT DISTINCT actor_kind FROM audit`).toEqual([{ actor_kind: "system" }]);
    expect((await verifyAuditLog(db)).broken).toEqual([]);
  });
});

onPostgres(({ open }) => {
  test("the day of a bound is that of the database, whatever the clock of a node shows", async () => {
    const db = await open();
    const days = await Promise.all(
      [0, 86_400_000].map((aheadMs) => readTopUpDayStart(db, Date.now() + aheadMs)),
    );
    expect(days[0]).toBe(days[1] ?? 0);
    expect(Date.now() - (days[0] ?? 0)).toBeLessThan(86_400_000 + 1_000);
  });
});
