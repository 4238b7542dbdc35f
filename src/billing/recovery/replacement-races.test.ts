/** Replacements whose process was taken for dead, whose commit has an unknown result, or that a late write meets. */

import { expect, setDefaultTimeout, test } from "bun:test";
import { eachEngine, onPostgres } from "../../../test/support/each-engine.ts";
import { eventually } from "../../../test/support/eventually.ts";
import { makeTariff } from "../../money/tariff.ts";
import { userRecord } from "../../records/records.test-support.ts";
import type { Db } from "../../store/engine/db.ts";
import { putUser } from "../../store/identity/users.ts";
import { findHolds } from "../../store/money/holds.ts";
import { findEntry } from "../../store/money/ledger.ts";
import { putPlan } from "../../store/money/plans.ts";
import { putSubscription } from "../../store/money/subscriptions.ts";
import { readWallet } from "../../store/money/wallets.ts";
import { findUsage } from "../../store/usage/usage.ts";
import type { HoldRequest } from "../engine/billing-types.ts";
import {
  addFunds,
  buildHoldRequest,
  buildTestSettlement,
  LIMITS,
  makeBilling,
  recover,
  TARIFF,
} from "../engine/direct-billing.test-support.ts";
import { BillingUnavailable } from "../engine/direct-billing.ts";
import { reconcileLedger } from "../maintenance/reconciliation.ts";

setDefaultTimeout(60_000);

const NEXT_TARIFF = makeTariff({ input: "0.002", output: "0.002" });
const fast = { ...LIMITS, progressMs: 1, checkpointMs: 1, retryMs: 5 };

const next = (id: string, change: Partial<HoldRequest> = {}): HoldRequest =>
  buildHoldRequest(id, { tariff: NEXT_TARIFF, wantedNano: 1_000n, inputTokens: 33, ...change });

async function audit(db: Db): Promise<unknown> {
  return (await reconcileLedger(db, { nowMs: Date.now(), holdAgeMaxMs: 3_600_000, findingsMax: 9 })).findings;
}

/** Another process finds that the first one is not registered, and settles its requests. */
async function takeOver(db: Db, processId: string): Promise<void> {
  const heir = makeBilling(db, { processId });
  await (await recover(db, heir)).stop();
  await heir.stop();
}

