/**
 * Costs above the hold, in direct and write-behind billing: charged from the available balance, then as debt, and
 * only once.
 */

import { expect, test } from "bun:test";
import { eachEngine } from "../../../test/support/each-engine.ts";
import { type Db, openDb } from "../../store/engine/db.ts";
import { migrate } from "../../store/engine/migrate.ts";
import { readWallet } from "../../store/money/wallets.ts";
import { reconcileLedger } from "../maintenance/reconciliation.ts";
import {
  addFunds,
  buildHoldRequest,
  buildTestSettlement,
  makeBilling,
  makeKillableDb,
  recover,
} from "./direct-billing.test-support.ts";

const findings = async (db: Db) =>
  (await reconcileLedger(db, { nowMs: Date.now(), holdAgeMaxMs: 3_600_000, findingsMax: 10 })).findings;
const overruns = (db: Db) =>
  db.sql`SELECT request_id, CAST(held_nano AS TEXT) AS held, CAST(charged_nano AS TEXT) AS charged,
    CAST(debt_nano AS TEXT) AS debt FROM overrun ORDER BY request_id`;

eachEngine(({ open }) => {
  test("an uncovered cost becomes debt, blocks holds, and is paid first by the next top-up", async () => {
    const db = await open();
    await addFunds(db, "u1", 100n);
    const billingEngine = makeBilling(db);
    await billingEngine.hold(buildHoldRequest("r1"));
    await billingEngine.settle(buildTestSettlement("r1", 170n));
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: -70n, heldNano: 0n });
    expect(await overruns(db)).toEqual([{ request_id: "r1", held: "100", charged: "170", debt: "70" }]);
    expect(await billingEngine.hold(buildHoldRequest("r2"))).toEqual({ kind: "in_debt", debtNano: 70n });
    const free = buildHoldRequest("r3", { wantedNano: 0n, leastNano: 0n });
    expect(await billingEngine.hold(free)).toMatchObject({ kind: "held", amountNano: 0n });
    await addFunds(db, "u1", 50n);
    expect(await billingEngine.hold(buildHoldRequest("r4"))).toEqual({ kind: "in_debt", debtNano: 20n });
    await addFunds(db, "u1", 50n);
    expect(await billingEngine.hold(buildHoldRequest("r5"))).toMatchObject({ kind: "held", amountNano: 30n });
    expect(await findings(db)).toEqual([]);
    await billingEngine.stop();
  });

  test("a cost above a zero hold is charged, with or without a wallet", async () => {
    const db = await open();
    const billingEngine = makeBilling(db);
    const free = { wantedNano: 0n, leastNano: 0n };
    await billingEngine.hold(buildHoldRequest("r1", { ...free, userId: "u9" }));
    await billingEngine.settle(buildTestSettlement("r1", 5n, "u9"));
    expect(await readWallet(db, "u9")).toEqual({ balanceNano: -5n, heldNano: 0n });
    expect(await findings(db)).toEqual([]);
    await billingEngine.stop();
  });

  test("the database rejects a negative balance without an overrun", async () => {
    const db = await open();
    await addFunds(db, "u1", 100n);
    const overspend = db.sql`UPDATE wallet SET balance_nano = balance_nano - 101 WHERE user_id = 'u1'`;
    expect(
      await overspend.then(
        () => "done",
        () => "refused",
      ),
    ).toBe("refused");
  });

  test("reconciliation reports a debt without an overrun, and an overrun without a charge", async () => {
    const db = await open();
    await addFunds(db, "u1", 100n);
    await db.sql`UPDATE wallet SET held_nano = 150, debt_nano = 50 WHERE user_id = 'u1'`;
    await db.sql`
      INSERT INTO overrun (request_id, at_ms, user_id, held_nano, charged_nano, debt_nano)
      VALUES ('r1', 1, 'u2', 1, 2, 0)`;
    const checks = (await findings(db)).map(({ check }) => check);
    expect(checks).toContain("debt");
    expect(checks).toContain("overrun");
  });
});

test("write-behind billing charges an overrun from the wallet and keeps the reservation correct", async () => {
  const db = await openDb("sqlite::memory:");
  await migrate(db);
  await addFunds(db, "u1", 10_000n);
  const billingEngine = makeBilling(db, { writeBehind: {} });
  for (const id of ["r1", "r2", "r3"])
    expect(await billingEngine.hold(buildHoldRequest(id))).toMatchObject({ kind: "held" });
  await billingEngine.settle(buildTestSettlement("r1", 40n));
  await billingEngine.settle(buildTestSettlement("r2", 9_990n));
  await billingEngine.flushUser("u1");
  expect(await readWallet(db, "u1")).toEqual({ balanceNano: -30n, heldNano: 100n });
  expect(await overruns(db)).toMatchObject([{ request_id: "r2", charged: "9990" }]);
  expect(await billingEngine.hold(buildHoldRequest("r4"))).toEqual({ kind: "in_debt", debtNano: 130n });
  await billingEngine.settle(buildTestSettlement("r3", 10n));
  await billingEngine.flushUser("u1");
  expect(await readWallet(db, "u1")).toEqual({ balanceNano: -40n, heldNano: 0n });
  expect(await findings(db)).toEqual([]);
  await billingEngine.stop();
});

test("a write-behind overrun is booked once if the process dies and its journal is recovered", async () => {
  const db = await openDb("sqlite::memory:");
  await migrate(db);
  await addFunds(db, "u1", 10_000n);
  const reach = makeKillableDb(db);
  const billingEngine = makeBilling(reach, { writeBehind: {} });
  for (const id of ["r1", "r2"]) await billingEngine.hold(buildHoldRequest(id));
  await billingEngine.settle(buildTestSettlement("r1", 500n));
  reach.kill();
  await billingEngine.stop();
  const next = makeBilling(db, { processId: "inc_next", dir: billingEngine.dir });
  const recovery = await recover(db, next);
  await recovery.stop();
  await next.stop();
  expect(await readWallet(db, "u1")).toEqual({ balanceNano: 9_500n, heldNano: 0n });
  expect(await overruns(db)).toHaveLength(1);
  expect(await findings(db)).toEqual([]);
});
