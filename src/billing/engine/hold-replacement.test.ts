/** Replacing and releasing holds: every engine, every change of the payer, and every way in which a hold is rejected. */

import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { systemClock } from "../../base/clock.ts";
import { limits } from "../../config/limits/product-limits.ts";
import type { Nano } from "../../money/nano.ts";
import { makeTariff } from "../../money/tariff.ts";
import { userRecord } from "../../records/records.test-support.ts";
import type { Db } from "../../store/engine/db.ts";
import { putUser } from "../../store/identity/users.ts";
import { findHolds, UNSENT } from "../../store/money/holds.ts";
import { findEntry } from "../../store/money/ledger.ts";
import { putPlan } from "../../store/money/plans.ts";
import { listSubscriptionStatuses } from "../../store/money/subscription-status.ts";
import { putSubscription } from "../../store/money/subscriptions.ts";
import { readWallet } from "../../store/money/wallets.ts";
import { findUsage } from "../../store/usage/usage.ts";
import { reconcileLedger } from "../maintenance/reconciliation.ts";
import type { BillingEngine } from "./billing-engine.ts";
import type { HoldRequest, HoldResult, Settlement } from "./billing-types.ts";
import {
  addFunds,
  buildHoldRequest,
  buildTestSettlement,
  LIMITS,
  makeBilling,
} from "./direct-billing.test-support.ts";
import { HoldQueueBilling } from "./hold-queue.ts";

setDefaultTimeout(60_000);

const NOON = Date.parse("2027-03-10T12:00:00Z");
const MIDNIGHT = Date.parse("2027-03-11T00:00:00Z");
const clock = { ...systemClock, nowMs: () => NOON };
const NEXT_TARIFF = makeTariff({ input: "0.002", output: "0.002" });
/** What each payer has. */
const FUNDS_NANO = 1_000n;
const OLD_NANO = 60n;

const options = { clock, limits: { ...LIMITS, progressMs: 5, checkpointMs: 5 } };
const ENGINES: Readonly<Record<string, (db: Db) => BillingEngine>> = {
  "direct billing": (db) => makeBilling(db, options),
  "write-behind billing": (db) => makeBilling(db, { ...options, writeBehind: {} }),
  "a hold queue": (db) =>
    new HoldQueueBilling(makeBilling(db, { ...options, writeBehind: {} }), limits.holdQueue),
};

type Payer = "none" | "balance" | "plan-a" | "plan-b";
const PAYERS: readonly Payer[] = ["none", "balance", "plan-a", "plan-b"];
const PLANS = ["plan-a", "plan-b"] as const;

let users = 0;

async function createUser(db: Db): Promise<string> {
  const userId = `u${++users}`;
  await putUser(db, userRecord(userId));
  await addFunds(db, userId, FUNDS_NANO);
  for (const [priority, name] of PLANS.entries()) {
    const windows = [{ per: "day", usd: "0.000001", counted: "calendar" } as const];
    await putPlan(db, { id: name, name, timeZone: "UTC", windows, createdAtMs: 0 });
    const id = `${name} of ${userId}`;
    const term = { startsAtMs: 0, endsAtMs: null, renews: "none", status: "active", createdAtMs: 0 } as const;
    await putSubscription(db, { id, userId, planId: name, priority, ...term });
  }
  return userId;
}

function payBy(payer: Payer, userId: string) {
  return payer === "balance"
    ? ({ userId, charge: "balance", plans: null } as const)
    : ({ userId, charge: "subscription", plans: [payer] } as const);
}

const findSubscription = (payer: Payer, userId: string) =>
  payer === "balance" ? null : `${payer} of ${userId}`;

/** What is held of every payer. */
async function readHeld(db: Db, userId: string): Promise<Record<string, Nano>> {
  const statuses = await listSubscriptionStatuses(db, userId, NOON);
  const plans = statuses.map(({ planName, windows }) => [planName, windows[0]?.heldNano ?? -1n] as const);
  return { balance: (await readWallet(db, userId)).heldNano, ...Object.fromEntries(plans) };
}

const heldBy = (payer: Payer, amountNano: Nano) =>
  Object.fromEntries(
    ["balance", ...PLANS].map((name) => [name, name === payer ? amountNano : 0n] as const),
  ) as Record<string, Nano>;

async function audit(db: Db): Promise<unknown> {
  return (await reconcileLedger(db, { nowMs: NOON, holdAgeMaxMs: 3_600_000, findingsMax: 10 })).findings;
}

