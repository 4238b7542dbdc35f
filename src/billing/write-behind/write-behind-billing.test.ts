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
  asking,
  LIMITS,
  makeTill,
  mortal,
  noFolder,
  recover,
  settling,
  type TillUnderTest,
} from "../engine/direct-billing.test-support.ts";
import { BillingUnavailable } from "../engine/direct-billing.ts";
import { openSettlementSpool } from "../engine/settlement-spool.ts";
import { listOrphanedJournals, segmentName } from "../journal/left-journals.ts";
import { reconcileLedger } from "../maintenance/reconciliation.ts";
import { NOTHING_LEFT, recoverReservations } from "../recovery/recover-reservations.ts";

const MUCH = 1_000_000n;
let db: Db;

beforeEach(async () => {
  db = await openDb("sqlite::memory:");
  await migrate(db);
  await addFunds(db, "u1", MUCH);
});

const findings = async () =>
  (await reconcileLedger(db, { nowMs: Date.now(), holdLeaseMs: 3_600_000, findingsMax: 10 })).findings;
const journals = (till: TillUnderTest) => readdirSync(till.dir).filter((name) => name.startsWith("journal-"));
const leased = async (till: TillUnderTest) => (await listReservations(db, till.incarnation)).get("u1") ?? 0n;

/** Appends this after the last line of a journal. */
function tellMore(till: TillUnderTest, text: string): void {
  const path = join(till.dir, journals(till).at(-1) ?? "");
  const told = readFileSync(path);
  writeFileSync(path, Buffer.concat([told.subarray(0, told.indexOf(0)), Buffer.from(text)]));
}

