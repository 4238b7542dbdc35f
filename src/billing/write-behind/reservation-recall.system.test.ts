/** Reservations of other nodes: how long a hold waits for their release, and which charges recall them. */

import { beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { usePostgres } from "../../../test/support/postgres.ts";
import { systemClock } from "../../base/clock.ts";
import type { Db } from "../../store/engine/db.ts";
import { storeNowMs, writeHeartbeat } from "../../store/money/processes.ts";
import { listRecalledUsers } from "../../store/money/reservation-recalls.ts";
import type { BillingEngine } from "../engine/billing-engine.ts";
import {
  addFunds,
  buildHoldRequest,
  buildTestSettlement,
  makeBilling,
} from "../engine/direct-billing.test-support.ts";
import { BillingUnavailable } from "../engine/direct-billing.ts";
import { describeProcess } from "../recovery/process-watch.ts";
import { ReservationRecall } from "./reservation-recall.ts";

setDefaultTimeout(60_000);

const LIMITS = {
  recallTimeoutMs: 20_000,
  silentRecallTimeoutMs: 300,
  silentAfterMs: 15_000,
  recallCheckMs: 10,
};
const OTHER = "inc_other";
/** Longer than a silent node gets. */
const LATE_MS = 1_500;

let db: Db;

usePostgres((opened) => {
  ({ db } = opened);
});

/** Another node has reserved nearly all of the wallet. */
beforeEach(async () => {
  await db.sql`DELETE FROM wallet_reservation`;
  await db.sql`DELETE FROM reservation_recall`;
  await db.sql`DELETE FROM process`;
  await db.sql`DELETE FROM wallet`;
  await addFunds(db, "u1", 1_000n);
  await db.sql`INSERT INTO wallet_reservation (process_id, user_id, amount_nano) VALUES (${OTHER}, 'u1', 950)`;
  await db.sql`UPDATE wallet SET held_nano = 950 WHERE user_id = 'u1'`;
});

async function registerOther({ beatAgoMs }: { beatAgoMs: number }): Promise<void> {
  const beatAtMs = (await storeNowMs(db, systemClock)) - beatAgoMs;
  await writeHeartbeat(db, { ...describeProcess(OTHER, beatAtMs), beatAtMs });
}

async function release(): Promise<void> {
  await db.sql`DELETE FROM wallet_reservation WHERE process_id = ${OTHER}`;
  await db.sql`UPDATE wallet SET held_nano = held_nano - 950 WHERE user_id = 'u1'`;
}

/** A hold that is decided again is rejected here, so there is nothing to release. */
function openRecall(billing: Pick<BillingEngine, "hold" | "replaceHold">): ReservationRecall {
  return new ReservationRecall({
    db,
    log: { info() {}, warn() {}, error() {} },
    clock: systemClock,
    processId: "inc_1",
    reservationState: { reservations: new Map() },
    reservationStore: { close: async () => {} },
    directBilling: {
      hold: async (request) => billing.hold(request),
      replaceHold: (request) => billing.replaceHold(request),
      release() {},
    },
    limits: LIMITS,
  });
}

test("a hold waits for a node that answers late but sends its heartbeats", async () => {
  const billing = makeBilling(db);
  await registerOther({ beatAgoMs: 4_000 });
  const held = openRecall(billing).hold(buildHoldRequest("late", { wantedNano: 500n, leastNano: 500n }));
  await Bun.sleep(LATE_MS);
  await release();
  expect(await held).toMatchObject({ kind: "held", amountNano: 500n });
  await billing.stop();
});

for (const [what, prepare] of [
  ["is silent", () => registerOther({ beatAgoMs: 20_000 })],
  ["is not registered", async () => {}],
] as const)
  test(`a hold does not wait long for a node that ${what}`, async () => {
    const billing = makeBilling(db);
    await prepare();
    const held = openRecall(billing).hold(buildHoldRequest("silent", { wantedNano: 500n, leastNano: 500n }));
    await expect(held).rejects.toBeInstanceOf(BillingUnavailable);
    await billing.stop();
  });

for (const [what, chargedNano, recalled] of [
  ["that is a debt recalls what other nodes have reserved", 51n, ["u1"]],
  ["that the rest of the wallet covers recalls nothing", 50n, []],
] as const)
  test(`a charge above its hold ${what}`, async () => {
    const billing = makeBilling(db);
    await billing.hold(buildHoldRequest("above", { wantedNano: 20n, leastNano: 20n }));
    await billing.settle(buildTestSettlement("above", chargedNano));
    expect(await listRecalledUsers(db)).toEqual([...recalled]);
    await billing.stop();
  });
