import { afterEach, beforeEach, expect, test } from "bun:test";
import { type Db, openDb } from "../../store/engine/db.ts";
import { migrate } from "../../store/engine/migrate.ts";
import { readWallet } from "../../store/money/wallets.ts";
import type { BillingEngine } from "./billing-engine.ts";
import { addFunds, asking, makeTill, settling } from "./direct-billing.test-support.ts";
import { withHoldQueue } from "./hold-queue.ts";

let db: Db;
let till: BillingEngine;

async function open(limits: { waitMs?: number; waitingMax?: number } = {}): Promise<void> {
  till = withHoldQueue(makeTill(db), { waitMs: 5_000, waitingMax: 8, retryMs: 60_000, ...limits });
}

beforeEach(async () => {
  db = await openDb("sqlite::memory:");
  await migrate(db);
  await addFunds(db, "u1", 100n);
});

afterEach(() => till.stop());

/** Its input cannot be counted: it needs 60 if the balance covers that. */
const file = (id: string) => asking(id, { wantedNano: 80n, firmNano: 60n, leastNano: 5n });
const park = (id: string, nano: bigint) => till.hold(asking(id, { wantedNano: nano }));

test("a request waits for its user's other requests, and gets its money when they end", async () => {
  await open();
  await park("r1", 90n);
  const waiting = [Promise.resolve(till.hold(file("r2"))), Promise.resolve(till.hold(file("r3")))];
  await till.settle(settling("r1", 0n));
  expect(await waiting[0]).toMatchObject({ kind: "held", amountNano: 80n });
  await till.settle(settling("r2", 20n));
  // In the order of arrival; the second request gets what the first one left.
  expect(await waiting[1]).toMatchObject({ kind: "held", amountNano: 80n });
  await till.settle(settling("r3", 20n));
  expect(await readWallet(db, "u1")).toEqual({ balanceNano: 60n, heldNano: 0n });
});

test("the wait has an end, and then nothing is held", async () => {
  await open({ waitMs: 50 });
  await park("r1", 90n);
  expect(await till.hold(file("r2"))).toEqual({ kind: "blocked", availableNano: 10n, neededNano: 60n });
  expect((await readWallet(db, "u1")).heldNano).toBe(90n);
});

test("one more than may wait is refused at once, and text does not wait", async () => {
  await open({ waitingMax: 1 });
  await park("r1", 90n);
  const first = Promise.resolve(till.hold(file("r2")));
  await Bun.sleep(20);
  expect(await till.hold(file("r3"))).toMatchObject({ kind: "blocked" });
  expect(await till.hold(asking("r4"))).toMatchObject({ kind: "held", amountNano: 10n });
  await till.settle(settling("r1", 0n));
  expect(await first).toMatchObject({ kind: "held", amountNano: 80n });
});

test("a balance that is really too small does not wait: it is held whole", async () => {
  await open();
  await till.hold(asking("r1", { wantedNano: 50n }));
  await till.settle(settling("r1", 50n));
  expect(await till.hold(file("r2"))).toMatchObject({ kind: "held", amountNano: 50n });
});

test("what waits is refused when the till stops", async () => {
  await open();
  await park("r1", 90n);
  const waiting = Promise.resolve(till.hold(file("r2")));
  await Bun.sleep(20);
  await till.stop();
  expect(await waiting).toMatchObject({ kind: "blocked" });
});
