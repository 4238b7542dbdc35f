import { beforeEach, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { eventually } from "../../../test/support/eventually.ts";
import { type Db, openDb, transaction } from "../../store/engine/db.ts";
import { migrate } from "../../store/engine/migrate.ts";
import { findHolds } from "../../store/money/holds.ts";
import { listReservations } from "../../store/money/wallet-reservations.ts";
import { readWallet } from "../../store/money/wallets.ts";
import { findUsage } from "../../store/usage/usage.ts";
import { removeUsageRows } from "../../store/usage/usage-removal.ts";
import { usageRow } from "../../store/usage/usage-row.test-support.ts";
import {
  addFunds,
  type BillingUnderTest,
  buildHoldRequest,
  buildTestSettlement,
  LIMITS,
  makeBilling,
  makeKillableDb,
  makeUnusableFolder,
  recover,
} from "../engine/direct-billing.test-support.ts";
import { BillingUnavailable } from "../engine/direct-billing.ts";
import { SettlementSpool } from "../engine/settlement-spool.ts";
import { listOrphanedJournals, segmentName } from "../journal/orphaned-journals.ts";
import { reconcileLedger } from "../maintenance/reconciliation.ts";
import { NOTHING_LEFT, recoverReservations } from "./recover-reservations.ts";

const MUCH = 1_000_000n;
let db: Db;

beforeEach(async () => {
  db = await openDb("sqlite::memory:");
  await migrate(db);
  await addFunds(db, "u1", MUCH);
});

const findings = async () =>
  (await reconcileLedger(db, { nowMs: Date.now(), holdAgeMaxMs: 3_600_000, findingsMax: 10 })).findings;
const journals = (billingEngine: BillingUnderTest) =>
  readdirSync(billingEngine.dir).filter((name) => name.startsWith("journal-"));
const leased = async (billingEngine: BillingUnderTest) =>
  (await listReservations(db, billingEngine.processId)).get("u1") ?? 0n;

/** Appends this after the last line of a journal. */
function appendToJournal(billingEngine: BillingUnderTest, text: string): void {
  const path = join(billingEngine.dir, journals(billingEngine).at(-1) ?? "");
  const bytes = readFileSync(path);
  writeFileSync(path, Buffer.concat([bytes.subarray(0, bytes.indexOf(0)), Buffer.from(text)]));
}

/** Another process recovers what `dead` left. */
async function takeOver(dead: BillingUnderTest): Promise<void> {
  const billingEngine = makeBilling(db, { processId: "inc_next", dir: dead.dir });
  const recovery = await recover(db, billingEngine);
  await recovery.stop();
  await billingEngine.stop();
}

/** The same database, with every transaction counted. */
function countingInto(begun: { transactions: number }): Db {
  return {
    ...db,
    begin(mode, work) {
      begun.transactions++;
      return db.begin(mode, work);
    },
  };
}

test("many holds of one user need a single transaction", async () => {
  const begun = { transactions: 0 };
  const billingEngine = makeBilling(countingInto(begun), {
    writeBehind: { smallBatchDelayMs: 60_000, bookAtOnceMin: 1_000 },
  });
  const ids = Array.from({ length: 50 }, (_, index) => `r${index}`);
  await billingEngine.hold(buildHoldRequest("first"));
  for (const id of ids) {
    expect(await billingEngine.hold(buildHoldRequest(id))).toEqual({
      kind: "held",
      amountNano: 100n,
      subscriptionId: null,
    });
    await billingEngine.settle(buildTestSettlement(id, 30n));
  }
  expect(begun.transactions).toBe(1);
  await billingEngine.flush();
  expect(await findings()).toEqual([]);
  await billingEngine.flushUser("u1");
  expect(await readWallet(db, "u1")).toEqual({ balanceNano: MUCH - 1_500n, heldNano: 100n });
  await billingEngine.stop();
});

test("a large booking is split when another transaction waits for the database", async () => {
  const billingEngine = makeBilling(db, {
    writeBehind: { smallBatchDelayMs: 60_000, bookAtOnceMin: 1_000, bookBeforeYieldMin: 5, bookStepRows: 5 },
  });
  const ids = Array.from({ length: 50 }, (_, index) => `r${index}`);
  for (const id of ids) {
    await billingEngine.hold(buildHoldRequest(id));
    await billingEngine.settle(buildTestSettlement(id, 30n));
  }
  const flushed = billingEngine.flush();
  const rows = async (tx: Db) => Number((await tx.sql`SELECT COUNT(*) AS many FROM usage`)[0]?.many);
  let many = 0;
  while (many === 0) many = await transaction(db, rows);
  expect(many).toBeLessThan(50);
  await flushed;
  expect(await rows(db)).toBe(50);
  expect(await findings()).toEqual([]);
  await billingEngine.stop();
});

test("a retained journal charges nothing again after its usage rows were removed", async () => {
  const store = makeKillableDb(db);
  const dead = makeBilling(store, { processId: "inc_dead", writeBehind: { smallBatchDelayMs: 60_000 } });
  for (const id of ["r1", "r2", "r3"]) {
    await dead.hold(buildHoldRequest(id));
    await dead.settle(buildTestSettlement(id, 30n));
  }
  await dead.flush();
  await dead.hold(buildHoldRequest("open"));
  store.kill();
  await dead.stop();
  appendToJournal(dead, '["x", "of another version"]\n');
  await takeOver(dead);
  await removeUsageRows(db, { beforeMs: Date.now() + 1, rowsMax: 100 });
  await takeOver(dead);
  expect(journals(dead)).not.toEqual([]);
  expect(await readWallet(db, "u1")).toEqual({ balanceNano: MUCH - 90n, heldNano: 0n });
  await dead.stop();
});

test("at low load, every hold and settlement is a transaction in the database", async () => {
  const billingEngine = makeBilling(db, { writeBehind: { busyHolds: 5 } });
  for (const id of ["r1", "r2", "r3"]) {
    await billingEngine.hold(buildHoldRequest(id));
    expect((await findHolds(db, [id])).size).toBe(1);
    await billingEngine.settle(buildTestSettlement(id, 30n));
    expect((await findUsage(db, id))?.chargedNano).toBe(30n);
  }
  expect(await leased(billingEngine)).toBe(0n);
  await billingEngine.stop();
});

test("concurrent holds never exceed the balance", async () => {
  await addFunds(db, "poor", 1_000n);
  const billingEngine = makeBilling(db, { writeBehind: {} });
  const ids = Array.from({ length: 200 }, (_, index) => `r${index}`);
  const results = await Promise.all(
    ids.map((id, index) =>
      billingEngine.hold(
        buildHoldRequest(id, { userId: "poor", wantedNano: BigInt(1 + (index % 40)), leastNano: 1n }),
      ),
    ),
  );
  const given = results.reduce((sum, result) => sum + (result.kind === "held" ? result.amountNano : 0n), 0n);
  expect(given).toBe(1_000n);
  await billingEngine.flushUser("poor");
  expect(await readWallet(db, "poor")).toEqual({ balanceNano: 1_000n, heldNano: 1_000n });
  await billingEngine.stop();
});

test("a hold above the wallet reservation takes the whole available balance", async () => {
  const billing = makeBilling(db, { writeBehind: {} });
  await billing.hold(buildHoldRequest("small"));
  expect(await leased(billing)).toBeGreaterThan(0n);
  const all = await billing.hold(buildHoldRequest("all", { wantedNano: 2n * MUCH }));
  expect(all).toEqual({ kind: "held", amountNano: MUCH - 100n, subscriptionId: null });
  expect(await billing.hold(buildHoldRequest("none"))).toEqual({
    kind: "short",
    availableNano: 0n,
    resetsAtMs: null,
  });
  expect(await findings()).toEqual([]);
  await billing.stop();
});

test("a repeated settlement is booked once, before and after the database has it", async () => {
  const billing = makeBilling(db, { writeBehind: {} });
  await billing.hold(buildHoldRequest("r1"));
  await Promise.all([
    billing.settle(buildTestSettlement("r1", 30n)),
    billing.settle(buildTestSettlement("r1", 30n)),
  ]);
  await billing.flush();
  await billing.settle(buildTestSettlement("r1", 30n));
  await billing.flushUser("u1");
  expect(await readWallet(db, "u1")).toEqual({ balanceNano: MUCH - 30n, heldNano: 0n });
  expect(await findings()).toEqual([]);
  await billing.stop();
});

test("a long-running hold becomes a row with its progress and settles as one", async () => {
  const billing = makeBilling(db, {
    writeBehind: { moveHoldAfterMs: 0, checkIntervalMs: 5 },
    limits: { ...LIMITS, progressMs: 1, checkpointMs: 1 },
  });
  await billing.hold(buildHoldRequest("r1"));
  billing.recordDispatch("r1", "acc_1", "gpt");
  billing.checkpoint("r1", 12);
  await eventually(async () => (await findHolds(db, ["r1"])).get("r1")?.outputTokens, { equals: 12 });
  expect((await findHolds(db, ["r1"])).get("r1")).toMatchObject({ state: "dispatched", accountId: "acc_1" });
  billing.checkpoint("r1", 40);
  await eventually(async () => (await findHolds(db, ["r1"])).get("r1")?.outputTokens, { equals: 40 });
  await billing.settle(buildTestSettlement("r1", 30n));
  expect((await findUsage(db, "r1"))?.chargedNano).toBe(30n);
  await billing.flushUser("u1");
  expect(await readWallet(db, "u1")).toEqual({ balanceNano: MUCH - 30n, heldNano: 0n });
  await billing.stop();
});

test("a hold that may outlive its client is a row from the start", async () => {
  const billing = makeBilling(db, { writeBehind: {} });
  await billing.hold(buildHoldRequest("r1"));
  await billing.hold(buildHoldRequest("lasting", { isLasting: true }));
  expect((await findHolds(db, ["lasting"])).size).toBe(1);
  await billing.stop();
});

test("an idle user's wallet reservation is released and the journal is deleted", async () => {
  const billing = makeBilling(db, { writeBehind: { idleMs: 20, checkIntervalMs: 5 } });
  await billing.hold(buildHoldRequest("r1"));
  await billing.settle(buildTestSettlement("r1", 30n));
  await eventually(() => leased(billing), { equals: 0n });
  expect(await readWallet(db, "u1")).toEqual({ balanceNano: MUCH - 30n, heldNano: 0n });
  await eventually(() => journals(billing).length, { equals: 0 });
  await billing.stop();
});

test("wallet reservations of many idle users are released in few transactions", async () => {
  const users = Array.from({ length: 30 }, (_, index) => `quiet ${index}`);
  for (const userId of users) await addFunds(db, userId, MUCH);
  const begun = { transactions: 0 };
  const billing = makeBilling(countingInto(begun), { writeBehind: { idleMs: 200, checkIntervalMs: 10 } });
  await Promise.all(users.map((userId) => billing.hold(buildHoldRequest(`of ${userId}`, { userId }))));
  begun.transactions = 0;
  await eventually(async () => (await listReservations(db, billing.processId)).size, { equals: 0 });
  expect(begun.transactions).toBeLessThan(10);
  for (const userId of users) {
    expect(await readWallet(db, userId)).toEqual({ balanceNano: MUCH, heldNano: 100n });
  }
  expect(await findings()).toEqual([]);
  await billing.stop();
});

test("a full batch of settlements and unpaid rows is booked at once", async () => {
  const billing = makeBilling(db, {
    writeBehind: { smallBatchDelayMs: 60_000, largeBatchDelayMs: 60_000, bookAtOnceMin: 6 },
  });
  for (const id of ["r1", "r2", "r3"]) {
    await billing.hold(buildHoldRequest(id));
    await billing.settle(buildTestSettlement(id, 30n));
    billing.push(usageRow({ requestId: `unpaid ${id}`, atMs: Date.now() }));
  }
  await eventually(async () => (await findUsage(db, "unpaid r3")) !== null);
  expect((await findUsage(db, "r3"))?.chargedNano).toBe(30n);
  expect(billing.findUnbookedRow("r3")).toBeNull();
  await billing.stop();
});

test("a clean stop leaves no wallet reservation and no journal", async () => {
  const billing = makeBilling(db, { writeBehind: {} });
  await billing.hold(buildHoldRequest("r1"));
  await billing.hold(buildHoldRequest("under way"));
  await billing.settle(buildTestSettlement("r1", 30n));
  await billing.stop();
  expect(journals(billing)).toEqual([]);
  expect(await leased(billing)).toBe(0n);
  expect(await readWallet(db, "u1")).toEqual({ balanceNano: MUCH - 30n, heldNano: 100n });
  expect(await findings()).toEqual([]);
});

describe("recovery of a process that died before the database knew of its holds", () => {
  async function dieWith(
    work: (billingEngine: BillingUnderTest) => Promise<void>,
  ): Promise<BillingUnderTest> {
    const reach = makeKillableDb(db);
    const billing = makeBilling(reach, {
      writeBehind: { smallBatchDelayMs: 60_000 },
      processId: "inc_dead",
      limits: { ...LIMITS, progressMs: 0, checkpointMs: 0 },
    });
    await work(billing);
    // A due timer of the billing engine has written its work.
    await Bun.sleep(5);
    reach.kill();
    await billing.stop();
    return billing;
  }

  test("settlements are charged as recorded, open holds by their progress", async () => {
    const dead = await dieWith(async (billingEngine) => {
      await Promise.all(
        ["ended", "admitted", "sent", "streaming"].map((id) => billingEngine.hold(buildHoldRequest(id))),
      );
      billingEngine.recordDispatch("sent", "acc_1", "gpt");
      billingEngine.recordDispatch("streaming", "acc_1", "gpt");
      billingEngine.checkpoint("streaming", 30);
      await billingEngine.settle(buildTestSettlement("ended", 77n));
      const open = () => listOrphanedJournals(billingEngine.dir, () => false)[0]?.open ?? [];
      await eventually(() => open().some(({ outputTokens }) => outputTokens === 30));
      await eventually(() => open().filter(({ state }) => state === "dispatched").length, { equals: 2 });
    });
    expect(await findUsage(db, "ended")).toBeNull();
    await takeOver(dead);
    expect((await findUsage(db, "ended"))?.chargedNano).toBe(77n);
    expect(await findUsage(db, "admitted")).toMatchObject({ chargedNano: 0n, flags: ["recovered"] });
    expect(await findUsage(db, "sent")).toMatchObject({ chargedNano: 20n, accountId: "acc_1" });
    expect(await findUsage(db, "streaming")).toMatchObject({ chargedNano: 50n, outputTokens: 30 });
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: MUCH - 77n - 20n - 50n, heldNano: 0n });
    expect(journals(dead)).toEqual([]);
    expect(await findings()).toEqual([]);
  });

  test("amounts beyond the safe integer range are exact", async () => {
    await addFunds(db, "rich", 2n ** 62n);
    const dead = await dieWith(async (billingEngine) => {
      await billingEngine.hold(buildHoldRequest("ended", { userId: "rich", wantedNano: 2n ** 58n + 1n }));
      await billingEngine.hold(buildHoldRequest("under way", { userId: "rich", wantedNano: 2n ** 57n + 1n }));
      await billingEngine.settle(buildTestSettlement("ended", 2n ** 56n + 1n, "rich"));
    });
    const [left] = listOrphanedJournals(dead.dir, () => false);
    expect(left?.open.map(({ amountNano }) => amountNano)).toEqual([2n ** 57n + 1n]);
    await takeOver(dead);
    expect((await findUsage(db, "ended"))?.chargedNano).toBe(2n ** 56n + 1n);
    expect(await readWallet(db, "rich")).toEqual({ balanceNano: 2n ** 62n - 2n ** 56n - 1n, heldNano: 0n });
  });

  test.each([
    ["stored", async () => {}],
    [
      "stored again after a takeover",
      () => recoverReservations(db, NOTHING_LEFT, { deadId: "inc_dead", selfId: "inc_other" }),
    ],
  ])("a hold that was %s and ended without a usage row is not charged", async (_, beforeItIsStored) => {
    const dead = await dieWith(async (billingEngine) => {
      await billingEngine.hold(buildHoldRequest("refused"));
      billingEngine.recordDispatch("refused", "acc_1", "gpt");
      const open = () => listOrphanedJournals(billingEngine.dir, () => false)[0]?.open ?? [];
      await eventually(() => open().some(({ state }) => state === "dispatched"));
      await beforeItIsStored();
      await billingEngine.flushUser("u1");
      expect((await findHolds(db, ["refused"])).get("refused")?.state).toBe("dispatched");
      const { row } = buildTestSettlement("refused", 0n);
      await billingEngine.settle({ row: { ...row, requestCount: 0 }, chargedNano: 0n });
      expect((await findHolds(db, ["refused"])).size).toBe(0);
      // Keeps the journal segment with the first hold.
      await billingEngine.hold(buildHoldRequest("later"));
    });
    const lines = journals(dead).map((name) => readFileSync(join(dead.dir, name), "utf8"));
    expect(lines.join("")).toContain('"refused"');
    await takeOver(dead);
    expect(await findUsage(db, "refused")).toBeNull();
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: MUCH, heldNano: 0n });
  });

  test("a recovering process that dies halfway causes no double booking", async () => {
    const dead = await dieWith(async (billingEngine) => {
      await Promise.all(["ended", "open"].map((id) => billingEngine.hold(buildHoldRequest(id))));
      await billingEngine.settle(buildTestSettlement("ended", 77n));
    });
    const [left] = listOrphanedJournals(dead.dir, () => false);
    if (left === undefined) throw new Error("There is no journal.");
    await recoverReservations(db, left, { deadId: "inc_dead", selfId: "inc_next" });
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: MUCH, heldNano: 177n });
    await recoverReservations(db, left, { deadId: "inc_dead", selfId: "inc_next" });
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: MUCH, heldNano: 177n });
    await takeOver(dead);
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: MUCH - 77n, heldNano: 0n });
    expect(await findings()).toEqual([]);
  });

  test("a torn line is ignored, and the other lines count", async () => {
    const dead = await dieWith(async (billingEngine) => {
      await billingEngine.hold(buildHoldRequest("r1"));
      await billingEngine.settle(buildTestSettlement("r1", 77n));
    });
    appendToJournal(dead, '["s","12","r2",17');
    await takeOver(dead);
    expect((await findUsage(db, "r1"))?.chargedNano).toBe(77n);
    expect(await findUsage(db, "r2")).toBeNull();
    expect(journals(dead)).toEqual([]);
  });

  test("with a database older than the journal, the wallet's balance pays", async () => {
    const dead = await dieWith(async (billingEngine) => {
      await billingEngine.hold(buildHoldRequest("r1"));
      await billingEngine.settle(buildTestSettlement("r1", 77n));
    });
    // The state before anything was reserved.
    await db.sql`UPDATE wallet SET held_nano = 0`;
    await db.sql`DELETE FROM wallet_reservation`;
    await takeOver(dead);
    expect((await findUsage(db, "r1"))?.chargedNano).toBe(77n);
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: MUCH - 77n, heldNano: 0n });
    expect(await findings()).toEqual([]);
  });

  test("if the journal is lost, the whole wallet reservation is released", async () => {
    const dead = await dieWith(async (billingEngine) => {
      await billingEngine.hold(buildHoldRequest("r1"));
    });
    await takeOver(makeBilling(db, { processId: "inc_elsewhere" }));
    expect(await leased(dead)).toBe(0n);
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: MUCH, heldNano: 0n });
  });
});

