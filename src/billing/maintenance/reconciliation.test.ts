import { expect, test } from "bun:test";
import { eachEngine } from "../../../test/support/postgres.ts";
import { type Db, transaction } from "../../store/engine/db.ts";
import { findEntry, postTransfer } from "../../store/money/ledger.ts";
import { writeSetting } from "../../store/settings/settings.ts";
import { addFunds, asking, makeTill, settling } from "../engine/direct-billing.test-support.ts";
import { reconcileLedger } from "./reconciliation.ts";

const NOW_MS = Date.now();

async function checksOf(db: Db, nowMs = NOW_MS): Promise<string[]> {
  const { findings } = await reconcileLedger(db, { nowMs, holdLeaseMs: 3_600_000, findingsMax: 10 });
  return findings.map(({ check, subject }) => `${check} ${subject}`);
}

/** One settled request and one in flight. */
async function someMoney(db: Db): Promise<void> {
  await addFunds(db, "u1", 1_000n);
  const till = makeTill(db);
  await Promise.all([till.hold(asking("r1")), till.hold(asking("r2"))]);
  await till.settle(settling("r1", 30n));
  await till.stop();
}

eachEngine(({ open }) => {
  test("books that agree have no findings", async () => {
    const db = await open();
    await someMoney(db);
    const { findings, counts } = await reconcileLedger(db, {
      nowMs: NOW_MS,
      holdLeaseMs: 3_600_000,
      findingsMax: 10,
    });
    expect(findings).toEqual([]);
    expect(counts).toEqual({ wallets: 1, entries: 2, holds: 1, rows: 1 });
  });

  test("a balance that is not the sum of its entries is named", async () => {
    const db = await open();
    await someMoney(db);
    await db.sql`UPDATE wallet SET balance_nano = balance_nano + 1`;
    const { findings } = await reconcileLedger(db, {
      nowMs: NOW_MS,
      holdLeaseMs: 3_600_000,
      findingsMax: 10,
    });
    expect(findings).toEqual([{ check: "balance", subject: "user:u1", is: "971", ought: "970" }]);
  });

  test("a wallet or a book that is missing is named", async () => {
    const db = await open();
    await addFunds(db, "u1", 5n);
    await addFunds(db, "u2", 5n);
    await db.sql`DELETE FROM wallet WHERE user_id = 'u1'`;
    await db.sql`DELETE FROM entry WHERE user_id = 'u2'`;
    expect(await checksOf(db)).toEqual(["balance user:u1", "balance user:u2"]);
  });

  test("held money without its hold is named", async () => {
    const db = await open();
    await someMoney(db);
    await db.sql`DELETE FROM hold`;
    expect(await checksOf(db)).toEqual(["held u1"]);
  });

  test("a charged row without its entry is named, and so is one of another amount", async () => {
    const db = await open();
    await someMoney(db);
    await db.sql`UPDATE usage_row SET charged_nano = 31`;
    expect(await checksOf(db)).toContain("row_entry r1");
    await db.sql`DELETE FROM entry WHERE kind = 'charge'`;
    expect(await checksOf(db)).toContain("row_entry r1");
  });

  test("a charge without its row is named, unless its time is one of which rows were removed", async () => {
    const db = await open();
    await someMoney(db);
    await db.sql`DELETE FROM usage_row`;
    await db.sql`DELETE FROM usage_hour`;
    expect(await checksOf(db)).toEqual(["entry_row charge:r1"]);
    await writeSetting(db, "usage_rows_removed_before_ms", String(Date.now() + 1));
    expect(await checksOf(db)).toEqual([]);
  });

  /** As if the entry of this request had been booked twice. */
  async function chargeAgain(db: Db, requestId: string, change: { id: string; requestId: string | null }) {
    const charge = await findEntry(db, `charge:${requestId}`);
    if (charge === null) throw new Error("It was not charged.");
    await transaction(db, (tx) => postTransfer(tx, { ...charge, ...change }));
  }

  test("a second charge of a request is named, whatever its amount and however long rows are kept", async () => {
    const db = await open();
    await someMoney(db);
    await chargeAgain(db, "r1", { id: "charge:zz", requestId: "r1" });
    expect(await checksOf(db)).toEqual(["entry_row charge:zz"]);
    await db.sql`DELETE FROM usage_row`;
    await db.sql`DELETE FROM usage_hour`;
    await writeSetting(db, "usage_rows_removed_before_ms", String(Date.now() + 1));
    expect(await checksOf(db)).toEqual(["entry_row charge:zz"]);
  });

  test("a request that was charged alone and with others is named", async () => {
    const db = await open();
    await someMoney(db);
    await chargeAgain(db, "r1", { id: "charge:shared", requestId: null });
    expect(await checksOf(db)).toEqual(["shared_charge charge:shared"]);
    await db.sql`UPDATE usage_row SET charged_with = 'shared' WHERE request_id = 'r1'`;
    expect(await checksOf(db)).toEqual(["entry_row charge:r1"]);
  });

  test("a charge of another amount or of another user than its row's is named", async () => {
    const db = await open();
    await someMoney(db);
    await db.sql`INSERT INTO usage_id VALUES (99, 'u2')`;
    await db.sql`UPDATE usage_row SET user_no = 99 WHERE request_id = 'r1'`;
    expect(await checksOf(db)).toEqual(["entry_row charge:r1"]);
    await db.sql`UPDATE usage_row SET user_no = (SELECT no FROM usage_id WHERE id = 'u1'), charged_nano = 29
      WHERE request_id = 'r1'`;
    expect(await checksOf(db)).toContain("entry_row charge:r1");
  });

  test("refunds above the charge are named, of a shared charge by what the row says", async () => {
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
    expect(await checksOf(db)).toEqual([]);
    await refund("c", 1n);
    expect(await checksOf(db)).toEqual(["refund r1"]);
    await db.sql`UPDATE entry SET id = 'charge:shared', request_id = NULL WHERE id = 'charge:r1'`;
    await db.sql`UPDATE usage_row SET charged_with = 'shared' WHERE request_id = 'r1'`;
    expect(await checksOf(db)).toEqual(["refund r1"]);
    await db.sql`DELETE FROM usage_row`;
    await db.sql`DELETE FROM usage_hour`;
    await writeSetting(db, "usage_rows_removed_before_ms", String(Date.now() + 1));
    expect(await checksOf(db)).toEqual([]);
  });

  test("a subscription's charge whose hold came after the bound needs no row from before it", async () => {
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
    expect(await checksOf(db)).toEqual(["entry_row charge:r1"]);
    await writeSetting(db, "usage_rows_removed_before_ms", String(since));
    expect(await checksOf(db)).toEqual([]);
  });

  test("a roll-up that is not the sum of its rows is named", async () => {
    const db = await open();
    await someMoney(db);
    await db.sql`UPDATE usage_hour SET charged_nano = charged_nano + 1`;
    const [found] = await checksOf(db);
    expect(found).toStartWith("roll_up k1 ");
  });

  test("a hold that is older than any request can be is named", async () => {
    const db = await open();
    await someMoney(db);
    expect(await checksOf(db, Date.now() + 4_000_000)).toEqual(["hold_lease r2"]);
  });
});