/** Another process recovers what `dead` left. */
async function takeOver(dead: TillUnderTest): Promise<void> {
  const till = makeTill(db, { incarnation: "inc_next", dir: dead.dir });
  const recovery = await recover(db, till);
  await recovery.stop();
  await till.stop();
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

test("many holds of one user cost the store a single transaction", async () => {
  const begun = { transactions: 0 };
  const till = makeTill(countingInto(begun), { express: { bookMs: 60_000, bookTogether: 1_000 } });
  const ids = Array.from({ length: 50 }, (_, index) => `r${index}`);
  await till.hold(asking("first"));
  for (const id of ids) {
    expect(await till.hold(asking(id))).toEqual({ kind: "held", amountNano: 100n, subscriptionId: null });
    await till.settle(settling(id, 30n));
  }
  expect(begun.transactions).toBe(1);
  await till.flush();
  expect(await findings()).toEqual([]);
  await till.settleUp("u1");
  expect(await readWallet(db, "u1")).toEqual({ balanceNano: MUCH - 1_500n, heldNano: 100n });
  await till.stop();
});

test("a large booking ends early for whoever waits for the store", async () => {
  const till = makeTill(db, {
    express: { bookMs: 60_000, bookTogether: 1_000, bookAtLeast: 5, bookAtOnce: 5 },
  });
  const ids = Array.from({ length: 50 }, (_, index) => `r${index}`);
  for (const id of ids) {
    await till.hold(asking(id));
    await till.settle(settling(id, 30n));
  }
  const flushed = till.flush();
  const rows = async (tx: Db) => Number((await tx.sql`SELECT COUNT(*) AS many FROM usage`)[0]?.many);
  let many = 0;
  while (many === 0) many = await transaction(db, rows);
  expect(many).toBeLessThan(50);
  await flushed;
  expect(await rows(db)).toBe(50);
  expect(await findings()).toEqual([]);
  await till.stop();
});

test("a journal that is kept for the operator charges nobody again when the rows it tells of were removed", async () => {
  const store = mortal(db);
  const dead = makeTill(store, { incarnation: "inc_dead", express: { bookMs: 60_000 } });
  for (const id of ["r1", "r2", "r3"]) {
    await dead.hold(asking(id));
    await dead.settle(settling(id, 30n));
  }
  await dead.flush();
  await dead.hold(asking("open"));
  store.kill();
  await dead.stop();
  tellMore(dead, '["x", "of another version"]\n');
  await takeOver(dead);
  await removeUsageRows(db, Date.now() + 1, 100);
  await takeOver(dead);
  expect(journals(dead)).not.toEqual([]);
  expect(await readWallet(db, "u1")).toEqual({ balanceNano: MUCH - 90n, heldNano: 0n });
  await dead.stop();
});

test("a quiet gateway asks the store for every hold, and books every end before it is told", async () => {
  const till = makeTill(db, { express: { busyHolds: 5 } });
  for (const id of ["r1", "r2", "r3"]) {
    await till.hold(asking(id));
    expect((await findHolds(db, [id])).size).toBe(1);
    await till.settle(settling(id, 30n));
    expect((await findUsage(db, id))?.chargedNano).toBe(30n);
  }
  expect(await leased(till)).toBe(0n);
  await till.stop();
});

test("however many ask at once, nobody gets what is not there", async () => {
  await addFunds(db, "poor", 1_000n);
  const till = makeTill(db, { express: {} });
  const ids = Array.from({ length: 200 }, (_, index) => `r${index}`);
  const results = await Promise.all(
    ids.map((id, index) =>
      till.hold(asking(id, { userId: "poor", wantedNano: BigInt(1 + (index % 40)), leastNano: 1n })),
    ),
  );
  const given = results.reduce((sum, result) => sum + (result.kind === "held" ? result.amountNano : 0n), 0n);
  expect(given).toBe(1_000n);
  await till.settleUp("poor");
  expect(await readWallet(db, "poor")).toEqual({ balanceNano: 1_000n, heldNano: 1_000n });
  await till.stop();
});

test("a hold that wants more than is set aside gets all that the user has left", async () => {
  const till = makeTill(db, { express: {} });
  await till.hold(asking("small"));
  expect(await leased(till)).toBeGreaterThan(0n);
  const all = await till.hold(asking("all", { wantedNano: 2n * MUCH }));
  expect(all).toEqual({ kind: "held", amountNano: MUCH - 100n, subscriptionId: null });
  expect(await till.hold(asking("none"))).toEqual({ kind: "short", availableNano: 0n, resetsAtMs: null });
  expect(await findings()).toEqual([]);
  await till.stop();
});

test("the same end told twice is booked once, before and after it is in the store", async () => {
  const till = makeTill(db, { express: {} });
  await till.hold(asking("r1"));
  await Promise.all([till.settle(settling("r1", 30n)), till.settle(settling("r1", 30n))]);
  await till.flush();
  await till.settle(settling("r1", 30n));
  await till.settleUp("u1");
  expect(await readWallet(db, "u1")).toEqual({ balanceNano: MUCH - 30n, heldNano: 0n });
  expect(await findings()).toEqual([]);
  await till.stop();
});

test("a hold that lasts becomes a row with what is known of it, and ends as one", async () => {
  const till = makeTill(db, {
    express: { moveAfterMs: 0, lookMs: 5 },
    limits: { ...LIMITS, progressMs: 1, checkpointMs: 1 },
  });
  await till.hold(asking("r1"));
  till.dispatched("r1", "acc_1", "gpt");
  till.checkpoint("r1", 12);
  await eventually(async () => (await findHolds(db, ["r1"])).get("r1")?.outputTokens === 12, 10_000);
  expect((await findHolds(db, ["r1"])).get("r1")).toMatchObject({ state: "dispatched", accountId: "acc_1" });
  till.checkpoint("r1", 40);
  await eventually(async () => (await findHolds(db, ["r1"])).get("r1")?.outputTokens === 40, 10_000);
  await till.settle(settling("r1", 30n));
  expect((await findUsage(db, "r1"))?.chargedNano).toBe(30n);
  await till.settleUp("u1");
  expect(await readWallet(db, "u1")).toEqual({ balanceNano: MUCH - 30n, heldNano: 0n });
  await till.stop();
});

test("what may go on without its client is a row from the start", async () => {
  const till = makeTill(db, { express: {} });
  await till.hold(asking("r1"));
  await till.hold(asking("lasting", { isLasting: true }));
  expect((await findHolds(db, ["lasting"])).size).toBe(1);
  await till.stop();
});

test("what is set aside goes back when its user is quiet, and the journal is thrown away", async () => {
  const till = makeTill(db, { express: { idleMs: 20, lookMs: 5 } });
  await till.hold(asking("r1"));
  await till.settle(settling("r1", 30n));
  await eventually(async () => (await leased(till)) === 0n, 10_000);
  expect(await readWallet(db, "u1")).toEqual({ balanceNano: MUCH - 30n, heldNano: 0n });
  await eventually(() => journals(till).length === 0, 10_000);
  await till.stop();
});

test("what many quiet users had set aside goes back in few transactions", async () => {
  const users = Array.from({ length: 30 }, (_, index) => `quiet ${index}`);
  for (const userId of users) await addFunds(db, userId, MUCH);
  const begun = { transactions: 0 };
  const till = makeTill(countingInto(begun), { express: { idleMs: 200, lookMs: 10 } });
  await Promise.all(users.map((userId) => till.hold(asking(`of ${userId}`, { userId }))));
  begun.transactions = 0;
  await eventually(async () => (await listReservations(db, till.incarnation)).size === 0, 10_000);
  expect(begun.transactions).toBeLessThan(10);
  for (const userId of users) {
    expect(await readWallet(db, userId)).toEqual({ balanceNano: MUCH, heldNano: 100n });
  }
  expect(await findings()).toEqual([]);
  await till.stop();
});

test("a full batch of ended requests is booked at once, paid for or not", async () => {
  const till = makeTill(db, { express: { bookMs: 60_000, bookBusyMs: 60_000, bookTogether: 6 } });
  for (const id of ["r1", "r2", "r3"]) {
    await till.hold(asking(id));
    await till.settle(settling(id, 30n));
    till.push(usageRow({ requestId: `unpaid ${id}`, atMs: Date.now() }));
  }
  await eventually(async () => (await findUsage(db, "unpaid r3")) !== null, 10_000);
  expect((await findUsage(db, "r3"))?.chargedNano).toBe(30n);
  expect(till.unbooked("r3")).toBeNull();
  await till.stop();
});

test("a clean end leaves nothing set aside and no journal", async () => {
  const till = makeTill(db, { express: {} });
  await till.hold(asking("r1"));
  await till.hold(asking("under way"));
  await till.settle(settling("r1", 30n));
  await till.stop();
  expect(journals(till)).toEqual([]);
  expect(await leased(till)).toBe(0n);
  expect(await readWallet(db, "u1")).toEqual({ balanceNano: MUCH - 30n, heldNano: 100n });
  expect(await findings()).toEqual([]);
});

describe("after a process died whose store knew of nothing", () => {
  async function dieWith(work: (till: TillUnderTest) => Promise<void>): Promise<TillUnderTest> {
    const reach = mortal(db);
    const till = makeTill(reach, {
      express: { bookMs: 60_000 },
      incarnation: "inc_dead",
      limits: { ...LIMITS, progressMs: 0, checkpointMs: 0 },
    });
    await work(till);
    // A due timer of the billing engine has written its work.
    await Bun.sleep(5);
    reach.kill();
    await till.stop();
    return till;
  }

  test("what had ended is charged what it used, and what was under way what was seen of it", async () => {
    const dead = await dieWith(async (till) => {
      await Promise.all(["ended", "admitted", "sent", "streaming"].map((id) => till.hold(asking(id))));
      till.dispatched("sent", "acc_1", "gpt");
      till.dispatched("streaming", "acc_1", "gpt");
      till.checkpoint("streaming", 30);
      await till.settle(settling("ended", 77n));
      const open = () => listOrphanedJournals(till.dir, () => false)[0]?.open ?? [];
      await eventually(() => open().some(({ outputTokens }) => outputTokens === 30), 10_000);
      await eventually(() => open().filter(({ state }) => state === "dispatched").length === 2, 10_000);
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

  test("amounts beyond what a number can tell are exact", async () => {
    await addFunds(db, "rich", 2n ** 62n);
    const dead = await dieWith(async (till) => {
      await till.hold(asking("ended", { userId: "rich", wantedNano: 2n ** 58n + 1n }));
      await till.hold(asking("under way", { userId: "rich", wantedNano: 2n ** 57n + 1n }));
      await till.settle(settling("ended", 2n ** 56n + 1n, "rich"));
    });
    const [left] = listOrphanedJournals(dead.dir, () => false);
    expect(left?.open.map(({ amountNano }) => amountNano)).toEqual([2n ** 57n + 1n]);
    await takeOver(dead);
    expect((await findUsage(db, "ended"))?.chargedNano).toBe(2n ** 56n + 1n);
    expect(await readWallet(db, "rich")).toEqual({ balanceNano: 2n ** 62n - 2n ** 56n - 1n, heldNano: 0n });
  });

  test("a successor that dies in the middle of it leaves nothing to be done twice", async () => {
    const dead = await dieWith(async (till) => {
      await Promise.all(["ended", "open"].map((id) => till.hold(asking(id))));
      await till.settle(settling("ended", 77n));
    });
    const [left] = listOrphanedJournals(dead.dir, () => false);
    if (left === undefined) throw new Error("There is no journal.");
    await recoverReservations(db, "inc_dead", left);
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: MUCH, heldNano: 177n });
    await recoverReservations(db, "inc_dead", left);
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: MUCH, heldNano: 177n });
    await takeOver(dead);
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: MUCH - 77n, heldNano: 0n });
    expect(await findings()).toEqual([]);
  });

  test("a line that was torn is left out, and the others count", async () => {
    const dead = await dieWith(async (till) => {
      await till.hold(asking("r1"));
      await till.settle(settling("r1", 77n));
    });
    tellMore(dead, '["s","12","r2",17');
    await takeOver(dead);
    expect((await findUsage(db, "r1"))?.chargedNano).toBe(77n);
    expect(await findUsage(db, "r2")).toBeNull();
    expect(journals(dead)).toEqual([]);
  });

  test("a store that is older than the journal pays from what the wallet has", async () => {
    const dead = await dieWith(async (till) => {
      await till.hold(asking("r1"));
      await till.settle(settling("r1", 77n));
    });
    // As it was before anything was reserved.
    await db.sql`UPDATE wallet SET held_nano = 0`;
    await db.sql`DELETE FROM lease`;
    await takeOver(dead);
    expect((await findUsage(db, "r1"))?.chargedNano).toBe(77n);
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: MUCH - 77n, heldNano: 0n });
    expect(await findings()).toEqual([]);
  });

  test("a journal that was lost gives all that was set aside back", async () => {
    const dead = await dieWith(async (till) => {
      await till.hold(asking("r1"));
    });
    await takeOver(makeTill(db, { incarnation: "inc_elsewhere" }));
    expect(await leased(dead)).toBe(0n);
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: MUCH, heldNano: 0n });
  });
});

