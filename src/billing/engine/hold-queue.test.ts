import { afterEach, beforeEach, expect, test } from "bun:test";
import { type Db, openDb } from "../../store/engine/db.ts";
import { migrate } from "../../store/engine/migrate.ts";
import { readWallet } from "../../store/money/wallets.ts";
import type { BillingEngine } from "./billing-engine.ts";
import {
  addFunds,
  buildHoldRequest,
  buildTestSettlement,
  makeBilling,
} from "./direct-billing.test-support.ts";
import { HoldQueueBilling } from "./hold-queue.ts";

let db: Db;
let billingEngine: BillingEngine;

async function open(limits: { waitMs?: number; waitingMax?: number } = {}): Promise<void> {
  billingEngine = new HoldQueueBilling(makeBilling(db), {
    waitMs: 5_000,
    waitingMax: 8,
    retryMs: 60_000,
    ...limits,
  });
}

beforeEach(async () => {
  db = await openDb("sqlite::memory:");
  await migrate(db);
  await addFunds(db, "u1", 100n);
});

afterEach(() => billingEngine.stop());

/** Requests whose input cannot be counted. They need 60 if the balance covers that. */
const file = (id: string) => buildHoldRequest(id, { wantedNano: 80n, firmNano: 60n, leastNano: 5n });
const park = (id: string, nano: bigint) => billingEngine.hold(buildHoldRequest(id, { wantedNano: nano }));

test("a request waits for the user's other requests and gets its hold when they settle", async () => {
  await open();
  await park("r1", 90n);
  const waiting = [
    Promise.resolve(billingEngine.hold(file("r2"))),
    Promise.resolve(billingEngine.hold(file("r3"))),
  ];
  await billingEngine.settle(buildTestSettlement("r1", 0n));
  expect(await waiting[0]).toMatchObject({ kind: "held", amountNano: 80n });
  await billingEngine.settle(buildTestSettlement("r2", 20n));
  // In the order of arrival; the second request gets what the first one left.
  expect(await waiting[1]).toMatchObject({ kind: "held", amountNano: 80n });
  await billingEngine.settle(buildTestSettlement("r3", 20n));
  expect(await readWallet(db, "u1")).toEqual({ balanceNano: 60n, heldNano: 0n });
});

test("the wait is limited, and then nothing is held", async () => {
  await open({ waitMs: 50 });
  await park("r1", 90n);
  expect(await billingEngine.hold(file("r2"))).toEqual({
    kind: "blocked",
    availableNano: 10n,
    neededNano: 60n,
  });
  expect((await readWallet(db, "u1")).heldNano).toBe(90n);
});

test("a request above the queue limit is rejected at once, and a text request does not wait", async () => {
  await open({ waitingMax: 1 });
  await park("r1", 90n);
  const first = Promise.resolve(billingEngine.hold(file("r2")));
  await Bun.sleep(20);
  expect(await billingEngine.hold(file("r3"))).toMatchObject({ kind: "blocked" });
  expect(await billingEngine.hold(buildHoldRequest("r4"))).toMatchObject({ kind: "held", amountNano: 10n });
  await billingEngine.settle(buildTestSettlement("r1", 0n));
  expect(await first).toMatchObject({ kind: "held", amountNano: 80n });
});

test("a request above the whole balance does not wait: the balance is held", async () => {
  await open();
  await billingEngine.hold(buildHoldRequest("r1", { wantedNano: 50n }));
  await billingEngine.settle(buildTestSettlement("r1", 50n));
  expect(await billingEngine.hold(file("r2"))).toMatchObject({ kind: "held", amountNano: 50n });
});

test("waiting requests are rejected when the billing engine stops", async () => {
  await open();
  await park("r1", 90n);
  const waiting = Promise.resolve(billingEngine.hold(file("r2")));
  await Bun.sleep(20);
  await billingEngine.stop();
  expect(await waiting).toMatchObject({ kind: "blocked" });
});
