import { describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "../../../test/support/eventually.ts";
import { eachEngine } from "../../../test/support/postgres.ts";
import { limits } from "../../config/product-limits.ts";
import { type Db, openDb } from "../../store/engine/db.ts";
import { migrate } from "../../store/engine/migrate.ts";
import { findHolds } from "../../store/money/holds.ts";
import { findEntry } from "../../store/money/ledger.ts";
import { readWallet } from "../../store/money/wallets.ts";
import { findUsage, keyTotals } from "../../store/usage/usage.ts";
import { usageRow } from "../../store/usage/usage-row.test-support.ts";
import { reconcileLedger } from "../maintenance/reconciliation.ts";
import { addFunds, asking, makeTill, noFolder, settling } from "./direct-billing.test-support.ts";
import { BillingUnavailable } from "./direct-billing.ts";

const findings = async (db: Db) =>
  (await reconcileLedger(db, { nowMs: Date.now(), holdLeaseMs: 3_600_000, findingsMax: 10 })).findings;

eachEngine(({ open, emptyUrl }) => {
  test("a hold takes what is wanted, and its settlement gives back what was not charged", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const till = makeTill(db);
    expect(await till.hold(asking("r1"))).toEqual({ kind: "held", amountNano: 100n, subscriptionId: null });
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 1_000n, heldNano: 100n });
    await till.settle(settling("r1", 30n));
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 970n, heldNano: 0n });
    expect(await findEntry(db, "charge:r1")).toMatchObject({
      debit: "user:u1",
      credit: "revenue",
      amountNano: 30n,
      requestId: "r1",
    });
    expect(await findUsage(db, "r1")).toMatchObject({ chargedNano: 30n, costNano: 30n, payer: "balance" });
    expect(await keyTotals(db, "k1", null)).toMatchObject({ requests: 1, chargedNano: 30n });
    expect(await findings(db)).toEqual([]);
    await till.stop();
  });

  test("a hold takes the rest when that covers the least, and nothing when it does not", async () => {
    const db = await open();
    await addFunds(db, "u1", 150n);
    const till = makeTill(db);
    const results = await Promise.all(["r1", "r2", "r3"].map((id) => till.hold(asking(id))));
    expect(results).toEqual([
      { kind: "held", amountNano: 100n, subscriptionId: null },
      { kind: "held", amountNano: 50n, subscriptionId: null },
      { kind: "short", availableNano: 0n, resetsAtMs: null },
    ]);
    expect(await till.hold(asking("r4", { userId: "nobody" }))).toMatchObject({ kind: "short" });
    await till.stop();
  });

  test("a request that costs nothing needs no wallet, and leaves no entry", async () => {
    const db = await open();
    const till = makeTill(db);
    expect(await till.hold(asking("r1", { wantedNano: 0n, leastNano: 0n }))).toMatchObject({ kind: "held" });
    await till.settle(settling("r1", 0n));
    expect(await findEntry(db, "charge:r1")).toBeNull();
    expect(await findUsage(db, "r1")).not.toBeNull();
    expect(await findings(db)).toEqual([]);
    await till.stop();
  });

  test("two hundred requests at once on one cent never spend more than a cent", async () => {
    const db = await open();
    const cent = 10_000_000n;
    await addFunds(db, "u1", cent);
    const till = makeTill(db);
    const ids = Array.from({ length: 200 }, (_, index) => `r${index}`);
    const wanted = { wantedNano: 300_000n, leastNano: 100_000n };
    const results = await Promise.all(ids.map((id) => till.hold(asking(id, wanted))));
    const heldNano = results.reduce((sum, one) => sum + (one.kind === "held" ? one.amountNano : 0n), 0n);
    expect(heldNano).toBe(cent);
    await Promise.all(
      results.map((one, index) =>
        one.kind === "held" ? till.settle(settling(`r${index}`, one.amountNano)) : null,
      ),
    );
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 0n, heldNano: 0n });
    expect(await findings(db)).toEqual([]);
    await till.stop();
  });

  test("the same settlement twice is booked once, at once or later", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const till = makeTill(db);
    await till.hold(asking("r1"));
    await Promise.all([till.settle(settling("r1", 30n)), till.settle(settling("r1", 30n))]);
    await till.settle(settling("r1", 30n));
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 970n, heldNano: 0n });
    expect((await keyTotals(db, "k1", null)).requests).toBe(1);
    expect(till.logged).toEqual([]);
    expect(await findings(db)).toEqual([]);
    await till.stop();
  });

  test("a cost above the hold is charged from what is available, and the row says that it was more", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const till = makeTill(db);
    await till.hold(asking("r1"));
    await till.settle(settling("r1", 170n));
    expect(await findUsage(db, "r1")).toMatchObject({
      costNano: 170n,
      chargedNano: 170n,
      flags: ["overrun"],
    });
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 830n, heldNano: 0n });
    expect(await findings(db)).toEqual([]);
    await till.stop();
  });

  test("a settlement whose hold is gone charges what the wallet has, and says so in the log", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const till = makeTill(db);
    await till.settle(settling("r1", 30n));
    expect(await findUsage(db, "r1")).toMatchObject({ chargedNano: 30n, costNano: 30n, payer: "balance" });
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 970n, heldNano: 0n });
    expect(till.logged.map(({ event }) => event)).toEqual(["settlement_late"]);
    expect(await findings(db)).toEqual([]);
    await till.stop();
  });

  test("rows without money share the transactions and are there after a flush", async () => {
    const db = await open();
    const till = makeTill(db);
    till.push(usageRow({ requestId: "r1", outcome: "refused" }));
    till.push(usageRow({ requestId: "r1", outcome: "refused" }));
    till.push(usageRow({ requestId: "r2" }));
    await till.flush();
    expect(await keyTotals(db, "k1", null)).toMatchObject({ requests: 1, refused: 1 });
    till.push(usageRow({ requestId: "r2" }));
    await till.flush();
    expect(await findings(db)).toEqual([]);
    await till.stop();
  });

  test("where a request went and what came back so far is written without being waited for", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const till = makeTill(db, { limits: { ...limits.till, progressMs: 1, checkpointMs: 1 } });
    await Promise.all([till.hold(asking("r1")), till.hold(asking("r2"))]);
    till.dispatched("r1", "acc_1", "gpt");
    till.dispatched("r2", "acc_2", "gpt");
    till.checkpoint("r1", 7);
    till.checkpoint("r1", 12);
    till.undispatched("r2");
    await Bun.sleep(20);
    await till.flush();
    const holds = await findHolds(db, ["r1", "r2"]);
    expect(holds.get("r1")).toMatchObject({ state: "dispatched", accountId: "acc_1", outputTokens: 12 });
    expect(holds.get("r2")).toMatchObject({ state: "admitted", accountId: null, upstreamModel: null });
    await till.stop();
  });

  test("a bad operation fails alone", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const till = makeTill(db);
    await till.hold(asking("r0"));
    // The wallet was changed outside of the billing engine.
    await db.sql`INSERT INTO wallet (user_id, balance_nano, held_nano) VALUES ('u2', 50, 0)`;
    await till.hold(asking("bad", { userId: "u2", wantedNano: 50n }));
    await db.sql`UPDATE wallet SET held_nano = 0 WHERE user_id = 'u2'`;
    await Promise.all([
      till.settle(settling("r0", 10n)),
      till.settle(settling("bad", 10n, "u2")),
      till.hold(asking("r1")),
    ]);
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 990n, heldNano: 100n });
    expect(till.logged.map(({ event }) => event)).toContain("till_refused");
    expect(readFileSync(join(till.dir, "settlements-inc_1.jsonl"), "utf8")).toContain('"bad"');
    await till.stop();
  });

  test("two nodes on one store spend no more than there is", async () => {
    const url = await emptyUrl();
    const [one, two] = [await openDb(url), await openDb(url)];
    await migrate(one);
    await addFunds(one, "u1", 1_000n);
    await addFunds(one, "u2", 1_000n);
    const tills = [makeTill(one, { incarnation: "inc_1" }), makeTill(two, { incarnation: "inc_2" })];
    const outcomes = await Promise.all(
      Array.from({ length: 300 }, async (_, index) => {
        const till = tills[index % 2];
        const userId = `u${1 + (index % 3 === 0 ? 1 : 0)}`;
        const held = await till?.hold(asking(`r${index}`, { userId, wantedNano: 60n }));
        if (held?.kind !== "held") return 0n;
        await Bun.sleep(index % 5);
        const chargedNano = held.amountNano / 2n;
        await till?.settle(settling(`r${index}`, chargedNano, userId));
        return chargedNano;
      }),
    );
    const spentNano = outcomes.reduce((sum, nano) => sum + nano, 0n);
    const wallets = [await readWallet(one, "u1"), await readWallet(one, "u2")];
    expect(wallets.map(({ heldNano }) => heldNano)).toEqual([0n, 0n]);
    expect(2_000n - spentNano).toBe((wallets[0]?.balanceNano ?? 0n) + (wallets[1]?.balanceNano ?? 0n));
    expect(await findings(one)).toEqual([]);
    for (const till of tills) await till.stop();
    await one.close();
    await two.close();
  });
});

