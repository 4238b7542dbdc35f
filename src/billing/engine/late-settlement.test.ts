/** Settlements whose hold is gone: the real usage wins, whichever of the two is booked first. */

import { expect, test } from "bun:test";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { systemClock, uuidV7 } from "../../base/clock.ts";
import { userRecord } from "../../records/records.test-support.ts";
import type { Db } from "../../store/engine/db.ts";
import { putUser } from "../../store/identity/users.ts";
import { listUserEntries } from "../../store/money/entries.ts";
import { putPlan } from "../../store/money/plans.ts";
import { putSubscription } from "../../store/money/subscriptions.ts";
import { readWallet } from "../../store/money/wallets.ts";
import { findUsage, keyTotals } from "../../store/usage/usage.ts";
import { usageRow } from "../../store/usage/usage-row.test-support.ts";
import { reconcileLedger } from "../maintenance/reconciliation.ts";
import { adjust, refund } from "../operations/operations.ts";
import {
  addFunds,
  type BillingUnderTest,
  buildHoldRequest,
  buildTestSettlement,
  makeBilling,
  recover,
} from "./direct-billing.test-support.ts";

const findings = async (db: Db) =>
  (await reconcileLedger(db, { nowMs: Date.now(), holdAgeMaxMs: 3_600_000, findingsMax: 10 })).findings;
const moved = async (db: Db) =>
  (await listUserEntries(db, "u1", { limit: 9 }))
    .filter(({ kind }) => kind === "charge" || kind === "correction")
    .map(({ kind, credit, amountNano }) => `${kind} ${credit === "revenue" ? amountNano : -amountNano}`)
    .toSorted();

/** Its process is considered dead after the request was sent, and 20n of input are charged. */
async function recovered(db: Db, alive: BillingUnderTest, charge: "balance" | "subscription"): Promise<void> {
  await alive.hold(buildHoldRequest("r1", { charge }));
  alive.recordDispatch("r1", "acc_1", "gpt");
  await alive.flush();
  const other = makeBilling(db, { processId: "inc_other" });
  // The process is not registered, so its holds count as those of a dead process.
  const recovery = await recover(db, other);
  expect(await findUsage(db, "r1")).toMatchObject({ chargedNano: 20n, flags: ["recovered"] });
  await recovery.stop();
  await recovery.unregister();
  await other.stop();
}

const paidBy = (payer: "balance" | "subscription", nano: bigint) => {
  const { row, chargedNano } = buildTestSettlement("r1", nano);
  return { chargedNano, row: { ...row, payer } };
};

async function grant(db: Db, usd: string): Promise<void> {
  await putUser(db, userRecord("u1"));
  const windows = [{ per: "day", usd, counted: "calendar" } as const];
  await putPlan(db, { id: "p", name: "p", timeZone: "UTC", windows, createdAtMs: 0 });
  await putSubscription(db, {
    id: "s",
    userId: "u1",
    planId: "p",
    startsAtMs: 0,
    endsAtMs: null,
    renews: "none",
    priority: 1,
    status: "active",
    createdAtMs: 0,
  });
}

const used = async (db: Db) => {
  const [row] = await db.sql`SELECT used_nano, held_nano FROM subscription_window`;
  return { used: Number(row?.used_nano), held: Number(row?.held_nano) };
};