describe("while the journal cannot be written", () => {
  test("a hold is refused and holds nothing, and the next ones are rows", async () => {
    const till = makeTill(db, { dir: noFolder(), express: {} });
    await expect(till.hold(asking("r1"))).rejects.toThrow(BillingUnavailable);
    expect(await till.hold(asking("r2"))).toMatchObject({ kind: "held" });
    expect((await findHolds(db, ["r2"])).size).toBe(1);
    await till.settle(settling("r2", 30n));
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: MUCH - 30n, heldNano: 0n });
    expect(till.logged.map(({ event }) => event)).toContain("journal_failed");
  });

  const ids = Array.from({ length: 12 }, (_, index) => `r${index}`);

  /**
   * Requests of write-behind billing end while neither the database nor the journal, except for its last lines,
   * accepts writes.
   */
  async function endInVain(change: Parameters<typeof makeTill>[1] = {}): Promise<TillUnderTest> {
    const reach = mortal(db);
    const limits = { ...LIMITS, settlePatienceMs: 20, retryMs: 20 };
    const till = makeTill(reach, { express: { bookMs: 60_000 }, limits, ...change });
    for (const id of ids) await till.hold(asking(id));
    reach.kill();
    // A folder of the same name prevents the creation of the file.
    const next = join(till.dir, segmentName(till.incarnation, journals(till).length + 1));
    mkdirSync(next);
    await Promise.all(ids.map((id) => till.settle(settling(id, 30n))));
    expect(till.logged.map(({ event }) => event)).toContain("journal_failed");
    rmSync(next, { recursive: true });
    return till;
  }

  test("what ends is on the disk before its request goes on, though the store takes nothing", async () => {
    const till = await endInVain();
    expect(till.isWell()).toBe(true);
    const successor = makeTill(db, { incarnation: "inc_next", dir: till.dir });
    const recovery = await recover(db, successor);
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: MUCH - 360n, heldNano: 0n });
    expect(await findings()).toEqual([]);
    await recovery.stop();
    await successor.stop();
    await till.stop();
  });

  test("what ends is remembered if the disk has no room either, and nothing is held", async () => {
    const till = await endInVain({ spool: openSettlementSpool(noFolder(), "inc_1") });
    expect(till.isWell()).toBe(false);
    await expect(till.hold(asking("next"))).rejects.toThrow(BillingUnavailable);
    await till.stop();
  });
});