eachEngine(({ open }) => {
  for (const writeBehind of [undefined, {}]) {
    const lane = writeBehind === undefined ? "direct billing" : "write-behind billing";
    const change = writeBehind === undefined ? { limits: fast } : { limits: fast, writeBehind };

    test(`${lane} neither replaces nor releases a hold that another process has settled`, async () => {
      const db = await open();
      await addFunds(db, "u1", 1_000n);
      const engine = makeBilling(db, { ...change, processId: "inc_frozen" });
      for (const id of ["one", "two"]) {
        await engine.hold(buildHoldRequest(id, { isLasting: true }));
        engine.recordDispatch(id, "acc_1", "upstream-1");
      }
      await Bun.sleep(10);
      await engine.flush();
      await takeOver(db, "inc_heir");
      await expect(engine.replaceHold(next("one", { wantedNano: 10n }))).rejects.toBeInstanceOf(
        BillingUnavailable,
      );
      await expect(engine.releaseHold("two")).rejects.toBeInstanceOf(BillingUnavailable);
      // Both requests end with an error. Their estimates are corrected to nothing.
      for (const id of ["one", "two"]) await engine.settle(buildTestSettlement(id, 0n));
      await engine.flush();
      expect(await readWallet(db, "u1")).toEqual({ balanceNano: 1_000n, heldNano: 0n });
      expect(await audit(db)).toEqual([]);
      await engine.stop();
    });

    test(`${lane} settles late by the replaced hold, once, after another process has charged it`, async () => {
      const db = await open();
      await addFunds(db, "u1", 2_000n);
      const engine = makeBilling(db, { ...change, processId: "inc_frozen" });
      await engine.hold(buildHoldRequest("one"));
      expect((await engine.replaceHold(next("one"))).kind).toBe("held");
      engine.recordDispatch("one", "acc_2", "upstream-2");
      await Bun.sleep(10);
      await engine.flush();
      await takeOver(db, "inc_heir");
      expect(await findUsage(db, "one")).toMatchObject({ tariffId: NEXT_TARIFF.id, chargedNano: 66n });
      const { row, chargedNano } = buildTestSettlement("one", 700n);
      const settlement = { chargedNano, row: { ...row, tariffId: NEXT_TARIFF.id } };
      await Promise.all([engine.settle(settlement), engine.settle(settlement)]);
      await engine.settle(settlement);
      await engine.flush();
      expect(await findUsage(db, "one")).toMatchObject({ chargedNano: 700n, flags: [] });
      expect(await findEntry(db, "correction:one")).toMatchObject({ amountNano: 634n });
      expect(await readWallet(db, "u1")).toEqual({ balanceNano: 1_300n, heldNano: 0n });
      expect(await audit(db)).toEqual([]);
      await engine.stop();
    });

    test(`${lane} replaces once if the response of the commit is lost`, async () => {
      const db = await open();
      await addFunds(db, "u1", 1_000n);
      let losses = 0;
      const unreliable: Db = {
        ...db,
        async begin(mode, work) {
          const result = await db.begin(mode, work);
          if (losses > 0) {
            losses--;
            throw new Error("the connection was closed");
          }
          return result;
        },
      };
      const engine = makeBilling(unreliable, change);
      await engine.hold(buildHoldRequest("one", { isLasting: true }));
      losses = 2;
      const whole = next("one", { leastNano: 1_000n });
      expect(await engine.replaceHold(whole)).toEqual({
        kind: "held",
        amountNano: 1_000n,
        subscriptionId: null,
      });
      expect(losses).toBe(0);
      expect(await readWallet(db, "u1")).toEqual({ balanceNano: 1_000n, heldNano: 1_000n });
      await engine.settle(buildTestSettlement("one", 30n));
      await engine.flushUser("u1");
      expect(await readWallet(db, "u1")).toEqual({ balanceNano: 970n, heldNano: 0n });
      expect(await audit(db)).toEqual([]);
      await engine.stop();
    });

    test(`${lane} keeps the old hold while the database is away, and settles it later`, async () => {
      const db = await open();
      await addFunds(db, "u1", 1_000n);
      let isAway = false;
      const away: Db = {
        ...db,
        begin: (mode, work) => (isAway ? Promise.reject(new Error("away")) : db.begin(mode, work)),
      };
      const limits = { ...fast, holdTimeoutMs: 2_000, settlementTimeoutMs: 5_000 };
      const engine = makeBilling(away, { ...change, limits });
      await engine.hold(buildHoldRequest("one"));
      isAway = true;
      await expect(engine.replaceHold(next("one"))).rejects.toBeInstanceOf(BillingUnavailable);
      await expect(engine.releaseHold("one")).rejects.toBeInstanceOf(BillingUnavailable);
      isAway = false;
      await engine.settle(buildTestSettlement("one", 0n));
      await engine.flushUser("u1");
      await engine.flush();
      expect(await findUsage(db, "one")).toMatchObject({ chargedNano: 0n });
      expect((await findHolds(db, ["one"])).size).toBe(0);
      expect(await readWallet(db, "u1")).toEqual({ balanceNano: 1_000n, heldNano: 0n });
      expect(await audit(db)).toEqual([]);
      await engine.stop();
    });
  }
});

/** Delays one transaction until it is continued; `isChosen` is called for each. */
function delayOne(db: Db) {
  const { promise, resolve } = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<void>();
  let isArmed = false;
  const delayed: Db = {
    ...db,
    begin: (mode, work) => {
      if (!isArmed) return db.begin(mode, work);
      isArmed = false;
      const delayedWork = db.begin(mode, async (tx) => {
        await promise;
        return work(tx);
      });
      return delayedWork.finally(ended.resolve);
    },
  };
  return { delayed, arm: () => (isArmed = true), proceed: resolve, ended: ended.promise };
}