eachEngine(({ open }) => {
  test.each([
    ["more", 30n, ["charge 20", "correction 10"]],
    ["less", 5n, ["charge 20", "correction -15"]],
    ["nothing", 0n, ["charge 20", "correction -20"]],
    ["the same amount", 20n, ["charge 20"]],
  ])("a settlement of %s replaces the estimate of recovery, once", async (_, nano, entries) => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const alive = makeBilling(db, { processId: "inc_alive" });
    await recovered(db, alive, "balance");
    await alive.book(buildTestSettlement("r1", nano));
    expect(await findUsage(db, "r1")).toMatchObject({
      chargedNano: nano,
      costNano: nano,
      outcome: "completed",
      flags: [],
      payer: "balance",
    });
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 1_000n - nano, heldNano: 0n });
    expect(await moved(db)).toEqual(entries);
    expect(await keyTotals(db, "k1", null)).toMatchObject({ requests: 1, failed: 0, chargedNano: nano });
    const again = makeBilling(db, { processId: "inc_again" });
    await again.book(buildTestSettlement("r1", nano));
    expect(await moved(db)).toEqual(entries);
    expect(await findings(db)).toEqual([]);
    await alive.stop();
    await again.stop();
  });

  test("an estimate that arrives after the real settlement changes nothing", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const billingEngine = makeBilling(db);
    await billingEngine.hold(buildHoldRequest("r1"));
    await billingEngine.book(buildTestSettlement("r1", 30n));
    const guess = buildTestSettlement("r1", 20n);
    await billingEngine.book({ ...guess, row: { ...guess.row, flags: ["recovered"] } });
    expect(await findUsage(db, "r1")).toMatchObject({ chargedNano: 30n, flags: [] });
    expect(await moved(db)).toEqual(["charge 30"]);
    expect(billingEngine.logged).toEqual([]);
    await billingEngine.stop();
  });

  test("an estimate for a hold that its own process released is not charged", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const billingEngine = makeBilling(db);
    const guess = buildTestSettlement("r1", 20n);
    await billingEngine.book({ ...guess, row: { ...guess.row, flags: ["recovered"] } });
    expect(await findUsage(db, "r1")).toBeNull();
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 1_000n, heldNano: 0n });
    await billingEngine.stop();
  });

  test("a settlement without a hold is charged from the available balance", async () => {
    const db = await open();
    await addFunds(db, "u1", 50n);
    const billingEngine = makeBilling(db);
    await billingEngine.book(buildTestSettlement("r1", 30n));
    await billingEngine.book(buildTestSettlement("r2", 30n));
    expect(await findUsage(db, "r1")).toMatchObject({ chargedNano: 30n, payer: "balance", flags: [] });
    expect(await findUsage(db, "r2")).toMatchObject({
      chargedNano: 20n,
      costNano: 30n,
      payer: "balance",
      flags: ["overrun"],
    });
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 0n, heldNano: 0n });
    expect(await findings(db)).toEqual([]);
    await billingEngine.stop();
  });

  test("money held for other requests is not charged", async () => {
    const db = await open();
    await addFunds(db, "u1", 110n);
    const billingEngine = makeBilling(db);
    await billingEngine.hold(buildHoldRequest("other"));
    await billingEngine.book(buildTestSettlement("r1", 30n));
    expect((await findUsage(db, "r1"))?.chargedNano).toBe(10n);
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: 100n, heldNano: 100n });
    expect(await findings(db)).toEqual([]);
    await billingEngine.stop();
  });

  test("without a payer the row is stored uncharged, counted as a fault, and reported by the audit", async () => {
    const db = await open();
    const billingEngine = makeBilling(db);
    await billingEngine.book(buildTestSettlement("r1", 30n));
    expect(await findUsage(db, "r1")).toMatchObject({ chargedNano: 0n, costNano: 30n, payer: null });
    expect(billingEngine.faults.list()).toContainEqual({
      fault: "unpaid_row",
      count: 1,
      latestAtMs: expect.any(Number),
    });
    expect(await findings(db)).toEqual([{ check: "unpaid", subject: "r1", is: "0", ought: "30" }]);
    billingEngine.push(usageRow({ requestId: "free", userId: "u1", costNano: 7n }));
    await billingEngine.flush();
    expect(await findings(db)).toHaveLength(1);
    await billingEngine.stop();
  });

  test.each([
    ["more", 60n],
    ["less", 5n],
  ])("a subscription that paid the estimate pays %s for the real usage", async (_, nano) => {
    const db = await open();
    await grant(db, "0.000000150");
    const alive = makeBilling(db, { processId: "inc_alive" });
    await recovered(db, alive, "subscription");
    await alive.book(paidBy("subscription", nano));
    expect(await findUsage(db, "r1")).toMatchObject({ chargedNano: nano, payer: "subscription", flags: [] });
    expect(await used(db)).toEqual({ used: Number(nano), held: 0 });
    expect(await findings(db)).toEqual([]);
    await alive.stop();
  });

  test("a subscription without a hold pays what remains in its window", async () => {
    const db = await open();
    await grant(db, "0.000000050");
    const billing = makeBilling(db);
    await billing.book(paidBy("subscription", 70n));
    expect(await findUsage(db, "r1")).toMatchObject({
      chargedNano: 50n,
      payer: "subscription",
      flags: ["overrun"],
    });
    expect(await used(db)).toEqual({ used: 50, held: 0 });
    expect(await findings(db)).toEqual([]);
    await billing.stop();
  });

  test("the audit reports a correction that was changed together with its balance", async () => {
    const db = await open();
    await addFunds(db, "u1", 1_000n);
    const alive = makeBilling(db, { processId: "inc_alive" });
    await recovered(db, alive, "balance");
    await alive.book(buildTestSettlement("r1", 30n));
    await db.sql`UPDATE entry SET amount_nano = 5 WHERE id = 'correction:r1'`;
    await db.sql`UPDATE wallet SET balance_nano = balance_nano + 5 WHERE user_id = 'u1'`;
    const checks = (await findings(db)).map(({ check }) => check);
    expect(checks.toSorted()).toEqual(["correction", "entry_row", "row_entry"]);
    await alive.stop();
  });

  test("a refunded estimate stays, and a refund is limited by the corrected charge", async () => {
    const db = await open();
    await putUser(db, userRecord("u1"));
    await addFunds(db, "u1", 1_000n);
    const desk = { db, clock: systemClock, newId: uuidV7 };
    const by = { actor: "cli:ada", reason: null };
    const alive = makeBilling(db, { processId: "inc_alive" });
    await recovered(db, alive, "balance");
    await refund(desk, { requestId: "r1", amountNano: 20n, ...by });
    await alive.book(buildTestSettlement("r1", 30n));
    expect(await findUsage(db, "r1")).toMatchObject({ chargedNano: 20n, flags: ["recovered"] });
    expect((await readWallet(db, "u1")).balanceNano).toBe(1_000n);
    await alive.stop();
    const second = await open();
    await putUser(second, userRecord("u1"));
    await addFunds(second, "u1", 1_000n);
    const billing = makeBilling(second, { processId: "inc_alive" });
    await recovered(second, billing, "balance");
    await billing.book(buildTestSettlement("r1", 30n));
    const back = await refund({ ...desk, db: second }, { requestId: "r1", amountNano: "all", ...by });
    expect(back.entry.amountNano).toBe(30n);
    await adjust({ ...desk, db: second }, { userId: "u1", amountNano: 1n, ...by });
    expect(await findings(second)).toEqual([]);
    await billing.stop();
  });
});