describe("while the journal cannot be written", () => {
  test("one hold is rejected without holding money, and the next holds are rows", async () => {
    const billing = makeBilling(db, { dir: makeUnusableFolder(), writeBehind: {} });
    await expect(billing.hold(buildHoldRequest("r1"))).rejects.toThrow(BillingUnavailable);
    expect(await billing.hold(buildHoldRequest("r2"))).toMatchObject({ kind: "held" });
    expect((await findHolds(db, ["r2"])).size).toBe(1);
    await billing.settle(buildTestSettlement("r2", 30n));
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: MUCH - 30n, heldNano: 0n });
    expect(billing.logged.map(({ event }) => event)).toContain("journal_failed");
  });

  const ids = Array.from({ length: 12 }, (_, index) => `r${index}`);

  /**
   * Requests of write-behind billing end while neither the database nor the journal, except for its last lines,
   * accepts writes.
   */
  async function endInVain(change: Parameters<typeof makeBilling>[1] = {}): Promise<BillingUnderTest> {
    const reach = makeKillableDb(db);
    const limits = { ...LIMITS, settlementTimeoutMs: 20, retryMs: 20 };
    const billing = makeBilling(reach, { writeBehind: { smallBatchDelayMs: 60_000 }, limits, ...change });
    for (const id of ids) await billing.hold(buildHoldRequest(id));
    reach.kill();
    // A folder of the same name prevents the creation of the file.
    const next = join(billing.dir, segmentName(billing.processId, journals(billing).length + 1));
    mkdirSync(next);
    await Promise.all(ids.map((id) => billing.settle(buildTestSettlement(id, 30n))));
    expect(billing.logged.map(({ event }) => event)).toContain("journal_failed");
    rmSync(next, { recursive: true });
    return billing;
  }

  test("an end is on the disk before its request continues, although the database rejects writes", async () => {
    const billing = await endInVain();
    expect(billing.acceptsHolds()).toBe(true);
    const successor = makeBilling(db, { processId: "inc_next", dir: billing.dir });
    const recovery = await recover(db, successor);
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: MUCH - 360n, heldNano: 0n });
    expect(await findings()).toEqual([]);
    await recovery.stop();
    await successor.stop();
    await billing.stop();
  });

  test("settlements stay in memory if the disk is full too, and holds are rejected", async () => {
    const billing = await endInVain({ spool: new SettlementSpool(makeUnusableFolder(), "inc_1") });
    expect(billing.acceptsHolds()).toBe(false);
    await expect(billing.hold(buildHoldRequest("next"))).rejects.toThrow(BillingUnavailable);
    await billing.stop();
  });
});

