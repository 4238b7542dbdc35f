import { expect, test } from "bun:test";
import { eachEngine } from "../../../test/support/each-engine.ts";
import type { Nano } from "../../money/nano.ts";
import { type Db, transaction } from "../../store/engine/db.ts";
import { listUserEntries } from "../../store/money/entries.ts";
import { changeWallets, listReservations } from "../../store/money/wallet-reservations.ts";
import { readWallet } from "../../store/money/wallets.ts";
import { writeSetting } from "../../store/settings/settings.ts";
import { findUsage } from "../../store/usage/usage.ts";
import { Numbering, UsageNumbers } from "../../store/usage/usage-numbers.ts";
import { usageRow } from "../../store/usage/usage-row.test-support.ts";
import { addFunds, buildTestSettlement } from "../engine/direct-billing.test-support.ts";
import { reconcileLedger } from "../maintenance/reconciliation.ts";
import { type MoneyContext, refund } from "../operations/operations.ts";
import { bookBatches } from "./book-batches.ts";
import { RowBatch } from "./row-batch.ts";

const NOW_MS = Date.now();
const ASIDE = 500n;

function buildBatch(userId: string, charged: Readonly<Record<string, Nano>>): RowBatch {
  const batch = new RowBatch(userId, true, 1);
  for (const [requestId, nano] of Object.entries(charged))
    batch.add(buildTestSettlement(requestId, nano, userId).row, 1);
  return batch;
}

async function setAside(db: Db, users: readonly string[]): Promise<void> {
  for (const userId of users) await addFunds(db, userId, 1_000n);
  await transaction(db, (tx) =>
    changeWallets(
      tx,
      "inc",
      users.map((userId) => ({ userId, balanceNano: 0n, heldNano: ASIDE, reservedNano: ASIDE })),
    ),
  );
}

const numbering = () => new Numbering(new UsageNumbers());

function bookAll(db: Db, batches: readonly RowBatch[], mayEnd = (_rows: number) => false): Promise<number> {
  const steps = { size: 2, pause: async () => {}, mayEnd };
  return transaction(db, (tx) => bookBatches(tx, "inc", batches, numbering(), NOW_MS, steps));
}

async function runChecks(db: Db): Promise<string[]> {
  const { findings } = await reconcileLedger(db, { nowMs: NOW_MS, holdAgeMaxMs: 3_600_000, findingsMax: 10 });
  return findings.map(({ check, subject }) => `${check} ${subject}`);
}

/** Three requests of one user in one entry, and one of another user in its own. */
async function someSpent(db: Db): Promise<void> {
  await setAside(db, ["u1", "u2"]);
  await bookAll(db, [
    buildBatch("u1", { r1: 30n, r2: 31n, free: 0n, r3: 32n }),
    buildBatch("u2", { r4: 40n }),
  ]);
}

function createContext(db: Db): MoneyContext {
  let made = 0;
  return { db, clock: { nowMs: () => NOW_MS }, newId: (prefix) => `${prefix}_${++made}` };
}

