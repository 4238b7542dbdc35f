import { expect, test } from "bun:test";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../base/clock.ts";
import { limits } from "../../config/limits/product-limits.ts";
import { BillingFaults } from "../../observe/billing-faults.ts";
import { openDb } from "../../store/engine/db.ts";
import { BatchWriter } from "./batch-writer.ts";
import { buildHoldRequest } from "./direct-billing.test-support.ts";
import { openDisk } from "./disk.ts";
import { buildEmptyWork, type HoldOp } from "./pending-work.ts";
import { Progress } from "./progress.ts";
import { SettlementSpool } from "./settlement-spool.ts";
import { UnsavedSettlements } from "./unsaved-settlements.ts";
import { WorkQueue } from "./work-queue.ts";

const log = { info() {}, warn() {}, error() {} };

async function openWriter() {
  const db = await openDb("sqlite::memory:");
  const { billingEngine } = limits;
  const queue = new WorkQueue();
  const released: string[] = [];
  const spool = new SettlementSpool(mkdtempSync(join(tmpdir(), "gateway-billing-")), "inc_1");
  const writer = new BatchWriter({
    db,
    log,
    clock: systemClock,
    processId: "inc_1",
    faults: new BillingFaults(systemClock.nowMs),
    limits: billingEngine,
    queue,
    progress: new Progress({ limits: billingEngine, monotonicMs: systemClock.monotonicMs, onDue() {} }),
    disk: openDisk({ db, log, durability: "process", limits: billingEngine }),
    unsavedSettlements: new UnsavedSettlements({ spool, log, retryMs: 1 }),
    acceptsHolds: () => true,
    release: ({ request }) => void released.push(request.requestId),
  });
  return { writer, queue, released, close: () => db.close() };
}

/** Its caller has stopped waiting after the batch was taken. */
function rejectedHold(requestId: string, hasFailed: boolean): HoldOp {
  const request = buildHoldRequest(requestId);
  return { kind: "new", request, sinceMs: 0, isRejected: true, hasFailed, resolve() {}, reject() {} };
}

test("a hold that was rejected after its batch was taken is released if an earlier try may have written it", async () => {
  const { writer, queue, released, close } = await openWriter();
  const holds = [rejectedHold("never-tried", false), rejectedHold("tried", true)];
  expect(await writer.write({ ...buildEmptyWork(), holds })).toBe("done");
  expect(released).toEqual(["tried"]);
  expect(queue.doneCount).toBe(2);
  await close();
});