test("while the disk fails, holds are rejected and requests in flight are settled", async () => {
  const state = { fails: false };
  const syncing = () => (state.fails ? Promise.reject(new Error("EIO")) : Promise.resolve());
  const limits = { ...LIMITS, retryMs: 20 };
  const billing = makeBilling(db, { writeBehind: {}, durability: "disk", syncing, limits });
  await billing.hold(buildHoldRequest("r1"));
  state.fails = true;
  await expect(billing.hold(buildHoldRequest("r2"))).rejects.toThrow(BillingUnavailable);
  await billing.settle(buildTestSettlement("r1", 30n));
  await expect(billing.hold(buildHoldRequest("r3"))).rejects.toThrow(BillingUnavailable);
  state.fails = false;
  await eventually(() => billing.acceptsHolds());
  await billing.flushUser("u1");
  expect(await readWallet(db, "u1")).toEqual({ balanceNano: MUCH - 30n, heldNano: 0n });
  expect(billing.logged.map(({ event }) => event)).toEqual(["flush_failed", "flush_succeeded"]);
  expect(await findings()).toEqual([]);
  await billing.stop();
});

test("a settlement that the database rejects is kept on disk, and the others are booked", async () => {
  await db.sql.script(`
    CREATE TRIGGER picky BEFORE INSERT ON usage_row WHEN NEW.request_id = 'bad'
    BEGIN SELECT RAISE(ABORT, 'not this one'); END`);
  const billing = makeBilling(db, { writeBehind: {} });
  const ids = ["r1", "bad", "r2", "r3"];
  for (const id of ids) await billing.hold(buildHoldRequest(id));
  for (const id of ids) await billing.settle(buildTestSettlement(id, 30n));
  await billing.flush();
  expect((await findUsage(db, "r3"))?.chargedNano).toBe(30n);
  const spool = join(billing.dir, `settlements-${billing.processId}.jsonl`);
  await eventually(() => existsSync(spool) && readFileSync(spool, "utf8").includes('"bad"'));
  expect(await findUsage(db, "bad")).toBeNull();
  expect(await findings()).toEqual([]);
  await billing.stop();
});