describe("while the store is away", () => {
  /** A database that can be made unavailable and available again. */
  async function fickleDb(): Promise<{
    db: Db;
    away: (is: boolean | "silent") => void;
    close(): Promise<void>;
  }> {
    const real = await openDb("sqlite::memory:");
    await migrate(real);
    let isAway: boolean | "silent" = false;
    const db: Db = {
      ...real,
      begin: (mode, work) => {
        if (isAway === "silent") return real.begin(mode, work).then(() => Promise.reject(new Error("lost")));
        return isAway ? Promise.reject(new Error("connection refused")) : real.begin(mode, work);
      },
    };
    return { db, away: (is) => (isAway = is), close: () => real.close() };
  }

  const quick = { ...limits.till, holdPatienceMs: 60, silenceMs: 60, settlePatienceMs: 60, retryMs: 20 };

  test("a hold is refused after a while, and nothing of it stays", async () => {
    const { db, away, close } = await fickleDb();
    await addFunds(db, "u1", 1_000n);
    const till = makeTill(db, { limits: quick });
    away(true);
    await expect(till.hold(asking("r1"))).rejects.toBeInstanceOf(BillingUnavailable);
    away(false);
    expect(await till.hold(asking("r2"))).toMatchObject({ kind: "held" });
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 1_000n, heldNano: 100n });
    await till.stop();
    await close();
  });

  const patient = { ...quick, holdPatienceMs: 600_000 };

  test("a hold of a store that fails does not wait as long as one of a store that is busy", async () => {
    const { db, away, close } = await fickleDb();
    await addFunds(db, "u1", 1_000n);
    const till = makeTill(db, { limits: patient });
    away(true);
    await expect(till.hold(asking("r1"))).rejects.toBeInstanceOf(BillingUnavailable);
    away(false);
    await till.stop();
    await close();
  });

  test("a hold whose commit got lost is not made twice", async () => {
    const { db, away, close } = await fickleDb();
    await addFunds(db, "u1", 1_000n);
    const till = makeTill(db, { limits: { ...quick, holdPatienceMs: 10_000, silenceMs: 10_000 } });
    away("silent");
    const holding = till.hold(asking("r1"));
    await Bun.sleep(15);
    away(false);
    expect(await holding).toEqual({ kind: "held", amountNano: 100n, subscriptionId: null });
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 1_000n, heldNano: 100n });
    await till.stop();
    await close();
  });

  test("a hold that was given up on and had been committed is given back", async () => {
    const { db, away, close } = await fickleDb();
    await addFunds(db, "u1", 1_000n);
    const till = makeTill(db, { limits: { ...quick, holdPatienceMs: 0, retryMs: 100 } });
    away("silent");
    await expect(till.hold(asking("r1"))).rejects.toBeInstanceOf(BillingUnavailable);
    away(false);
    await eventually(async () => (await readWallet(db, "u1")).heldNano === 0n, 10_000);
    await till.flush();
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 1_000n, heldNano: 0n });
    await till.stop();
    await close();
  });

  test("a settlement is kept on disk, its request goes on, and the store gets it later", async () => {
    const { db, away, close } = await fickleDb();
    await addFunds(db, "u1", 1_000n);
    const till = makeTill(db, { limits: quick });
    await till.hold(asking("r1"));
    away(true);
    await till.settle(settling("r1", 30n));
    const file = join(till.dir, "settlements-inc_1.jsonl");
    expect(readFileSync(file, "utf8")).toContain('"r1"');
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(await findUsage(db, "r1")).toBeNull();
    await expect(till.flush()).rejects.toBeInstanceOf(BillingUnavailable);
    away(false);
    await eventually(async () => (await findUsage(db, "r1")) !== null, 10_000);
    await till.flush();
    await eventually(() => readFileSync(file).every((byte) => byte === 0), 10_000);
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 970n, heldNano: 0n });
    expect(await findings(db)).toEqual([]);
    await till.stop();
    await close();
  });

  test("a settlement that neither the store nor the disk takes is remembered, and nothing is held until it is booked", async () => {
    const { db, away, close } = await fickleDb();
    await addFunds(db, "u1", 1_000n);
    const till = makeTill(db, { limits: quick, dir: noFolder() });
    await Promise.all([till.hold(asking("r1")), till.hold(asking("r2"))]);
    away(true);
    await Promise.all([till.settle(settling("r1", 30n)), till.settle(settling("r2", 30n))]);
    expect(till.isWell()).toBe(false);
    const subscribed = asking("r3", { charge: "subscription" });
    await expect(till.hold(subscribed)).rejects.toBeInstanceOf(BillingUnavailable);
    away(false);
    await eventually(() => till.isWell(), 10_000);
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 940n, heldNano: 0n });
    expect(await till.hold(asking("r4"))).toMatchObject({ kind: "held" });
    const told = till.logged.map(({ event }) => event).filter((event) => event.startsWith("settlements_"));
    expect(told).toEqual(["settlements_in_memory", "settlements_safe"]);
    expect(await findings(db)).toEqual([]);
    await till.stop();
    await close();
  });

  test("what is remembered goes to the disk as soon as that takes it", async () => {
    const { db, away, close } = await fickleDb();
    await addFunds(db, "u1", 1_000n);
    const dir = noFolder();
    const till = makeTill(db, { limits: quick, dir });
    await till.hold(asking("r1"));
    away(true);
    await till.settle(settling("r1", 30n));
    expect(till.isWell()).toBe(false);
    rmSync(dir);
    await eventually(() => till.isWell(), 10_000);
    expect(readFileSync(join(dir, "settlements-inc_1.jsonl"), "utf8")).toContain('"r1"');
    await till.stop();
    await close();
  });

  test("what nobody takes before the end is named", async () => {
    const { db, away, close } = await fickleDb();
    await addFunds(db, "u1", 1_000n);
    const till = makeTill(db, { limits: quick, dir: noFolder() });
    await till.hold(asking("r1"));
    away(true);
    await till.settle(settling("r1", 30n));
    await till.stop();
    expect(till.logged).toContainEqual({ event: "settlement_lost", fields: { request_id: "r1" } });
    await close();
  });

  test("there is no more room once too much waits", async () => {
    const { db, away, close } = await fickleDb();
    const till = makeTill(db, { limits: { ...quick, waitingMax: 2 } });
    away(true);
    till.push(usageRow());
    expect(till.hasRoom()).toBe(true);
    till.push(usageRow());
    expect(till.hasRoom()).toBe(false);
    away(false);
    await till.flush();
    expect(till.hasRoom()).toBe(true);
    await till.stop();
    await close();
  });
});

