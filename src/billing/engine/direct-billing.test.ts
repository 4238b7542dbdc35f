import { describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { eventually } from "../../../test/support/eventually.ts";
import { limits } from "../../config/limits/product-limits.ts";
import { type Db, openDb } from "../../store/engine/db.ts";
import { migrate } from "../../store/engine/migrate.ts";
import { findHolds } from "../../store/money/holds.ts";
import { findEntry } from "../../store/money/ledger.ts";
import { readWallet } from "../../store/money/wallets.ts";
import { findUsage, keyTotals } from "../../store/usage/usage.ts";
import { usageRow } from "../../store/usage/usage-row.test-support.ts";
import { reconcileLedger } from "../maintenance/reconciliation.ts";
import {
  addFunds,
  buildHoldRequest,
  buildTestSettlement,
  makeBilling,
  makeUnusableFolder,
} from "./direct-billing.test-support.ts";
import { BillingUnavailable } from "./direct-billing.ts";

const findings = async (db: Db) =>
  (await reconcileLedger(db, { nowMs: Date.now(), holdAgeMaxMs: 3_600_000, findingsMax: 10 })).findings;

eachEngine(({ open, emptyUrl }) => {
  test("a hold reserves the wanted amount, and settlement releases what was not charged", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const billingEngine = makeBilling(db);
    expect(await billingEngine.hold(buildHoldRequest("r1"))).toEqual({
      kind: "held",
      amountNano: 100n,
      subscriptionId: null,
    });
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 1_000n, heldNano: 100n });
    await billingEngine.settle(buildTestSettlement("r1", 30n));
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
    await billingEngine.stop();
  });

  test("a hold takes the remaining balance if it covers the minimum, else nothing", async () => {
    const db = await open();
    await addFunds(db, "u1", 150n);
    const billingEngine = makeBilling(db);
    const results = await Promise.all(
      ["r1", "r2", "r3"].map((id) => billingEngine.hold(buildHoldRequest(id))),
    );
    expect(results).toEqual([
      { kind: "held", amountNano: 100n, subscriptionId: null },
      { kind: "held", amountNano: 50n, subscriptionId: null },
      { kind: "short", availableNano: 0n, resetsAtMs: null },
    ]);
    expect(await billingEngine.hold(buildHoldRequest("r4", { userId: "nobody" }))).toMatchObject({
      kind: "short",
    });
    await billingEngine.stop();
  });

  test("a free request needs no wallet and creates no entry", async () => {
    const db = await open();
    const billingEngine = makeBilling(db);
    expect(await billingEngine.hold(buildHoldRequest("r1", { wantedNano: 0n, leastNano: 0n }))).toMatchObject(
      { kind: "held" },
    );
    await billingEngine.settle(buildTestSettlement("r1", 0n));
    expect(await findEntry(db, "charge:r1")).toBeNull();
    expect(await findUsage(db, "r1")).not.toBeNull();
    expect(await findings(db)).toEqual([]);
    await billingEngine.stop();
  });

  test("200 concurrent requests on one cent never spend more than one cent", async () => {
    const db = await open();
    const cent = 10_000_000n;
    await addFunds(db, "u1", cent);
    const billingEngine = makeBilling(db);
    const ids = Array.from({ length: 200 }, (_, index) => `r${index}`);
    const wanted = { wantedNano: 300_000n, leastNano: 100_000n };
    const results = await Promise.all(ids.map((id) => billingEngine.hold(buildHoldRequest(id, wanted))));
    const heldNano = results.reduce((sum, one) => sum + (one.kind === "held" ? one.amountNano : 0n), 0n);
    expect(heldNano).toBe(cent);
    await Promise.all(
      results.map((one, index) =>
        one.kind === "held" ? billingEngine.settle(buildTestSettlement(`r${index}`, one.amountNano)) : null,
      ),
    );
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 0n, heldNano: 0n });
    expect(await findings(db)).toEqual([]);
    await billingEngine.stop();
  });

  test("a repeated settlement is booked once, concurrent or later", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const billingEngine = makeBilling(db);
    await billingEngine.hold(buildHoldRequest("r1"));
    await Promise.all([
      billingEngine.settle(buildTestSettlement("r1", 30n)),
      billingEngine.settle(buildTestSettlement("r1", 30n)),
    ]);
    await billingEngine.settle(buildTestSettlement("r1", 30n));
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 970n, heldNano: 0n });
    expect((await keyTotals(db, "k1", null)).requests).toBe(1);
    expect(billingEngine.logged).toEqual([]);
    expect(await findings(db)).toEqual([]);
    await billingEngine.stop();
  });

  test("a cost above the hold is charged from the available balance and flagged as overrun", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const billing = makeBilling(db);
    await billing.hold(buildHoldRequest("r1"));
    await billing.settle(buildTestSettlement("r1", 170n));
    expect(await findUsage(db, "r1")).toMatchObject({
      costNano: 170n,
      chargedNano: 170n,
      flags: ["overrun"],
    });
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 830n, heldNano: 0n });
    expect(await findings(db)).toEqual([]);
    await billing.stop();
  });

  test("a settlement without a hold charges the available balance and logs settlement_late", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const billing = makeBilling(db);
    await billing.settle(buildTestSettlement("r1", 30n));
    expect(await findUsage(db, "r1")).toMatchObject({ chargedNano: 30n, costNano: 30n, payer: "balance" });
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 970n, heldNano: 0n });
    expect(billing.logged.map(({ event }) => event)).toEqual(["settlement_late"]);
    expect(await findings(db)).toEqual([]);
    await billing.stop();
  });

  test("unpaid rows share the transactions and are stored after a flush", async () => {
    const db = await open();
    const billing = makeBilling(db);
    billing.push(usageRow({ requestId: "r1", outcome: "refused" }));
    billing.push(usageRow({ requestId: "r1", outcome: "refused" }));
    billing.push(usageRow({ requestId: "r2" }));
    await billing.flush();
    expect(await keyTotals(db, "k1", null)).toMatchObject({ requests: 1, refused: 1 });
    billing.push(usageRow({ requestId: "r2" }));
    await billing.flush();
    expect(await findings(db)).toEqual([]);
    await billing.stop();
  });

  test("dispatch and checkpoints are written without being awaited", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const billing = makeBilling(db, { limits: { ...limits.billingEngine, progressMs: 1, checkpointMs: 1 } });
    await Promise.all([billing.hold(buildHoldRequest("r1")), billing.hold(buildHoldRequest("r2"))]);
    billing.recordDispatch("r1", "acc_1", "gpt");
    billing.recordDispatch("r2", "acc_2", "gpt");
    billing.checkpoint("r1", 7);
    billing.checkpoint("r1", 12);
    billing.recordRequeue("r2");
    await eventually(async () => (await findHolds(db, ["r1"])).get("r1")?.outputTokens, { equals: 12 });
    await billing.flush();
    const holds = await findHolds(db, ["r1", "r2"]);
    expect(holds.get("r1")).toMatchObject({ state: "dispatched", accountId: "acc_1", outputTokens: 12 });
    expect(holds.get("r2")).toMatchObject({ state: "admitted", accountId: null, upstreamModel: null });
    await billing.stop();
  });

  test("an invalid operation fails alone", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const billing = makeBilling(db);
    await billing.hold(buildHoldRequest("r0"));
    // The wallet was changed outside of the billing engine.
    await db.sql`INSERT INTO wallet (user_id, balance_nano, held_nano) VALUES ('u2', 50, 0)`;
    await billing.hold(buildHoldRequest("bad", { userId: "u2", wantedNano: 50n }));
    await db.sql`UPDATE wallet SET held_nano = 0 WHERE user_id = 'u2'`;
    await Promise.all([
      billing.settle(buildTestSettlement("r0", 10n)),
      billing.settle(buildTestSettlement("bad", 10n, "u2")),
      billing.hold(buildHoldRequest("r1")),
    ]);
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 990n, heldNano: 100n });
    expect(billing.logged.map(({ event }) => event)).toContain("billing_operation_rejected");
    expect(readFileSync(join(billing.dir, "settlements-inc_1.jsonl"), "utf8")).toContain('"bad"');
    await billing.stop();
  });

  test("two nodes on one database spend no more than the balance", async () => {
    const url = await emptyUrl();
    const [one, two] = [await openDb(url), await openDb(url)];
    await migrate(one);
    await addFunds(one, "u1", 1_000n);
    await addFunds(one, "u2", 1_000n);
    const tills = [makeBilling(one, { processId: "inc_1" }), makeBilling(two, { processId: "inc_2" })];
    const outcomes = await Promise.all(
      Array.from({ length: 300 }, async (_, index) => {
        const billing = tills[index % 2];
        const userId = `u${1 + (index % 3 === 0 ? 1 : 0)}`;
        const held = await billing?.hold(buildHoldRequest(`r${index}`, { userId, wantedNano: 60n }));
        if (held?.kind !== "held") return 0n;
        await Bun.sleep(index % 5);
        const chargedNano = held.amountNano / 2n;
        await billing?.settle(buildTestSettlement(`r${index}`, chargedNano, userId));
        return chargedNano;
      }),
    );
    const spentNano = outcomes.reduce((sum, nano) => sum + nano, 0n);
    const wallets = [await readWallet(one, "u1"), await readWallet(one, "u2")];
    expect(wallets.map(({ heldNano }) => heldNano)).toEqual([0n, 0n]);
    expect(2_000n - spentNano).toBe((wallets[0]?.balanceNano ?? 0n) + (wallets[1]?.balanceNano ?? 0n));
    expect(await findings(one)).toEqual([]);
    for (const billing of tills) await billing.stop();
    await one.close();
    await two.close();
  });
});