onPostgres(({ open }) => {
  test("a transaction that is repeated does not replace the hold that its repetition has made", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const { delayed, arm, proceed, ended } = delayOne(db);
    const engine = makeBilling(delayed, { limits: { ...fast, transactionMs: 100, holdTimeoutMs: 5_000 } });
    await engine.hold(buildHoldRequest("one"));
    arm();
    expect((await engine.replaceHold(next("one"))).kind).toBe("held");
    engine.recordDispatch("one", "acc_2", "upstream-2");
    engine.checkpoint("one", 7);
    await eventually(async () => (await findHolds(db, ["one"])).get("one")?.outputTokens, { equals: 7 });
    await engine.flush();
    const before = await findHolds(db, ["one"]);
    expect(before.get("one")).toMatchObject({
      state: "dispatched",
      outputTokens: 7,
      tariffId: NEXT_TARIFF.id,
    });
    proceed();
    await ended;
    expect(await findHolds(db, ["one"])).toEqual(before);
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 1_000n, heldNano: 1_000n });
    await engine.stop();
  });

  test("progress of the old hold that is written late does not reach the new one", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const { promise, resolve } = Promise.withResolvers<void>();
    let isHeldBack = false;
    let held = 0;
    const text: Db["sql"]["text"] = async (statement, values) => {
      if (isHeldBack && statement.includes("UPDATE hold SET state")) {
        held++;
        await promise;
      }
      return db.sql.text(statement, values);
    };
    const sql: Db["sql"] = Object.assign((...of: Parameters<Db["sql"]>) => db.sql(...of), {
      text,
      each: db.sql.each,
      script: db.sql.script,
    });
    const engine = makeBilling({ ...db, sql }, { limits: fast });
    await engine.hold(buildHoldRequest("one"));
    isHeldBack = true;
    engine.recordDispatch("one", "acc_1", "upstream-1");
    await eventually(() => held > 0);
    const replaced = engine.replaceHold(next("one"));
    // A replacement that does not wait for the progress would be visible by then.
    await Bun.sleep(50);
    expect((await findHolds(db, ["one"])).get("one")).toMatchObject({ tariffId: TARIFF.id });
    resolve();
    expect((await replaced).kind).toBe("held");
    await engine.flush();
    expect((await findHolds(db, ["one"])).get("one")).toMatchObject({
      tariffId: NEXT_TARIFF.id,
      state: "admitted",
      accountId: null,
    });
    await engine.stop();
  });

  test("a replacement takes money that another node has reserved, and none that it uses", async () => {
    const db = await open();
    await addFunds(db, "u1", 10_000n);
    const nodes = ["inc_a", "inc_b"].map((processId) =>
      makeBilling(db, { limits: fast, writeBehind: { checkIntervalMs: 5 }, processId }),
    );
    const [a, b] = nodes;
    if (a === undefined || b === undefined) throw new Error("no nodes");
    await a.hold(buildHoldRequest("one"));
    await b.hold(buildHoldRequest("two"));
    const reserved = await db.sql`SELECT process_id FROM wallet_reservation WHERE amount_nano > 100`;
    expect(reserved).toHaveLength(2);
    const whole = next("one", { wantedNano: 9_900n, leastNano: 9_900n });
    expect(await a.replaceHold({ ...whole, wantedNano: 9_901n, leastNano: 9_901n })).toMatchObject({
      kind: "short",
      availableNano: 9_900n,
    });
    expect(await a.replaceHold(whole)).toMatchObject({ kind: "held", amountNano: 9_900n });
    await b.settle(buildTestSettlement("two", 100n));
    await a.settle(buildTestSettlement("one", 9_900n));
    for (const node of nodes) await node.flushUser("u1");
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 0n, heldNano: 0n });
    for (const node of nodes) await node.stop();
    expect(await audit(db)).toEqual([]);
  });

  test("replacements of two nodes for the same users do not deadlock", async () => {
    const db = await open();
    const names = Array.from({ length: 6 }, (_, index) => `u${index}`);
    const windows = [{ per: "day", usd: "1.00", counted: "calendar" } as const];
    await putPlan(db, { id: "plan", name: "plan", timeZone: "UTC", windows, createdAtMs: 0 });
    for (const name of names) {
      await putUser(db, userRecord(name));
      await addFunds(db, name, 1_000n);
      const term = {
        startsAtMs: 0,
        endsAtMs: null,
        renews: "none",
        status: "active",
        createdAtMs: 0,
      } as const;
      await putSubscription(db, { id: `sub-${name}`, userId: name, planId: "plan", priority: 1, ...term });
    }
    const nodes = ["inc_a", "inc_b"].map((processId) => makeBilling(db, { limits: fast, processId }));
    await Promise.all(
      nodes.flatMap((engine, node) =>
        names.map(async (userId) => {
          const id = `${userId}-${node}`;
          await engine.hold(buildHoldRequest(id, { userId, wantedNano: 100n }));
          for (let round = 0; round < 10; round++) {
            const charge = round % 2 === node ? "balance" : "subscription";
            const result = await engine.replaceHold(next(id, { userId, charge, wantedNano: 200n }));
            expect(result).toMatchObject({ kind: "held", amountNano: 200n });
          }
          await engine.replaceHold(next(id, { userId, wantedNano: 200n }));
          await engine.settle(buildTestSettlement(id, 150n, userId));
        }),
      ),
    );
    for (const name of names) expect(await readWallet(db, name)).toEqual({ balanceNano: 700n, heldNano: 0n });
    expect(nodes.flatMap(({ logged }) => logged)).toEqual([]);
    expect(await audit(db)).toEqual([]);
    for (const node of nodes) await node.stop();
  });
});