function settlementBy(payer: Payer, requestId: string, userId: string, nano: Nano): Settlement {
  const { row, chargedNano } = buildTestSettlement(requestId, nano, userId);
  return {
    chargedNano,
    row: { ...row, atMs: NOON, payer: payer === "balance" ? "balance" : "subscription" },
  };
}

interface Case {
  /** Other requests of this payer, before the hold is replaced. */
  prepare?(engine: BillingEngine, user: string, after: Payer): Promise<void>;
  asks: Pick<HoldRequest, "wantedNano" | "leastNano"> & Partial<Pick<HoldRequest, "firmNano">>;
  result(after: Payer): unknown;
  /** What the other requests hold. */
  othersNano: Nano;
  only?: Payer;
}

const isHeld = (amountNano: Nano) => (after: Payer) => ({ kind: "held", amountNano, after });

const CASES: Readonly<Record<string, Case>> = {
  "has exactly the amount, with the old hold": {
    asks: { wantedNano: FUNDS_NANO, leastNano: FUNDS_NANO },
    result: isHeld(FUNDS_NANO),
    othersNano: 0n,
  },
  "has a part": {
    asks: { wantedNano: FUNDS_NANO + 500n, leastNano: 10n },
    result: isHeld(FUNDS_NANO),
    othersNano: 0n,
  },
  "needs nothing": { asks: { wantedNano: 0n, leastNano: 0n }, result: isHeld(0n), othersNano: 0n },
  "is short by one nano-dollar": {
    asks: { wantedNano: FUNDS_NANO + 1n, leastNano: FUNDS_NANO + 1n },
    result: (after) => ({
      kind: "short",
      availableNano: FUNDS_NANO,
      resetsAtMs: after === "balance" ? null : MIDNIGHT,
    }),
    othersNano: 0n,
  },
  "is blocked by another request": {
    async prepare(engine, user, after) {
      const other = buildHoldRequest(`${user}-other`, { ...payBy(after, user), wantedNano: 300n });
      expect((await engine.hold(other)).kind).toBe("held");
    },
    asks: { wantedNano: FUNDS_NANO, leastNano: 100n, firmNano: 900n },
    result: () => ({ kind: "blocked", availableNano: 700n, neededNano: 900n }),
    othersNano: 300n,
  },
  "is in debt": {
    async prepare(engine, user, after) {
      for (const [id, wantedNano] of [
        ["other", 200n],
        ["dear", 100n],
      ] as const)
        await engine.hold(buildHoldRequest(`${user}-${id}`, { ...payBy(after, user), wantedNano }));
      await engine.settle(settlementBy(after, `${user}-dear`, user, 900n));
    },
    asks: { wantedNano: 10n, leastNano: 1n },
    result: () => ({ kind: "in_debt", debtNano: 100n }),
    othersNano: 200n,
    only: "balance",
  },
};

/** A hold of a request whose first attempt has failed. */
async function holdOld(db: Db, engine: BillingEngine, user: string, before: Payer): Promise<string> {
  const id = `${user}-request`;
  if (before === "none") return id;
  const old = buildHoldRequest(id, { ...payBy(before, user), wantedNano: OLD_NANO });
  expect(await engine.hold(old)).toMatchObject({ kind: "held", amountNano: OLD_NANO });
  if (before === "balance" && !("disk" in engine)) expect((await findHolds(db, [id])).size).toBe(0);
  engine.recordDispatch(id, "acc_1", "upstream-1");
  engine.checkpoint(id, 5);
  return id;
}

const next = (id: string, change: Partial<HoldRequest>): HoldRequest =>
  buildHoldRequest(id, {
    tariff: NEXT_TARIFF,
    groupId: "g2",
    publicModel: "slow",
    inputTokens: 33,
    ...change,
  });

/** Until everything that was recorded so far would be written. */
async function progressWritten(engine: BillingEngine): Promise<void> {
  await Bun.sleep(15);
  await engine.flush();
}

