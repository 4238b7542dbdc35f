/** What one call contains: within the bounds of the coordinator, and nothing is left behind. */

import { expect, test } from "bun:test";
import { nodeLimits } from "../../config/limits/node-limits.ts";
import { NO_LIMITS } from "../../records/limits.ts";
import { checkExchange } from "../coordinator/coordinator-limits.ts";
import type { UseBatch } from "./holding.ts";
import { LeasedSubject, type RecordHolding } from "./leased-record.ts";
import { PendingCall } from "./pending-call.ts";

const { limitLeases: timing, limitCoordinator: limits } = nodeLimits;
const LINK = { noteChange() {}, noteUrgent() {}, isValid: () => true, loss: null };

function openTokens(id: string): RecordHolding {
  const services = { findLink: () => LINK, revision: () => 1 };
  const subject = new LeasedSubject({ scope: "key", id, limits: { ...NO_LIMITS, tpm: 60_000 } }, services);
  const holding = subject.records[0]?.find(2);
  if (!holding) throw new Error("the subject has no tokens");
  return holding;
}

/** A request whose use was booked in this bucket. */
function book(holding: RecordHolding, bucketNo: number): UseBatch {
  const batch = holding.take(10, 1_000 * bucketNo);
  if (batch === null) throw new Error("nothing was booked");
  holding.takeReport(0, []);
  holding.noteBooked(batch, bucketNo);
  return batch;
}

/** Sends calls until all records are reported. Returns the refunds of each. */
function send(holdings: readonly RecordHolding[]): number[][] {
  const left = new Set(holdings.map(({ record }) => record));
  const sent: number[][] = [];
  while (left.size > 0) {
    const call = new PendingCall();
    for (const record of left) {
      if (call.isFull(timing)) break;
      call.addRecord(record);
    }
    const built = call.build();
    checkExchange({ term: "t", seq: 1, lo: 0, hi: 0, aheadMs: null, ...built }, limits);
    sent.push(built.items.flatMap(({ refunds }) => refunds.map(([, amount]) => amount)));
    for (const record of call.records) left.delete(record);
  }
  return sent;
}

test("more refunds than a call may have are sent in several", () => {
  const holdings = Array.from({ length: 100 }, (_, i) => openTokens(`k${i}`));
  for (const holding of holdings) {
    const batches = Array.from({ length: 60 }, (_, bucketNo) => book(holding, bucketNo));
    for (const [bucketNo, batch] of batches.entries()) holding.refund(batch, 4, 1_000 * bucketNo);
  }
  const sent = send(holdings);
  expect(sent.length).toBe(2);
  expect(sent.flat().length).toBe(6_000);
});

test("refunds are added up by bucket, and those of buckets that no longer count are dropped", () => {
  const holding = openTokens("k");
  const old = book(holding, 100);
  const mixed = [book(holding, 500), book(holding, 501), book(holding, 500), book(holding, 501)];
  for (const batch of [old, ...mixed]) holding.refund(batch, 4, 500_000);
  expect(send([holding])).toEqual([[8, 8]]);
});