test("while the disk fails nothing is held, and what is under way ends", async () => {
  const state = { fails: false };
  const syncing = () => (state.fails ? Promise.reject(new Error("EIO")) : Promise.resolve());
  const limits = { ...LIMITS, retryMs: 20 };
  const till = makeTill(db, { express: {}, durability: "disk", syncing, limits });
  await till.hold(asking("r1"));
  state.fails = true;
  await expect(till.hold(asking("r2"))).rejects.toThrow(BillingUnavailable);
  await till.settle(settling("r1", 30n));
  await expect(till.hold(asking("r3"))).rejects.toThrow(BillingUnavailable);
  state.fails = false;
  await eventually(() => till.isWell(), 10_000);
  await till.settleUp("u1");
  expect(await readWallet(db, "u1")).toEqual({ balanceNano: MUCH - 30n, heldNano: 0n });
  expect(till.logged.map(({ event }) => event)).toEqual(["flush_failed", "flush_succeeded"]);
  expect(await findings()).toEqual([]);
  await till.stop();
});

test("one that the store will not have is kept on the disk, and the others are booked", async () => {
  await db.sql.script(`
    CREATE TRIGGER picky BEFORE INSERT ON usage_row WHEN NEW.request_id = 'bad'
    BEGIN SELECT RAISE(ABORT, 'not this one'); END`);
  const till = makeTill(db, { express: {} });
  const ids = ["r1", "bad", "r2", "r3"];
  for (const id of ids) await till.hold(asking(id));
  for (const id of ids) await till.settle(settling(id, 30n));
  await till.flush();
  expect((await findUsage(db, "r3"))?.chargedNano).toBe(30n);
  const spool = join(till.dir, `settlements-${till.incarnation}.jsonl`);
  await eventually(() => existsSync(spool) && readFileSync(spool, "utf8").includes('"bad"'), 10_000);
  expect(await findUsage(db, "bad")).toBeNull();
  expect(await findings()).toEqual([]);
  await till.stop();
});