/** Returns the rest of the check: the hold that stands now is settled. */
async function checkReplacement(
  db: Db,
  engine: BillingEngine,
  before: Payer,
  after: Payer,
  tried: Case,
): Promise<() => Promise<void>> {
  const user = await createUser(db);
  const id = await holdOld(db, engine, user, before);
  await tried.prepare?.(engine, user, after);
  const result: HoldResult = await engine.replaceHold(next(id, { ...payBy(after, user), ...tried.asks }));
  const expected = tried.result(after) as HoldResult;
  const isReplaced = expected.kind === "held";
  const subscriptionId = findSubscription(after, user);
  expect(result).toEqual(
    isReplaced ? { kind: "held", amountNano: expected.amountNano, subscriptionId } : expected,
  );
  await progressWritten(engine);
  await engine.flushUser(user);
  const standing: Payer = isReplaced ? after : before;
  const standingNano = isReplaced ? expected.amountNano : OLD_NANO;
  const hold = (await findHolds(db, [id])).get(id);
  expect(hold ?? null).toEqual(
    standing === "none"
      ? null
      : expect.objectContaining({
          ...UNSENT,
          requestId: id,
          userId: user,
          atMs: NOON,
          amountNano: standingNano,
          subscriptionId: findSubscription(standing, user),
          ...(isReplaced
            ? { tariffId: NEXT_TARIFF.id, groupId: "g2", publicModel: "slow", inputTokens: 33 }
            : { groupId: "g1", publicModel: "fast", inputTokens: 20 }),
        }),
  );
  const held = heldBy(standing, standingNano);
  held[after] = (held[after] ?? 0n) + tried.othersNano;
  expect(await readHeld(db, user)).toEqual(held);
  return async () => {
    await checkSettlement(db, engine, { user, id, standing, standingNano });
    const rest = heldBy(after, tried.othersNano);
    expect(await readHeld(db, user)).toEqual(rest);
  };
}

interface Standing {
  user: string;
  id: string;
  standing: Payer;
  standingNano: Nano;
}

/** The hold that stands is charged, once. */
async function checkSettlement(
  db: Db,
  engine: BillingEngine,
  { user, id, standing, standingNano }: Standing,
) {
  if (standing === "none") return;
  engine.recordDispatch(id, "acc_2", "upstream-2");
  await progressWritten(engine);
  expect((await findHolds(db, [id])).get(id)).toMatchObject({ state: "dispatched", accountId: "acc_2" });
  const chargedNano = standingNano < 7n ? standingNano : 7n;
  const settlement = settlementBy(standing, id, user, chargedNano);
  await Promise.all([engine.settle(settlement), engine.settle(settlement)]);
  await engine.settle(settlement);
  await engine.flushUser(user);
  expect(engine.isOpen(id)).toBe(false);
  expect((await findHolds(db, [id])).size).toBe(0);
  expect(await findUsage(db, id)).toMatchObject({ chargedNano, payer: settlement.row.payer });
  const entry = await findEntry(db, `charge:${id}`);
  if (chargedNano === 0n) expect(entry).toBeNull();
  else
    expect(entry).toMatchObject({
      amountNano: chargedNano,
      subscriptionId: findSubscription(standing, user),
      atMs: NOON,
    });
}

