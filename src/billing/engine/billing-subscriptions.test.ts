import { expect, test } from "bun:test";
import fc from "fast-check";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { systemClock } from "../../base/clock.ts";
import type { PlanWindow } from "../../records/plan.ts";
import { userRecord } from "../../records/records.test-support.ts";
import type { Db } from "../../store/engine/db.ts";
import { putUser } from "../../store/identity/users.ts";
import { findEntry } from "../../store/money/ledger.ts";
import { putPlan } from "../../store/money/plans.ts";
import { findWrongWindows } from "../../store/money/subscription-windows.ts";
import { putSubscription } from "../../store/money/subscriptions.ts";
import { findUsage } from "../../store/usage/usage.ts";
import { removeUsageRows } from "../../store/usage/usage-removal.ts";
import { reconcileLedger } from "../maintenance/reconciliation.ts";
import {
  addFunds,
  buildHoldRequest,
  buildTestSettlement,
  makeBilling,
} from "./direct-billing.test-support.ts";

const daily = (usd: string): PlanWindow[] => [{ per: "day", usd, counted: "calendar" }];

async function grant(
  db: Db,
  id: string,
  windows: PlanWindow[],
  { priority = 1, userId = "u1", timeZone = "UTC" } = {},
): Promise<void> {
  await putPlan(db, { id: `plan_${id}`, name: `plan-${id}`, timeZone, windows, createdAtMs: 0 });
  await putSubscription(db, {
    id,
    userId,
    planId: `plan_${id}`,
    startsAtMs: 0,
    endsAtMs: null,
    renews: "none",
    priority,
    status: "active",
    createdAtMs: 0,
  });
}

async function someone(db: Db, id = "u1"): Promise<void> {
  await putUser(db, userRecord(id));
}

const charge = "subscription" as const;
const DAY_MS = 86_400_000;
const NOON = Date.parse("2027-03-10T12:00:00Z");

/** A billing engine whose clock the test sets. */
function makeClocked(db: Db) {
  let nowMs = NOON;
  const billingEngine = makeBilling(db, { clock: { ...systemClock, nowMs: () => nowMs } });
  return {
    billingEngine: billingEngine,
    setClock(atMs: number) {
      nowMs = atMs;
    },
    settle(requestId: string, nano: bigint, userId = "u1") {
      const { row, chargedNano } = buildTestSettlement(requestId, nano, userId);
      return billingEngine.settle({ chargedNano, row: { ...row, atMs: nowMs, payer: "subscription" } });
    },
  };
}

async function findings(db: Db, nowMs = NOON): Promise<string[]> {
  const found = await reconcileLedger(db, { nowMs, holdAgeMaxMs: 3_600_000, findingsMax: 10 });
  return found.findings.map(({ check, subject }) => `${check} ${subject}`);
}