test("with durability on disk nobody hears of a commit before the disk has it", async () => {
  const dir = mkdtempSync(join(tmpdir(), "gateway-till-disk-"));
  const real = await openDb(`sqlite:${dir}/till.db`);
  await migrate(real);
  await addFunds(real, "u1", 1_000n);
  const { promise: onDisk, resolve: reachDisk } = Promise.withResolvers<void>();
  const db: Db = { ...real, flush: () => onDisk.then(() => real.flush()) };
  const till = makeTill(db, { durability: "disk" });
  let told = false;
  const holding = Promise.resolve(till.hold(asking("r1"))).then(() => (told = true));
  await Bun.sleep(20);
  expect((await readWallet(real, "u1")).heldNano).toBe(100n);
  expect(told).toBe(false);
  reachDisk();
  await holding;
  await till.stop();
  await real.close();
  rmSync(dir, { recursive: true });
});

describe("while the disk fails", () => {
  async function failingDisk() {
    const real = await openDb("sqlite::memory:");
    await migrate(real);
    await addFunds(real, "u1", 1_000n);
    const state = { fails: false };
    const flush = () => (state.fails ? Promise.reject(new Error("EIO")) : Promise.resolve());
    return { db: { ...real, flush } satisfies Db, state };
  }
  const quick = { ...limits.till, flushMs: 1, retryMs: 20 };

  test.each(["process", "disk"] as const)(
    "no hold is made until it works again, and requests under way are settled (durability: %s)",
    async (durability) => {
      const { db, state } = await failingDisk();
      const till = makeTill(db, { durability, limits: quick });
      await till.hold(asking("r1"));
      state.fails = true;
      await till.settle(settling("r1", 30n));
      await eventually(() => !till.isWell(), 10_000);
      await expect(till.hold(asking("r2"))).rejects.toBeInstanceOf(BillingUnavailable);
      await Bun.sleep(3 * quick.retryMs);
      expect(till.logged.map(({ event }) => event)).toEqual(["flush_failed"]);
      state.fails = false;
      await eventually(() => till.isWell(), 10_000);
      expect(await till.hold(asking("r3"))).toMatchObject({ kind: "held" });
      expect(await readWallet(db, "u1")).toEqual({ balanceNano: 970n, heldNano: 100n });
      await till.stop();
      await db.close();
    },
  );

  test("with durability on disk a hold that the disk does not have is refused and given back", async () => {
    const { db, state } = await failingDisk();
    const till = makeTill(db, { durability: "disk", limits: quick });
    state.fails = true;
    await expect(till.hold(asking("r1"))).rejects.toBeInstanceOf(BillingUnavailable);
    await eventually(async () => (await readWallet(db, "u1")).heldNano === 0n, 10_000);
    await till.stop();
    await db.close();
  });
});