test("a process that was taken for dead charges what its wallets have, now that nothing is set aside", async () => {
  const till = makeTill(db, { express: { bookMs: 60_000 } });
  await till.hold(asking("r1"));
  await till.hold(asking("r2"));
  // Another process releases its wallet reservations without having read the journal.
  await recoverReservations(db, till.incarnation, NOTHING_LEFT);
  await till.settle(settling("r1", 30n));
  await till.flush();
  await eventually(async () => (await findUsage(db, "r1")) !== null, 10_000);
  expect((await findUsage(db, "r1"))?.chargedNano).toBe(30n);
  expect(await readWallet(db, "u1")).toEqual({ balanceNano: MUCH - 30n, heldNano: 0n });
  expect(await till.hold(asking("r3"))).toMatchObject({ kind: "held" });
  await till.settle(settling("r3", 40n));
  await till.settleUp("u1");
  expect((await findUsage(db, "r3"))?.chargedNano).toBe(40n);
  expect(await findings()).toEqual([]);
  await till.stop();
});

test("however many lose what was set aside, the store is asked only a few times", async () => {
  const users = Array.from({ length: 40 }, (_, index) => `lost ${index}`);
  for (const userId of users) await addFunds(db, userId, MUCH);
  const begun = { transactions: 0 };
  const till = makeTill(countingInto(begun), { express: { bookMs: 60_000, bookTogether: 1_000 } });
  await Promise.all(users.map((userId) => till.hold(asking(`of ${userId}`, { userId }))));
  await recoverReservations(db, till.incarnation, NOTHING_LEFT);
  for (const userId of users) await till.settle(settling(`of ${userId}`, 30n, userId));
  begun.transactions = 0;
  await till.flush();
  expect(begun.transactions).toBeLessThan(10);
  for (const userId of users) {
    expect((await findUsage(db, `of ${userId}`))?.chargedNano).toBe(30n);
    expect(await readWallet(db, userId)).toEqual({ balanceNano: MUCH - 30n, heldNano: 0n });
  }
  expect(await findings()).toEqual([]);
  await till.stop();
});