eachEngine(({ open }) => {
  test("requests of one batch share an entry, and a single request has its own", async () => {
    const db = await open();
    await someSpent(db);
    const [shared, ...more] = await listUserEntries(db, "u1", { limit: 9 });
    expect(shared).toMatchObject({ id: "charge:r1", amountNano: 93n, requestId: null, reason: "3 requests" });
    expect(more).toMatchObject([{ kind: "topup" }]);
    const [own] = await listUserEntries(db, "u2", { limit: 9 });
    expect(own).toMatchObject({ id: "charge:r4", amountNano: 40n, requestId: "r4", reason: null });
    for (const [id, nano] of [
      ["r1", 30n],
      ["free", 0n],
      ["r3", 32n],
    ] as const) {
      expect((await findUsage(db, id))?.chargedNano).toBe(nano);
    }
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 907n, heldNano: ASIDE - 93n });
    expect(await listReservations(db, "inc")).toEqual(
      new Map([
        ["u1", ASIDE - 93n],
        ["u2", ASIDE - 40n],
      ]),
    );
    expect(await runChecks(db)).toEqual([]);
  });

  test("a booking that stops early leaves the remaining batches untouched", async () => {
    const db = await open();
    await setAside(db, ["u1"]);
    const batches = [{ r1: 10n, r2: 10n }, { r3: 10n, r4: 10n }, { r5: 10n }].map((one) =>
      buildBatch("u1", one),
    );
    expect(await bookAll(db, batches, (rows) => rows >= 3)).toBe(2);
    expect(await findUsage(db, "r5")).toBeNull();
    expect((await readWallet(db, "u1")).balanceNano).toBe(960n);
    expect(await runChecks(db)).toEqual([]);
    expect(await bookAll(db, batches.slice(2))).toBe(1);
    expect((await readWallet(db, "u1")).balanceNano).toBe(950n);
    expect(await runChecks(db)).toEqual([]);
  });

  test("yields to other work every few rows, even if no two rows are alike", async () => {
    const db = await open();
    const batches = Array.from({ length: 100 }, (_, index) => {
      const batch = new RowBatch(null, false, 1);
      batch.add(usageRow({ requestId: `r${index}`, cacheWriteTokens: index }), 1);
      return batch;
    });
    let pauses = 0;
    const pause = async () => {
      pauses++;
    };
    const steps = { size: 10, pause, mayEnd: () => false };
    expect(await transaction(db, (tx) => bookBatches(tx, "inc", batches, numbering(), NOW_MS, steps))).toBe(
      100,
    );
    expect(pauses).toBeGreaterThan(10);
  });

  test("a batch with a row that is already booked books nothing of the other batches", async () => {
    const db = await open();
    await someSpent(db);
    const again = [buildBatch("u2", { r5: 1n, r6: 1n }), buildBatch("u1", { r3: 32n })];
    await expect(bookAll(db, again)).rejects.toThrow();
    await bookAll(db, again.slice(0, 1));
    expect((await readWallet(db, "u2")).balanceNano).toBe(958n);
    expect(await runChecks(db)).toEqual([]);
  });

  test.each([
    ["the entry has another amount", "UPDATE entry SET amount_nano = amount_nano + 1 WHERE id = 'charge:r1'"],
    ["the entry is missing", "DELETE FROM entry WHERE id = 'charge:r1'"],
    [
      "a row has another amount",
      "UPDATE usage_row SET charged_nano = charged_nano + 1 WHERE request_id = 'r2'",
    ],
    ["a row is missing", "DELETE FROM usage_row WHERE request_id = 'r2'"],
    [
      "all rows are missing",
      "DELETE FROM usage_row WHERE user_no = (SELECT no FROM usage_id WHERE id = 'u1')",
    ],
    [
      "a row belongs to another user",
      "UPDATE usage_row SET user_no = (SELECT no FROM usage_id WHERE id = 'u2') WHERE request_id = 'r2'",
    ],
  ])("reconciliation reports a shared charge that is not the sum of its rows: %s", async (_what, change) => {
    const db = await open();
    await someSpent(db);
    await db.sql.script(change);
    expect(await runChecks(db)).toContain("shared_charge charge:r1");
  });

  test("a shared charge is not compared with rows removed by retention", async () => {
    const db = await open();
    await someSpent(db);
    await writeSetting(db, "usage_rows_removed_before_ms", String(Date.now() + 1));
    await db.sql`DELETE FROM usage_row WHERE request_id IN ('r1', 'r3')`;
    expect(await runChecks(db)).toEqual([]);
  });

  test("a refund of a request with a shared charge returns at most the request's own part", async () => {
    const db = await open();
    await someSpent(db);
    const by = { actor: "cli:ada", reason: null };
    const desk = createContext(db);
    const { entry } = await refund(desk, { ...by, requestId: "r2", amountNano: "all" });
    expect(entry).toMatchObject({ amountNano: 31n, userId: "u1", requestId: "r2" });
    await expect(refund(desk, { ...by, requestId: "r2", amountNano: 1n })).rejects.toThrow(
      "already fully refunded",
    );
    await expect(refund(desk, { ...by, requestId: "r1", amountNano: 31n })).rejects.toThrow(
      "can still be refunded",
    );
    expect((await readWallet(db, "u1")).balanceNano).toBe(938n);
  });

  test("a request with a shared charge cannot be refunded without its usage row", async () => {
    const db = await open();
    await someSpent(db);
    await db.sql`DELETE FROM usage_row WHERE request_id = 'r1'`;
    const order = { actor: "cli:ada", reason: null, requestId: "r1", amountNano: "all" as const };
    await expect(refund(createContext(db), order)).rejects.toThrow("was not charged");
  });
});
