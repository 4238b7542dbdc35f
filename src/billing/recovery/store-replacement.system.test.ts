import { afterEach, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { eventually } from "../../../test/support/eventually.ts";
import { FailoverDatabase } from "../../../test/support/standby.ts";
import { systemClock } from "../../base/clock.ts";
import { makeTariff } from "../../money/tariff.ts";
import { NO_TOKENS } from "../../money/token-counts.ts";
import { type Db, openDb } from "../../store/engine/db.ts";
import { migrate } from "../../store/engine/migrate.ts";
import { readTerms } from "../../store/money/tariffs.ts";
import { listReservations } from "../../store/money/wallet-reservations.ts";
import { readWallet } from "../../store/money/wallets.ts";
import { findUsage } from "../../store/usage/usage.ts";
import { usageRow } from "../../store/usage/usage-row.test-support.ts";
import {
  addFunds,
  type BillingUnderTest,
  buildHoldRequest,
  buildTestSettlement,
  makeBilling,
} from "../engine/direct-billing.test-support.ts";
import { RecentBookings } from "../engine/recent-bookings.ts";
import { LateUsage } from "../late-usage.ts";
import { reconcileLedger } from "../maintenance/reconciliation.ts";
import { StoreReplacement } from "./store-replacement.ts";

setDefaultTimeout(120_000);

const MUCH = 1_000_000n;
const LOST_TARIFF = makeTariff({ input: "0.002", output: "0.002" });
const LIMITS = { keptMs: 60_000, requestsMax: 1_000 };
const log = { info() {}, warn() {}, error() {} };

let database: FailoverDatabase;
let db: Db;
let recentBookings: RecentBookings;

beforeEach(async () => {
  database = await FailoverDatabase.create();
  db = await openDb(database.url, { workload: "billing" });
  await migrate(db);
  await addFunds(db, "u1", MUCH);
  recentBookings = new RecentBookings({ limits: LIMITS, monotonicMs: systemClock.monotonicMs });
});

afterEach(async () => {
  await db.close();
  await database.remove();
});

/** Has seen the timeline of the primary. */
async function watch(billingEngine: BillingUnderTest): Promise<StoreReplacement> {
  const replacement = new StoreReplacement({
    db,
    log,
    clock: systemClock,
    billingEngine,
    recentBookings,
    sendHeartbeat: async () => {},
    checkIntervalMs: 1_000,
  });
  await replacement.check();
  return replacement;
}

/** The first statements after a failover meet broken connections. */
const checkUntilDone = (replacement: StoreReplacement) =>
  eventually(
    () =>
      replacement.check().then(
        () => true,
        () => false,
      ),
    60_000,
  );

async function charge(billingEngine: BillingUnderTest, requestId: string): Promise<void> {
  await billingEngine.hold(buildHoldRequest(requestId));
  await billingEngine.settle(buildTestSettlement(requestId, 30n));
}

const findings = async () =>
  (await reconcileLedger(db, { nowMs: Date.now(), holdAgeMaxMs: 3_600_000, findingsMax: 10 })).findings;
const countRows = async () => Number((await db.sql`SELECT COUNT(*) AS many FROM usage`)[0]?.many);

const ENGINES = { "direct billing": undefined, "write-behind billing": { idleMs: 600_000 } };

for (const [name, writeBehind] of Object.entries(ENGINES)) {
  test(`${name} books requests again that a standby had not received, once`, async () => {
    const billingEngine = makeBilling(db, writeBehind ? { recentBookings, writeBehind } : { recentBookings });
    const replacement = await watch(billingEngine);
    await charge(billingEngine, "received");
    await billingEngine.hold(buildHoldRequest("hold_received"));
    await billingEngine.hold(buildHoldRequest("open"));
    await billingEngine.flush();
    await database.standby.catchUp();
    database.standby.stopReplication();
    await billingEngine.hold(buildHoldRequest("lost", { tariff: LOST_TARIFF }));
    await billingEngine.settle(buildTestSettlement("lost", 30n));
    await billingEngine.settle(buildTestSettlement("hold_received", 30n));
    billingEngine.push(usageRow({ requestId: "unpaid", atMs: Date.now() }));
    await billingEngine.flush();
    expect(await countRows()).toBe(4);
    await database.failOver();
    await eventually(() => countRows().catch(() => -1), { equals: 1, withinMs: 60_000 });
    await checkUntilDone(replacement);
    expect(await readTerms(db, LOST_TARIFF.id)).toBe(LOST_TARIFF.terms);
    await billingEngine.settle(buildTestSettlement("open", 30n));
    await billingEngine.flush();
    expect(await countRows()).toBe(5);
    for (const requestId of ["received", "lost", "hold_received", "open"])
      expect((await findUsage(db, requestId))?.chargedNano).toBe(30n);
    await billingEngine.flushUser("u1");
    expect(await readWallet(db, "u1")).toEqual({ balanceNano: MUCH - 120n, heldNano: 0n });
    expect(await findings()).toEqual([]);
    await replacement.stop();
    await billingEngine.stop();
  });
}

test("the usage of an unpaid background response that was lost is added again, once", async () => {
  const billingEngine = makeBilling(db, { recentBookings });
  const replacement = await watch(billingEngine);
  billingEngine.push(
    usageRow({ requestId: "background", atMs: Date.now(), outcome: "pending", outputTokens: 0 }),
  );
  await billingEngine.flush();
  await database.standby.catchUp();
  database.standby.stopReplication();
  const lateUsage = new LateUsage({ db, billingEngine, recentBookings });
  const tokens = { ...NO_TOKENS, outputTokens: 54 };
  await lateUsage.add("background", { tokens, costNano: 0n, listNano: 0n }, "completed");
  await database.failOver();
  const findOutcome = async () => (await findUsage(db, "background"))?.outcome;
  await eventually(() => findOutcome().catch(() => null), { equals: "pending", withinMs: 60_000 });
  await checkUntilDone(replacement);
  await checkUntilDone(replacement);
  expect(await findUsage(db, "background")).toMatchObject({ outcome: "completed", outputTokens: 54 });
  expect(await findings()).toEqual([]);
  await replacement.stop();
  await billingEngine.stop();
});

test("a reservation whose release was lost is released again, although its node uses none any more", async () => {
  const billingEngine = makeBilling(db, { recentBookings, writeBehind: {} });
  const replacement = await watch(billingEngine);
  await charge(billingEngine, "r1");
  await billingEngine.flush();
  await database.standby.catchUp();
  database.standby.stopReplication();
  await billingEngine.flushUser("u1");
  expect(await listReservations(db, billingEngine.processId)).toEqual(new Map());
  await database.failOver();
  const isReserved = async () => (await listReservations(db, billingEngine.processId)).size > 0;
  await eventually(() => isReserved().catch(() => false), 60_000);
  await checkUntilDone(replacement);
  expect(await isReserved()).toBe(false);
  expect(await readWallet(db, "u1")).toEqual({ balanceNano: MUCH - 30n, heldNano: 0n });
  expect(await findings()).toEqual([]);
  await billingEngine.stop();
});