eachEngine(({ open }) => {
  test("the first subscription that covers the full amount pays, else the first for the minimum", async () => {
    const db = await open();
    await someone(db);
    await grant(db, "s1", daily("0.000000150"), { priority: 1 });
    await grant(db, "s2", daily("0.000000200"), { priority: 2 });
    const billingEngine = makeBilling(db);
    const held = await Promise.all(
      ["r1", "r2", "r3", "r4"].map((id) => billingEngine.hold(buildHoldRequest(id, { charge }))),
    );
    expect(held).toEqual([
      { kind: "held", amountNano: 100n, subscriptionId: "s1" },
      { kind: "held", amountNano: 100n, subscriptionId: "s2" },
      { kind: "held", amountNano: 100n, subscriptionId: "s2" },
      { kind: "held", amountNano: 50n, subscriptionId: "s1" },
    ]);
    expect(await billingEngine.hold(buildHoldRequest("r5", { charge }))).toMatchObject({
      kind: "short",
      availableNano: 0n,
    });
    await billingEngine.stop();
  });

  test("the charge is recorded in the window and the entry of the paying subscription", async () => {
    const db = await open();
    await someone(db);
    await addFunds(db, "u1", 1_000n);
    await grant(db, "s1", daily("0.000000150"), { priority: 1 });
    await grant(db, "s2", daily("0.000000400"), { priority: 2 });
    const billingEngine = makeBilling(db);
    const held = await Promise.all(
      ["r1", "r2", "r3"].map((id) => billingEngine.hold(buildHoldRequest(id, { charge }))),
    );
    expect(held).toEqual([
      { kind: "held", amountNano: 100n, subscriptionId: "s1" },
      { kind: "held", amountNano: 100n, subscriptionId: "s2" },
      { kind: "held", amountNano: 100n, subscriptionId: "s2" },
    ]);
    const only = { charge, plans: ["plan-s1"] };
    expect(await billingEngine.hold(buildHoldRequest("r4", only))).toMatchObject({
      amountNano: 50n,
      subscriptionId: "s1",
    });
    expect(await billingEngine.hold(buildHoldRequest("r6", only))).toMatchObject({
      kind: "short",
      availableNano: 0n,
    });
    const bySubscription = (id: string, nano: bigint) => {
      const settlement = buildTestSettlement(id, nano);
      return billingEngine.settle({ ...settlement, row: { ...settlement.row, payer: "subscription" } });
    };
    await Promise.all([
      bySubscription("r1", 30n),
      billingEngine.hold(buildHoldRequest("r5", { charge })),
      bySubscription("r3", 5n),
    ]);
    expect(await findUsage(db, "r1")).toMatchObject({ payer: "subscription", chargedNano: 30n });
    expect(await findEntry(db, "charge:r1")).toMatchObject({
      debit: "subscription:s1",
      subscriptionId: "s1",
      amountNano: 30n,
    });
    expect(await findings(db, Date.now())).toEqual([]);
    await billingEngine.stop();
  });

  test("a clock that is set back opens no window again and no earlier one", async () => {
    const db = await open();
    await someone(db);
    await grant(db, "s1", daily("0.000000150"));
    const { billingEngine, setClock, settle } = makeClocked(db);
    await billingEngine.hold(buildHoldRequest("r1", { charge }));
    await settle("r1", 100n);
    for (const days of [1, 2, 40]) {
      setClock(NOON - days * DAY_MS);
      expect(await billingEngine.hold(buildHoldRequest(`back${days}`, { charge, leastNano: 60n }))).toEqual({
        kind: "short",
        availableNano: 50n,
        resetsAtMs: Date.parse("2027-03-11T00:00:00Z"),
      });
    }
    // The rest of the window can be used, and counts in it.
    expect(await billingEngine.hold(buildHoldRequest("r2", { charge }))).toMatchObject({
      kind: "held",
      amountNano: 50n,
    });
    await settle("r2", 50n);
    expect((await findEntry(db, "charge:r2"))?.atMs).toBe(Date.parse("2027-03-10T00:00:00Z"));
    setClock(NOON + 1);
    expect(await billingEngine.hold(buildHoldRequest("r3", { charge }))).toMatchObject({
      kind: "short",
      availableNano: 0n,
    });
    setClock(NOON + DAY_MS);
    expect(await billingEngine.hold(buildHoldRequest("r4", { charge }))).toMatchObject({
      kind: "held",
      amountNano: 100n,
    });
    await billingEngine.stop();
    expect(await findings(db)).toEqual([]);
  });

  test("a jumping clock grants as much as a clock that never goes back", async () => {
    const db = await open();
    const windows: PlanWindow[] = [
      { per: "day", usd: "0.000000120", counted: "calendar" },
      { per: "week", usd: "0.000000300", counted: "rolling" },
      { per: "month", usd: "0.000000700", counted: "calendar" },
    ];
    const step = fc.record({
      hours: fc.oneof(fc.integer({ min: -30, max: 30 }), fc.integer({ min: -1_000, max: 1_000 })),
      chargedNano: fc.bigInt({ min: 0n, max: 100n }),
      isLeftOpen: fc.boolean(),
    });
    const [stepping, standing] = [makeClocked(db), makeClocked(db)];
    let runs = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 2, maxLength: 12 }), async (steps) => {
        const run = ++runs;
        const desks = [
          { desk: stepping, userId: `stepping${run}` },
          { desk: standing, userId: `standing${run}` },
        ];
        for (const { userId } of desks) {
          await someone(db, userId);
          await grant(db, `sub-${userId}`, windows, { userId, timeZone: "Europe/Berlin" });
        }
        let nowMs = NOON;
        let latestMs = 0;
        for (const [i, { hours, chargedNano, isLeftOpen }] of steps.entries()) {
          nowMs += hours * 3_600_000;
          latestMs = Math.max(latestMs, nowMs);
          stepping.setClock(nowMs);
          standing.setClock(latestMs);
          const [one, other] = await Promise.all(
            desks.map(async ({ desk, userId }) => {
              const requestId = `${userId}-${i}`;
              const result = await desk.billingEngine.hold(buildHoldRequest(requestId, { charge, userId }));
              if (result.kind === "held" && !isLeftOpen) await desk.settle(requestId, chargedNano, userId);
              return { ...result, subscriptionId: null };
            }),
          );
          expect(one).toEqual(other);
        }
        expect(await findWrongWindows(db, 1)).toEqual([]);
      }),
      { numRuns: 12 },
    );
    for (const { billingEngine } of [stepping, standing]) await billingEngine.stop();
  });

  test("a charge whose row was removed in time is no finding, even in a window ahead of the clock", async () => {
    const db = await open();
    await someone(db);
    await grant(db, "s1", daily("1.00"));
    const { billingEngine, setClock, settle } = makeClocked(db);
    const idAt = (atMs: number) => `req_${Bun.randomUUIDv7("hex", atMs)}`;
    const ids: string[] = [];
    for (const atMs of [NOON, NOON - 30 * DAY_MS, NOON - 28 * DAY_MS]) {
      setClock(atMs);
      const id = idAt(atMs);
      ids.push(id);
      await billingEngine.hold(buildHoldRequest(id, { charge }));
      await settle(id, 10n);
    }
    await billingEngine.stop();
    await removeUsageRows(db, { beforeMs: NOON - 29 * DAY_MS, rowsMax: 100 });
    expect(await findings(db)).toEqual([]);
    await db.sql`DELETE FROM usage_row WHERE request_id = ${ids[2] ?? ""}`;
    expect(await findings(db)).toContain(`entry_row charge:${ids[2]}`);
  });
});