test("a row whose lease is gone is in the journal until the store has it", async () => {
  const gate = Promise.withResolvers<void>();
  let begun = Number.NEGATIVE_INFINITY;
  const slow: Db = {
    ...db,
    begin: (mode, work) =>
      ++begun > 1 ? gate.promise.then(() => db.begin(mode, work)) : db.begin(mode, work),
  };
  const till = makeTill(slow, { express: { bookMs: 60_000, lookMs: 1 } });
  await till.hold(asking("r1"));
  await recoverReservations(db, till.incarnation, NOTHING_LEFT);
  await till.settle(settling("r1", 30n));
  begun = 0;
  const flushed = till.flush();
  await eventually(() => begun > 1);
  await Bun.sleep(20);
  expect(journals(till)).not.toEqual([]);
  expect(till.unbooked("r1")).not.toBeNull();
  gate.resolve();
  await flushed;
  expect((await findUsage(db, "r1"))?.chargedNano).toBe(30n);
  expect(till.unbooked("r1")).toBeNull();
  await till.stop();
});

test("a lease that cannot be given back does not keep the others", async () => {
  await addFunds(db, "u2", MUCH);
  const till = makeTill(db, { express: { idleMs: 500, lookMs: 5 } });
  await till.hold(asking("r1"));
  await till.hold(asking("r2", { userId: "u2" }));
  await db.sql`UPDATE lease SET amount_nano = 1 WHERE user_id = 'u1'`;
  await eventually(async () => !(await listReservations(db, till.incarnation)).has("u2"), 10_000);
  await eventually(() => till.logged.some(({ event }) => event === "lease_failed"), 10_000);
  await till.stop();
});

test("while the store is away a flush fails, and everything else goes on", async () => {
  const reach = mortal(db);
  const till = makeTill(reach, { express: {}, limits: { ...LIMITS, retryMs: 20 } });
  await till.hold(asking("r1"));
  await till.settle(settling("r1", 30n));
  reach.kill();
  let ticks = 0;
  const ticking = setInterval(() => ticks++, 1);
  await expect(till.flush()).rejects.toThrow(BillingUnavailable);
  clearInterval(ticking);
  expect(ticks).toBeGreaterThan(0);
  await till.stop();
});

test("one that the store will not have does not keep other rows that nobody pays for", async () => {
  await db.sql.script(`
    CREATE TRIGGER picky BEFORE INSERT ON usage_row WHEN NEW.request_id = 'bad'
    BEGIN SELECT RAISE(ABORT, 'not this one'); END`);
  const till = makeTill(db, { express: {} });
  for (const requestId of ["r1", "bad", "r2"]) till.push(usageRow({ requestId, atMs: Date.now() }));
  await till.flush();
  expect(await findUsage(db, "r1")).not.toBeNull();
  expect(await findUsage(db, "r2")).not.toBeNull();
  expect(till.logged.map(({ event }) => event)).toContain("till_refused");
  await till.stop();
});

test("whoever asks what one user has used does not wait for the rows of others", async () => {
  await addFunds(db, "u2", MUCH);
  const till = makeTill(db, { express: { bookMs: 60_000, bookTogether: 1_000 } });
  for (const userId of ["u1", "u2"]) {
    await till.hold(asking(`paid by ${userId}`, { userId }));
    await till.settle(settling(`paid by ${userId}`, 30n, userId));
    till.push(usageRow({ requestId: `free for ${userId}`, keyId: `key of ${userId}`, userId }));
  }
  await till.settleUp("u1");
  for (const kind of ["paid by", "free for"]) {
    expect(await findUsage(db, `${kind} u1`)).not.toBeNull();
    expect(await findUsage(db, `${kind} u2`)).toBeNull();
  }
  await till.stop();
});