test("a process wrongly considered dead charges its finished requests and holds money for the others", async () => {
  const billing = makeBilling(db, { writeBehind: { smallBatchDelayMs: 60_000 } });
  await billing.hold(buildHoldRequest("r1"));
  await billing.hold(buildHoldRequest("r2"));
  // Another process releases its wallet reservations without having read the journal.
  await recoverReservations(db, NOTHING_LEFT, { deadId: billing.processId, selfId: "inc_other" });
  await billing.settle(buildTestSettlement("r1", 30n));
  await billing.flush();
  await eventually(async () => (await findUsage(db, "r1")) !== null);
  expect((await findUsage(db, "r1"))?.chargedNano).toBe(30n);
  expect(await readWallet(db, "u1")).toEqual({ balanceNano: MUCH - 30n, heldNano: 100n });
  expect(await billing.hold(buildHoldRequest("r3"))).toMatchObject({ kind: "held" });
  await billing.settle(buildTestSettlement("r2", 50n));
  await billing.settle(buildTestSettlement("r3", 40n));
  await billing.flushUser("u1");
  expect((await findUsage(db, "r2"))?.chargedNano).toBe(50n);
  expect((await findUsage(db, "r3"))?.chargedNano).toBe(40n);
  expect(await readWallet(db, "u1")).toEqual({ balanceNano: MUCH - 120n, heldNano: 0n });
  expect(await findings()).toEqual([]);
  await billing.stop();
});

