import { expect, test } from "bun:test";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { type Db, transaction } from "../../store/engine/db.ts";
import { findEntry, postTransfer } from "../../store/money/ledger.ts";
import { writeSetting } from "../../store/settings/settings.ts";
import {
  addFunds,
  buildHoldRequest,
  buildTestSettlement,
  makeBilling,
} from "../engine/direct-billing.test-support.ts";
import { reconcileLedger } from "./reconciliation.ts";

const NOW_MS = Date.now();

async function runChecks(db: Db, nowMs = NOW_MS): Promise<string[]> {
  const { findings } = await reconcileLedger(db, { nowMs, holdAgeMaxMs: 3_600_000, findingsMax: 10 });
  return findings.map(({ check, subject }) => `${check} ${subject}`);
}

/** One settled request and one in flight. */
async function someMoney(db: Db): Promise<void> {
  await addFunds(db, "u1", 1_000n);
  const billingEngine = makeBilling(db);
  await Promise.all([billingEngine.hold(buildHoldRequest("r1")), billingEngine.hold(buildHoldRequest("r2"))]);
  await billingEngine.settle(buildTestSettlement("r1", 30n));
  await billingEngine.stop();
}

eachEngine(({ open }) => {
  test("a consistent ledger has no findings", async () => {
    const db = await open();
    await someMoney(db);
    const { findings, counts } = await reconcileLedger(db, {
      nowMs: NOW_MS,
      holdAgeMaxMs: 3_600_000,
      findingsMax: 10,
    });
    expect(findings).toEqual([]);
    expect(counts).toEqual({ wallets: 1, entries: 2, holds: 1, rows: 1 });
  });

  test("reports a balance that is not the sum of its entries", async () => {
    const db = await open();
    await someMoney(db);
    await db.sql`UPDATE wallet SET balance_nano = balance_nano + 1`;
    const { findings } = await reconcileLedger(db, {
      nowMs: NOW_MS,
      holdAgeMaxMs: 3_600_000,
      findingsMax: 10,
    });
    expect(findings).toEqual([{ check: "balance", subject: "user:u1", is: "971", ought: "970" }]);
  });

  test("reports a missing wallet and missing entries", async () => {
    const db = await open();
    await addFunds(db, "u1", 5n);
    await addFunds(db, "u2", 5n);
    await db.sql`DELETE FROM wallet WHERE user_id = 'u1'`;
    await db.sql`DELETE FROM entry WHERE user_id = 'u2'`;
    expect(await runChecks(db)).toEqual(["balance user:u1", "balance user:u2"]);
  });

  test("reports held money without its hold", async () => {
    const db = await open();
    await someMoney(db);
    await db.sql`DELETE FROM hold`;
    expect(await runChecks(db)).toEqual(["held u1"]);
  });

  test("reports a charged row without its entry or with another amount", async () => {
    const db = await open();
    await someMoney(db);
    await db.sql`UPDATE usage_row SET charged_nano = 31`;
    expect(await runChecks(db)).toContain("row_entry r1");
    await db.sql`DELETE FROM entry WHERE kind = 'charge'`;
    expect(await runChecks(db)).toContain("row_entry r1");
  });

  test("reports a charge without its row, unless retention removed the rows of that time", async () => {
    const db = await open();
    await someMoney(db);
    await db.sql`DELETE FROM usage_row`;
    await db.sql`DELETE FROM usage_hour`;
    expect(await runChecks(db)).toEqual(["entry_row charge:r1"]);
    await writeSetting(db, "usage_rows_removed_before_ms", String(Date.now() + 1));
    expect(await runChecks(db)).toEqual([]);
  });

  /** As if the entry of this request had been booked twice. */
  async function chargeAgain(db: Db, requestId: string, change: { id: string; requestId: string | null }) {
    const charge = await findEntry(db, `charge:${requestId}`);
    if (charge === null) throw new Error("It was not charged.");
    await transaction(db, (tx) => postTransfer(tx, { ...charge, ...change }));
  }

  test("reports a second charge of a request, even after its rows were removed", async () => {
    const db = await open();
    await someMoney(db);
    await chargeAgain(db, "r1", { id: "charge:zz", requestId: "r1" });
    expect(await runChecks(db)).toEqual(["entry_row charge:zz"]);
    await db.sql`DELETE FROM usage_row`;
    await db.sql`DELETE FROM usage_hour`;
    await writeSetting(db, "usage_rows_removed_before_ms", String(Date.now() + 1));
    expect(await runChecks(db)).toEqual(["entry_row charge:zz"]);
  });

  test("reports a request that was charged both alone and in a shared charge", async () => {
    const db = await open();
    await someMoney(db);
    await chargeAgain(db, "r1", { id: "charge:shared", requestId: null });
    expect(await runChecks(db)).toEqual(["shared_charge charge:shared"]);
    await db.sql`UPDATE usage_row SET charged_with = 'shared' WHERE request_id = 'r1'`;
    expect(await runChecks(db)).toEqual(["entry_row charge:r1"]);
  });

  test("reports a charge whose amount or user differs from its row", async () => {
    const db = await open();
    await someMoney(db);
    await db.sql`INSERT INTO usage_id VALUES (99, 'u2')`;
    await db.sql`UPDATE usage_row SET user_no = 99 WHERE request_id = 'r1'`;
    expect(await runChecks(db)).toEqual(["entry_row charge:r1"]);
    await db.sql`UPDATE usage_row SET user_no = (SELECT no FROM usage_id WHERE id = 'u1'), charged_nano = 29
      WHERE request_id = 'r1'`;
    expect(await runChecks(db)).toContain("entry_row charge:r1");
  });

  test("reports refunds above the charge; the row limits refunds of a shared charge", async () => {
    const db = await open();
    await someMoney(db);
    const refund = (id: string, amountNano: bigint) =>
      transaction(db, (tx) =>
        postTransfer(tx, {
          id: `refund:${id}`,
          atMs: NOW_MS,
          kind: "refund",
          debit: "refund",
          credit: "user:u1",
          amountNano,
          userId: "u1",
          subscriptionId: null,
          requestId: "r1",
          actor: "test",
          reason: null,
        }),
      );
    await refund("a", 20n);
    await refund("b", 10n);
    expect(await runChecks(db)).toEqual([]);
    await refund("c", 1n);
    expect(await runChecks(db)).toEqual(["refund r1"]);
    await db.sql`UPDATE entry SET id = 'charge:shared', request_id = NULL WHERE id = 'charge:r1'`;
    await db.sql`UPDATE usage_row SET charged_with = 'shared' WHERE request_id = 'r1'`;
    expect(await runChecks(db)).toEqual(["refund r1"]);
    await db.sql`DELETE FROM usage_row`;
    await db.sql`DELETE FROM usage_hour`;
    await writeSetting(db, "usage_rows_removed_before_ms", String(Date.now() + 1));
    expect(await runChecks(db)).toEqual([]);
  });

  test("a subscription charge with a hold newer than the retention bound needs no older row", async () => {
    const db = await open();
    await someMoney(db);
    const since = NOW_MS - 50;
    await db.sql`INSERT INTO plan VALUES ('p1', 'pro', 'UTC', '[]', 1)`;
    await db.sql`INSERT INTO subscription VALUES ('sub_1', 'u1', 'p1', 1, NULL, 'none', 1, 'active', 1)`;
    await db.sql`UPDATE entry SET at_ms = ${NOW_MS}, subscription_id = 'sub_1', debit = 'subscription:sub_1'
      WHERE id = 'charge:r1'`;
    await db.sql`UPDATE wallet SET balance_nano = balance_nano + 30`;
    await db.sql`DELETE FROM usage_row`;
    await db.sql`DELETE FROM usage_hour`;
    expect(await runChecks(db)).toEqual(["entry_row charge:r1"]);
    await writeSetting(db, "usage_rows_removed_before_ms", String(since));
    expect(await runChecks(db)).toEqual([]);
  });

  test("reports a roll-up that is not the sum of its rows", async () => {
    const db = await open();
    await someMoney(db);
    await db.sql`UPDATE usage_hour SET charged_nano = charged_nano + 1`;
    const [found] = await runChecks(db);
    expect(found).toStartWith("roll_up k1 ");
  });

  test("reports a hold that is older than any request can be", async () => {
    const db = await open();
    await someMoney(db);
    expect(await runChecks(db, Date.now() + 4_000_000)).toEqual(["hold_lease r2"]);
  });
});