describe("while the database is unavailable", () => {
  /** A database that can be made unavailable and available again. */
  async function fickleDb(): Promise<{
    db: Db;
    away: (is: boolean | "silent") => void;
    lostCommits: () => number;
    close(): Promise<void>;
  }> {
    const real = await openDb("sqlite::memory:");
    await migrate(real);
    let isAway: boolean | "silent" = false;
    let lostCommits = 0;
    const db: Db = {
      ...real,
      begin: (mode, work) => {
        if (isAway === "silent")
          return real.begin(mode, work).then(() => {
            lostCommits++;
            throw new Error("lost");
          });
        return isAway ? Promise.reject(new Error("connection refused")) : real.begin(mode, work);
      },
    };
    return { db, away: (is) => (isAway = is), lostCommits: () => lostCommits, close: () => real.close() };
  }

  const quick = {
    ...limits.billingEngine,
    holdTimeoutMs: 60,
    storeSilenceMaxMs: 60,
    storeFailureMaxMs: 60,
    settlementTimeoutMs: 60,
    retryMs: 20,
  };

  test("a hold is rejected after its timeout and leaves nothing behind", async () => {
    const { db, away, close } = await fickleDb();
    await addFunds(db, "u1", 1_000n);
    const billing = makeBilling(db, { limits: quick });
    away(true);
    await expect(billing.hold(buildHoldRequest("r1"))).rejects.toBeInstanceOf(BillingUnavailable);
    away(false);
    expect(await billing.hold(buildHoldRequest("r2"))).toMatchObject({ kind: "held" });
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 1_000n, heldNano: 100n });
    await billing.stop();
    await close();
  });

  const patient = { ...quick, holdTimeoutMs: 600_000 };

  test("a hold fails sooner on a failing database than on a busy one", async () => {
    const { db, away, close } = await fickleDb();
    await addFunds(db, "u1", 1_000n);
    const billing = makeBilling(db, { limits: patient });
    away(true);
    await expect(billing.hold(buildHoldRequest("r1"))).rejects.toBeInstanceOf(BillingUnavailable);
    away(false);
    await billing.stop();
    await close();
  });

  test("a hold whose commit acknowledgement was lost is not made twice", async () => {
    const { db, away, lostCommits, close } = await fickleDb();
    await addFunds(db, "u1", 1_000n);
    const billing = makeBilling(db, {
      limits: { ...quick, holdTimeoutMs: 10_000, storeSilenceMaxMs: 10_000, storeFailureMaxMs: 10_000 },
    });
    away("silent");
    const holding = billing.hold(buildHoldRequest("r1"));
    await eventually(() => lostCommits() > 0);
    away(false);
    expect(await holding).toEqual({ kind: "held", amountNano: 100n, subscriptionId: null });
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 1_000n, heldNano: 100n });
    await billing.stop();
    await close();
  });

  test("a hold that timed out and was committed is released", async () => {
    const { db, away, close } = await fickleDb();
    await addFunds(db, "u1", 1_000n);
    const billing = makeBilling(db, { limits: { ...quick, holdTimeoutMs: 0, retryMs: 100 } });
    away("silent");
    await expect(billing.hold(buildHoldRequest("r1"))).rejects.toBeInstanceOf(BillingUnavailable);
    away(false);
    await eventually(async () => (await readWallet(db, "u1")).heldNano, { equals: 0n });
    await billing.flush();
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 1_000n, heldNano: 0n });
    await billing.stop();
    await close();
  });

  test("a settlement is kept on disk, its request continues, and the database gets it later", async () => {
    const { db, away, close } = await fickleDb();
    await addFunds(db, "u1", 1_000n);
    const billing = makeBilling(db, { limits: quick });
    await billing.hold(buildHoldRequest("r1"));
    away(true);
    await billing.settle(buildTestSettlement("r1", 30n));
    const file = join(billing.dir, "settlements-inc_1.jsonl");
    expect(readFileSync(file, "utf8")).toContain('"r1"');
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(await findUsage(db, "r1")).toBeNull();
    await expect(billing.flush()).rejects.toBeInstanceOf(BillingUnavailable);
    away(false);
    await eventually(async () => (await findUsage(db, "r1")) !== null);
    await billing.flush();
    await eventually(() => readFileSync(file).every((byte) => byte === 0));
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 970n, heldNano: 0n });
    expect(await findings(db)).toEqual([]);
    await billing.stop();
    await close();
  });

  test("a settlement that neither database nor disk accepts stays in memory and blocks holds", async () => {
    const { db, away, close } = await fickleDb();
    await addFunds(db, "u1", 1_000n);
    const billing = makeBilling(db, { limits: quick, dir: makeUnusableFolder() });
    await Promise.all([billing.hold(buildHoldRequest("r1")), billing.hold(buildHoldRequest("r2"))]);
    away(true);
    await Promise.all([
      billing.settle(buildTestSettlement("r1", 30n)),
      billing.settle(buildTestSettlement("r2", 30n)),
    ]);
    expect(billing.acceptsHolds()).toBe(false);
    const subscribed = buildHoldRequest("r3", { charge: "subscription" });
    await expect(billing.hold(subscribed)).rejects.toBeInstanceOf(BillingUnavailable);
    away(false);
    await eventually(() => billing.acceptsHolds());
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 940n, heldNano: 0n });
    expect(await billing.hold(buildHoldRequest("r4"))).toMatchObject({ kind: "held" });
    const events = billing.logged
      .map(({ event }) => event)
      .filter((event) => event.startsWith("settlements_"));
    expect(events).toEqual(["settlements_in_memory", "settlements_safe"]);
    expect(await findings(db)).toEqual([]);
    await billing.stop();
    await close();
  });

  test("a settlement in memory is written to disk as soon as the disk accepts it", async () => {
    const { db, away, close } = await fickleDb();
    await addFunds(db, "u1", 1_000n);
    const dir = makeUnusableFolder();
    const billing = makeBilling(db, { limits: quick, dir });
    await billing.hold(buildHoldRequest("r1"));
    away(true);
    await billing.settle(buildTestSettlement("r1", 30n));
    expect(billing.acceptsHolds()).toBe(false);
    rmSync(dir);
    await eventually(() => billing.acceptsHolds());
    expect(readFileSync(join(dir, "settlements-inc_1.jsonl"), "utf8")).toContain('"r1"');
    await billing.stop();
    await close();
  });

  test("a settlement that is lost at shutdown is logged", async () => {
    const { db, away, close } = await fickleDb();
    await addFunds(db, "u1", 1_000n);
    const billing = makeBilling(db, { limits: quick, dir: makeUnusableFolder() });
    await billing.hold(buildHoldRequest("r1"));
    away(true);
    await billing.settle(buildTestSettlement("r1", 30n));
    await billing.stop();
    expect(billing.logged).toContainEqual({ event: "settlement_lost", fields: { request_id: "r1" } });
    await close();
  });

  test("the capacity is exhausted once too many rows wait", async () => {
    const { db, away, close } = await fickleDb();
    const billing = makeBilling(db, { limits: { ...quick, waitingMax: 2 } });
    away(true);
    billing.push(usageRow());
    expect(billing.hasCapacity()).toBe(true);
    billing.push(usageRow());
    expect(billing.hasCapacity()).toBe(false);
    away(false);
    await billing.flush();
    expect(billing.hasCapacity()).toBe(true);
    await billing.stop();
    await close();
  });
});