test("losing many wallet reservations causes only a few transactions", async () => {
  const users = Array.from({ length: 40 }, (_, index) => `lost ${index}`);
  for (const userId of users) await addFunds(db, userId, MUCH);
  const begun = { transactions: 0 };
  const billing = makeBilling(countingInto(begun), {
    writeBehind: { smallBatchDelayMs: 60_000, bookAtOnceMin: 1_000 },
  });
  await Promise.all(users.map((userId) => billing.hold(buildHoldRequest(`of ${userId}`, { userId }))));
  await recoverReservations(db, NOTHING_LEFT, { deadId: billing.processId, selfId: "inc_other" });
  for (const userId of users) await billing.settle(buildTestSettlement(`of ${userId}`, 30n, userId));
  begun.transactions = 0;
  await billing.flush();
  expect(begun.transactions).toBeLessThan(10);
  for (const userId of users) {
    expect((await findUsage(db, `of ${userId}`))?.chargedNano).toBe(30n);
    expect(await readWallet(db, userId)).toEqual({ balanceNano: MUCH - 30n, heldNano: 0n });
  }
  expect(await findings()).toEqual([]);
  await billing.stop();
});

test("a row whose wallet reservation is gone stays in the journal until the database has it", async () => {
  const gate = Promise.withResolvers<void>();
  let begun = Number.NEGATIVE_INFINITY;
  const slow: Db = {
    ...db,
    begin: (mode, work) =>
      ++begun > 1 ? gate.promise.then(() => db.begin(mode, work)) : db.begin(mode, work),
  };
  const billing = makeBilling(slow, { writeBehind: { smallBatchDelayMs: 60_000, checkIntervalMs: 1 } });
  await billing.hold(buildHoldRequest("r1"));
  await recoverReservations(db, NOTHING_LEFT, { deadId: billing.processId, selfId: "inc_other" });
  await billing.settle(buildTestSettlement("r1", 30n));
  begun = 0;
  const flushed = billing.flush();
  await eventually(() => begun > 1);
  // The journal would have dropped the row by then.
  await Bun.sleep(20);
  expect(journals(billing)).not.toEqual([]);
  expect(billing.findUnbookedRow("r1")).not.toBeNull();
  gate.resolve();
  await flushed;
  expect((await findUsage(db, "r1"))?.chargedNano).toBe(30n);
  expect(billing.findUnbookedRow("r1")).toBeNull();
  await billing.stop();
});