test("where one of many that share a batch is refused, each of the others is charged once", async () => {
  await db.sql.script(`
    CREATE TRIGGER picky BEFORE INSERT ON usage_row WHEN NEW.request_id IN ('r5', 'r17')
    BEGIN SELECT RAISE(ABORT, 'not this one'); END`);
  const till = makeTill(db, { express: { batchRows: 100, bookTogether: 1_000, bookMs: 60_000 } });
  const ids = Array.from({ length: 20 }, (_, index) => `r${index}`);
  for (const id of ids) await till.hold(asking(id));
  for (const id of ids) await till.settle(settling(id, 30n));
  await till.flush();
  await till.settleUp("u1");
  expect((await readWallet(db, "u1")).balanceNano).toBe(MUCH - 18n * 30n);
  for (const id of ids) {
    const isRefused = id === "r5" || id === "r17";
    expect((await findUsage(db, id)) === null).toBe(isRefused);
    expect(till.unbooked(id) === null || isRefused).toBe(true);
  }
  expect(await findings()).toEqual([]);
  await till.stop();
});

test("what has ended is known before the store knows of it", async () => {
  const till = makeTill(db, { express: { bookMs: 60_000 } });
  await till.hold(asking("r1"));
  await till.settle(settling("r1", 30n));
  till.push(usageRow({ requestId: "unpaid" }));
  expect(till.unbooked("r1")?.chargedNano).toBe(30n);
  expect(till.unbooked("unpaid")?.chargedNano).toBe(0n);
  expect(await findUsage(db, "r1")).toBeNull();
  await till.flush();
  expect(till.unbooked("r1")).toBeNull();
  expect(till.unbooked("unpaid")).toBeNull();
  await till.stop();
});

test("with durability on disk nothing is taken from a lease that the disk does not have", async () => {
  const { promise: onDisk, resolve: reachDisk } = Promise.withResolvers<void>();
  const slow: Db = { ...db, flush: () => onDisk };
  const till = makeTill(slow, { express: {}, durability: "disk" });
  let told = false;
  const holding = Promise.resolve(till.hold(asking("r1"))).then(() => (told = true));
  await eventually(async () => (await leased(till)) > 0n, 10_000);
  await Bun.sleep(5);
  expect(told).toBe(false);
  reachDisk();
  await holding;
  await till.stop();
});

test("with durability on disk nobody hears of anything before the disk has the journal", async () => {
  const { promise: onDisk, resolve: reachDisk } = Promise.withResolvers<void>();
  const till = makeTill(db, { express: {}, durability: "disk", syncing: () => onDisk });
  let told = false;
  const holding = Promise.resolve(till.hold(asking("r1"))).then(() => (told = true));
  await eventually(() => journals(till).length > 0, 10_000);
  await Bun.sleep(5);
  expect(told).toBe(false);
  reachDisk();
  await holding;
  await till.stop();
});

test("a request counts as sent only after sockets had a turn to send it, however long the sending turn takes", async () => {
  const till = makeTill(db, { express: {}, limits: { ...LIMITS, progressMs: 1 } });
  await till.hold(asking("first"));
  const upstream = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
  const connected = (open: () => void) =>
    Bun.connect({ hostname: "127.0.0.1", port: upstream.port, socket: { data() {}, open } });
  const isTold = () =>
    journals(till).some((name) => readFileSync(join(till.dir, name), "utf8").includes('["q","dispatched",'));
  const { promise: toldTooSoon, resolve } = Promise.withResolvers<boolean>();
  // A turn for sockets, as when requests arrive.
  await connected(async () => {
    await till.hold(asking("r1"));
    till.dispatched("r1", "acc_1", "gpt");
    void connected(() => resolve(isTold()));
    Bun.sleepSync(20);
  });
  expect(await toldTooSoon).toBe(false);
  await eventually(isTold);
  upstream.stop(true);
  await till.stop();
});
