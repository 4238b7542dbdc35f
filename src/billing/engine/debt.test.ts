/**
 * Costs above the hold, in direct and write-behind billing: charged from the available balance, then as debt, and
 * only once.
 */

import { expect, test } from "bun:test";
import { eachEngine } from "../../../test/support/postgres.ts";
import { type Db, openDb } from "../../store/engine/db.ts";
import { migrate } from "../../store/engine/migrate.ts";
import { readWallet } from "../../store/money/wallets.ts";
import { reconcileLedger } from "../maintenance/reconciliation.ts";
import { addFunds, asking, makeTill, mortal, recover, settling } from "./direct-billing.test-support.ts";

const findings = async (db: Db) =>
  (await reconcileLedger(db, { nowMs: Date.now(), holdLeaseMs: 3_600_000, findingsMax: 10 })).findings;
const overruns = (db: Db) =>
  db.sql`SELECT request_id, CAST(held_nano AS TEXT) AS held, CAST(charged_nano AS TEXT) AS charged,
    CAST(debt_nano AS TEXT) AS debt FROM overrun ORDER BY request_id`;

eachEngine(({ open }) => {
  test("what the wallet lacks is owed, refuses holds, and is covered first by what comes in", async () => {
    const db = await open();
    await addFunds(db, "u1", 100n);
    const till = makeTill(db);
    await till.hold(asking("r1"));
    await till.settle(settling("r1", 170n));
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: -70n, heldNano: 0n });
    expect(await overruns(db)).toEqual([{ request_id: "r1", held: "100", charged: "170", debt: "70" }]);
    expect(await till.hold(asking("r2"))).toEqual({ kind: "in_debt", debtNano: 70n });
    const free = asking("r3", { wantedNano: 0n, leastNano: 0n });
    expect(await till.hold(free)).toMatchObject({ kind: "held", amountNano: 0n });
    await addFunds(db, "u1", 50n);
    expect(await till.hold(asking("r4"))).toEqual({ kind: "in_debt", debtNano: 20n });
    await addFunds(db, "u1", 50n);
    expect(await till.hold(asking("r5"))).toMatchObject({ kind: "held", amountNano: 30n });
    expect(await findings(db)).toEqual([]);
    await till.stop();
  });

  test("a cost above a hold of nothing is charged, whether or not its user has a wallet", async () => {
    const db = await open();
    const till = makeTill(db);
    const free = { wantedNano: 0n, leastNano: 0n };
    await till.hold(asking("r1", { ...free, userId: "u9" }));
    await till.settle(settling("r1", 5n, "u9"));
    expect(await readWallet(db, "u9")).toEqual({ balanceNano: -5n, heldNano: 0n });
    expect(await findings(db)).toEqual([]);
    await till.stop();
  });

  test("the store refuses a shortfall that no overrun explains", async () => {
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

  test("the audit names a debt that no overrun explains, and an overrun that no charge does", async () => {
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

test("the express lane charges above its hold from the whole wallet, and leaves the lease right", async () => {
  const db = await openDb("sqlite::memory:");
  await migrate(db);
  await addFunds(db, "u1", 10_000n);
  const till = makeTill(db, { express: {} });
  for (const id of ["r1", "r2", "r3"]) expect(await till.hold(asking(id))).toMatchObject({ kind: "held" });
  await till.settle(settling("r1", 40n));
  await till.settle(settling("r2", 9_990n));
  await till.settleUp("u1");
  expect(await readWallet(db, "u1")).toEqual({ balanceNano: -30n, heldNano: 100n });
  expect(await overruns(db)).toMatchObject([{ request_id: "r2", charged: "9990" }]);
  expect(await till.hold(asking("r4"))).toEqual({ kind: "in_debt", debtNano: 130n });
  await till.settle(settling("r3", 10n));
  await till.settleUp("u1");
  expect(await readWallet(db, "u1")).toEqual({ balanceNano: -40n, heldNano: 0n });
  expect(await findings(db)).toEqual([]);
  await till.stop();
});

test("an overrun of the express lane is booked once, though its process dies and its journal is read", async () => {
  const db = await openDb("sqlite::memory:");
  await migrate(db);
  await addFunds(db, "u1", 10_000n);
  const reach = mortal(db);
  const till = makeTill(reach, { express: {} });
  for (const id of ["r1", "r2"]) await till.hold(asking(id));
  await till.settle(settling("r1", 500n));
  reach.kill();
  await till.stop();
  const next = makeTill(db, { incarnation: "inc_next", dir: till.dir });
  const recovery = await recover(db, next);
  await recovery.stop();
  await next.stop();
  expect(await readWallet(db, "u1")).toEqual({ balanceNano: 9_500n, heldNano: 0n });
  expect(await overruns(db)).toHaveLength(1);
  expect(await findings(db)).toEqual([]);
});