test("a wallet reservation that cannot be released does not block the others", async () => {
  await addFunds(db, "u2", MUCH);
  const billing = makeBilling(db, { writeBehind: { idleMs: 500, checkIntervalMs: 5 } });
  await billing.hold(buildHoldRequest("r1"));
  await billing.hold(buildHoldRequest("r2", { userId: "u2" }));
  await db.sql`UPDATE wallet_reservation SET amount_nano = 1 WHERE user_id = 'u1'`;
  await eventually(async () => !(await listReservations(db, billing.processId)).has("u2"));
  await eventually(() => billing.logged.some(({ event }) => event === "wallet_reservation_failed"));
  await billing.stop();
});

test("while the database is unavailable, a flush fails and everything else continues", async () => {
  const reach = makeKillableDb(db);
  const billing = makeBilling(reach, { writeBehind: {}, limits: { ...LIMITS, retryMs: 20 } });
  await billing.hold(buildHoldRequest("r1"));
  await billing.settle(buildTestSettlement("r1", 30n));
  reach.kill();
  let ticks = 0;
  const ticking = setInterval(() => ticks++, 1);
  await expect(billing.flush()).rejects.toThrow(BillingUnavailable);
  clearInterval(ticking);
  expect(ticks).toBeGreaterThan(0);
  await billing.stop();
});