test("with durability on disk, a commit is not acknowledged before it is on disk", async () => {
  const dir = mkdtempSync(join(tmpdir(), "gateway-billing-disk-"));
  const real = await openDb(`sqlite:${dir}/billing.db`);
  await migrate(real);
  await addFunds(real, "u1", 1_000n);
  const { promise: onDisk, resolve: reachDisk } = Promise.withResolvers<void>();
  const db: Db = { ...real, flush: () => onDisk.then(() => real.flush()) };
  const billing = makeBilling(db, { durability: "disk" });
  let isHeld = false;
  const holding = Promise.resolve(billing.hold(buildHoldRequest("r1"))).then(() => (isHeld = true));
  await eventually(async () => (await readWallet(real, "u1")).heldNano, { equals: 100n });
  expect(isHeld).toBe(false);
  reachDisk();
  await holding;
  await billing.stop();
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
  const quick = { ...limits.billingEngine, flushMs: 1, retryMs: 20 };

  test.each(["process", "disk"] as const)(
    "holds are rejected until it recovers, and requests in flight settle (durability: %s)",
    async (durability) => {
      const { db, state } = await failingDisk();
      const billing = makeBilling(db, { durability, limits: quick });
      await billing.hold(buildHoldRequest("r1"));
      state.fails = true;
      await billing.settle(buildTestSettlement("r1", 30n));
      await eventually(() => !billing.acceptsHolds());
      await expect(billing.hold(buildHoldRequest("r2"))).rejects.toBeInstanceOf(BillingUnavailable);
      // Further attempts fail and log nothing.
      await Bun.sleep(3 * quick.retryMs);
      expect(billing.logged.map(({ event }) => event)).toEqual(["flush_failed"]);
      state.fails = false;
      await eventually(() => billing.acceptsHolds());
      expect(await billing.hold(buildHoldRequest("r3"))).toMatchObject({ kind: "held" });
      expect(await readWallet(db, "u1")).toEqual({ balanceNano: 970n, heldNano: 100n });
      await billing.stop();
      await db.close();
    },
  );

  test("with durability on disk, a hold that is not on disk is rejected and released", async () => {
    const { db, state } = await failingDisk();
    const billing = makeBilling(db, { durability: "disk", limits: quick });
    state.fails = true;
    await expect(billing.hold(buildHoldRequest("r1"))).rejects.toBeInstanceOf(BillingUnavailable);
    await eventually(async () => (await readWallet(db, "u1")).heldNano, { equals: 0n });
    await billing.stop();
    await db.close();
  });
});