eachEngine(({ open }) => {
  for (const [name, openEngine] of Object.entries(ENGINES)) {
    describe(`${name} replaces a hold`, () => {
      for (const before of PAYERS)
        test(`of ${before}, by each payer that can or cannot pay`, async () => {
          const db = await open();
          const engine = openEngine(db);
          const settlements: (() => Promise<void>)[] = [];
          for (const after of ["balance", ...PLANS] as const)
            for (const tried of Object.values(CASES)) {
              if (tried.only !== undefined && tried.only !== after) continue;
              settlements.push(await checkReplacement(db, engine, before, after, tried));
            }
          expect(await audit(db)).toEqual([]);
          for (const settle of settlements) await settle();
          expect(await audit(db)).toEqual([]);
          await engine.stop();
        }, 60_000);
    });

    test(`${name} releases a hold of each payer`, async () => {
      const db = await open();
      const engine = openEngine(db);
      for (const before of PAYERS) {
        const user = await createUser(db);
        const id = await holdOld(db, engine, user, before);
        await engine.releaseHold(id);
        expect(engine.isOpen(id)).toBe(false);
        expect((await findHolds(db, [id])).size).toBe(0);
        await engine.flushUser(user);
        expect(await readHeld(db, user)).toEqual(heldBy("none", 0n));
        // The request continues unpaid.
        const { row } = buildTestSettlement(id, 0n, user);
        engine.push({ ...row, atMs: NOON, payer: null, tariffId: null, costNano: 9n });
        await engine.flush();
        expect(await findUsage(db, id)).toMatchObject({ chargedNano: 0n, payer: null, costNano: 9n });
        expect(await findEntry(db, `charge:${id}`)).toBeNull();
        expect(await audit(db)).toEqual([]);
      }
      await engine.stop();
    });

    test(`${name} replaces a hold several times, and makes one after a release`, async () => {
      const db = await open();
      const engine = openEngine(db);
      const user = await createUser(db);
      const id = await holdOld(db, engine, user, "balance");
      for (const after of ["plan-a", "balance", "plan-b", "plan-a"] as const) {
        const whole = next(id, { ...payBy(after, user), wantedNano: FUNDS_NANO, leastNano: FUNDS_NANO });
        expect((await engine.replaceHold(whole)).kind).toBe("held");
        expect(await readHeld(db, user)).toEqual(heldBy(after, FUNDS_NANO));
      }
      await engine.releaseHold(id);
      expect((await engine.replaceHold(next(id, payBy("balance", user)))).kind).toBe("held");
      await engine.settle(settlementBy("balance", id, user, 40n));
      await engine.flushUser(user);
      expect(await readWallet(db, user)).toEqual({ balanceNano: 960n, heldNano: 0n });
      expect(await audit(db)).toEqual([]);
      await engine.stop();
    });
  }

  test("money that a replacement frees pays for the next hold of the same transaction", async () => {
    const db = await open();
    const engine = makeBilling(db, options);
    const user = await createUser(db);
    const all = { wantedNano: FUNDS_NANO, leastNano: FUNDS_NANO };
    await engine.hold(buildHoldRequest("one", { ...payBy("balance", user), ...all }));
    await engine.hold(buildHoldRequest("two", { ...payBy("plan-a", user), ...all }));
    const submitted = [
      engine.hold(buildHoldRequest("three", { ...payBy("balance", user), ...all })),
      engine.replaceHold(next("one", { ...payBy("plan-b", user), ...all })),
      engine.replaceHold(next("two", { ...payBy("plan-a", user), wantedNano: 400n })),
    ];
    // A batch starts in the next turn of the event loop.
    for (let microtask = 0; microtask < 20; microtask++) await null;
    submitted.push(
      engine.hold(buildHoldRequest("four", { ...payBy("balance", user), ...all })),
      engine.hold(buildHoldRequest("five", { ...payBy("plan-a", user), wantedNano: 600n, leastNano: 600n })),
    );
    const kinds = (await Promise.all(submitted)).map(({ kind }) => kind);
    expect(kinds).toEqual(["short", "held", "held", "held", "held"]);
    expect(await readHeld(db, user)).toEqual({
      balance: FUNDS_NANO,
      "plan-a": FUNDS_NANO,
      "plan-b": FUNDS_NANO,
    });
    expect(await audit(db)).toEqual([]);
    await engine.stop();
  });

  test("what a settlement leaves of a plan pays for a hold of the same transaction", async () => {
    const db = await open();
    const engine = makeBilling(db, options);
    const user = await createUser(db);
    const all = { ...payBy("plan-a", user), wantedNano: FUNDS_NANO, leastNano: FUNDS_NANO };
    await engine.hold(buildHoldRequest("one", all));
    const [, two, three] = await Promise.all([
      engine.settle(settlementBy("plan-a", "one", user, 400n)),
      engine.hold(buildHoldRequest("two", { ...all, leastNano: 10n })),
      engine.hold(buildHoldRequest("three", { ...all, leastNano: 1n })),
    ]);
    expect(two).toMatchObject({ kind: "held", amountNano: 600n });
    expect(three.kind).toBe("short");
    expect(await audit(db)).toEqual([]);
    await engine.stop();
  });

  test("a request that waits for money is served when another one replaces or releases its hold", async () => {
    const db = await open();
    const engine = new HoldQueueBilling(makeBilling(db, options), { ...limits.holdQueue, retryMs: 60_000 });
    const user = await createUser(db);
    const all = { ...payBy("balance", user), wantedNano: FUNDS_NANO, leastNano: 10n };
    const waiting = (id: string) =>
      Promise.resolve(engine.hold(buildHoldRequest(id, { ...all, firmNano: FUNDS_NANO })));
    await engine.hold(buildHoldRequest("one", all));
    const two = waiting("two");
    await engine.replaceHold(next("one", payBy("plan-a", user)));
    expect(await two).toMatchObject({ kind: "held", amountNano: FUNDS_NANO });
    const three = waiting("three");
    await engine.releaseHold("two");
    expect(await three).toMatchObject({ kind: "held", amountNano: FUNDS_NANO });
    await engine.stop();
  });
});