test("an unpaid row that the database rejects does not block other unpaid rows", async () => {
  await db.sql.script(`
    CREATE TRIGGER picky BEFORE INSERT ON usage_row WHEN NEW.request_id = 'bad'
    BEGIN SELECT RAISE(ABORT, 'not this one'); END`);
  const billing = makeBilling(db, { writeBehind: {} });
  for (const requestId of ["r1", "bad", "r2"]) billing.push(usageRow({ requestId, atMs: Date.now() }));
  await billing.flush();
  expect(await findUsage(db, "r1")).not.toBeNull();
  expect(await findUsage(db, "r2")).not.toBeNull();
  expect(billing.logged.map(({ event }) => event)).toContain("billing_operation_rejected");
  await billing.stop();
});

test("flushing the usage of one user does not wait for other users' rows", async () => {
  await addFunds(db, "u2", MUCH);
  const billing = makeBilling(db, { writeBehind: { smallBatchDelayMs: 60_000, bookAtOnceMin: 1_000 } });
  for (const userId of ["u1", "u2"]) {
    await billing.hold(buildHoldRequest(`paid by ${userId}`, { userId }));
    await billing.settle(buildTestSettlement(`paid by ${userId}`, 30n, userId));
    billing.push(usageRow({ requestId: `free for ${userId}`, keyId: `key of ${userId}`, userId }));
  }
  await billing.flushUser("u1");
  for (const kind of ["paid by", "free for"]) {
    expect(await findUsage(db, `${kind} u1`)).not.toBeNull();
    expect(await findUsage(db, `${kind} u2`)).toBeNull();
  }
  await billing.stop();
});

test("when the database rejects some rows of a batch, each other row is charged once", async () => {
  await db.sql.script(`
    CREATE TRIGGER picky BEFORE INSERT ON usage_row WHEN NEW.request_id IN ('r5', 'r17')
    BEGIN SELECT RAISE(ABORT, 'not this one'); END`);
  const billing = makeBilling(db, {
    writeBehind: { batchRows: 100, bookAtOnceMin: 1_000, smallBatchDelayMs: 60_000 },
  });
  const ids = Array.from({ length: 20 }, (_, index) => `r${index}`);
  for (const id of ids) await billing.hold(buildHoldRequest(id));
  for (const id of ids) await billing.settle(buildTestSettlement(id, 30n));
  await billing.flush();
  await billing.flushUser("u1");
  expect((await readWallet(db, "u1")).balanceNano).toBe(MUCH - 18n * 30n);
  for (const id of ids) {
    const isRejected = id === "r5" || id === "r17";
    expect((await findUsage(db, id)) === null).toBe(isRejected);
    expect(billing.findUnbookedRow(id) === null || isRejected).toBe(true);
  }
  expect(await findings()).toEqual([]);
  await billing.stop();
});

test("a finished request can be looked up before the database has it", async () => {
  const billing = makeBilling(db, { writeBehind: { smallBatchDelayMs: 60_000 } });
  await billing.hold(buildHoldRequest("r1"));
  await billing.settle(buildTestSettlement("r1", 30n));
  billing.push(usageRow({ requestId: "unpaid" }));
  expect(billing.findUnbookedRow("r1")?.chargedNano).toBe(30n);
  expect(billing.findUnbookedRow("unpaid")?.chargedNano).toBe(0n);
  expect(await findUsage(db, "r1")).toBeNull();
  await billing.flush();
  expect(billing.findUnbookedRow("r1")).toBeNull();
  expect(billing.findUnbookedRow("unpaid")).toBeNull();
  await billing.stop();
});

test("with durability in the database, settlements wait for a transaction that they share", async () => {
  const begun = { transactions: 0 };
  const billing = makeBilling(countingInto(begun), {
    durability: "store",
    writeBehind: { smallBatchDelayMs: 60_000, bookAtOnceMin: 1_000 },
  });
  const ids = Array.from({ length: 20 }, (_, index) => `r${index}`);
  for (const id of ids) await billing.hold(buildHoldRequest(id));
  begun.transactions = 0;
  await Promise.all(ids.map((id) => billing.settle(buildTestSettlement(id, 30n))));
  for (const id of ids) expect((await findUsage(db, id))?.chargedNano).toBe(30n);
  expect(begun.transactions).toBeLessThan(5);
  await billing.stop();
});

test("with durability on disk, a hold waits until its wallet reservation is on disk", async () => {
  const { promise: onDisk, resolve: reachDisk } = Promise.withResolvers<void>();
  const slow: Db = { ...db, flush: () => onDisk };
  const billing = makeBilling(slow, { writeBehind: {}, durability: "disk" });
  let isHeld = false;
  const holding = Promise.resolve(billing.hold(buildHoldRequest("r1"))).then(() => (isHeld = true));
  await eventually(async () => (await leased(billing)) > 0n);
  await Bun.sleep(5);
  expect(isHeld).toBe(false);
  reachDisk();
  await holding;
  await billing.stop();
});

test("with durability on disk, a hold waits until the journal is on disk", async () => {
  const { promise: onDisk, resolve: reachDisk } = Promise.withResolvers<void>();
  const billing = makeBilling(db, { writeBehind: {}, durability: "disk", syncing: () => onDisk });
  let isHeld = false;
  const holding = Promise.resolve(billing.hold(buildHoldRequest("r1"))).then(() => (isHeld = true));
  await eventually(() => journals(billing).length > 0);
  await Bun.sleep(5);
  expect(isHeld).toBe(false);
  reachDisk();
  await holding;
  await billing.stop();
});
