/** What one call contains: within the bounds of the coordinator, and nothing is left behind. */

import { expect, test } from "bun:test";
import { nodeLimits } from "../../config/limits/node-limits.ts";
import { type CallerLimits, NO_LIMITS } from "../../records/limits.ts";
import { checkExchange } from "../coordinator/coordinator-limits.ts";
import { type BorrowedRecord, BorrowedSubject, type RecordHolding } from "./borrowed-record.ts";
import { declareHoldings } from "./declare-holdings.ts";
import type { UseBatch } from "./holding.ts";
import { PendingCall } from "./pending-call.ts";

const { limitBorrower: timing, limitCoordinator: limits } = nodeLimits;
const LINK = {
  noteChange() {},
  noteUrgent() {},
  isPending: () => false,
  isValid: () => true,
  loss: null,
  contactNo: 1,
};

function openHolding(id: string, limits: Partial<CallerLimits>): RecordHolding {
  const services = { findLink: () => LINK, revision: () => 1 };
  const subject = new BorrowedSubject({ scope: "key", id, limits: { ...NO_LIMITS, ...limits } }, services);
  const holding = subject.records[0]?.find(2);
  if (!holding) throw new Error("the subject has no such limit");
  return holding;
}

const openTokens = (id: string) => openHolding(id, { tpm: 60_000 });

/** A request whose use was booked in this bucket. */
function book(holding: RecordHolding, bucketNo: number): UseBatch {
  const batch = holding.take(10, 1_000 * bucketNo);
  if (batch === null) throw new Error("nothing was booked");
  holding.takeReport(0, []);
  holding.noteBooked(batch, bucketNo);
  return batch;
}

function countRefunds({ items }: ReturnType<PendingCall["build"]>): number {
  return items.reduce((sum, { refunds }) => sum + refunds.length, 0);
}

/** Sends calls until all records are reported. */
function send(holdings: readonly RecordHolding[]) {
  const left = new Set<BorrowedRecord>(holdings.map(({ record }) => record));
  const sent: ReturnType<PendingCall["build"]>[] = [];
  while (left.size > 0) {
    const call = new PendingCall();
    for (const record of left) {
      if (call.isFull(timing)) break;
      call.addRecord(record);
    }
    const built = call.build();
    checkExchange({ term: "t", seq: 1, lo: 0, hi: 0, aheadMs: null, ...built }, limits);
    sent.push(built);
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
  expect(send(holdings).map(countRefunds)).toEqual([4_020, 1_980]);
});

test("refunds are added up by bucket, and those of buckets that no longer count are dropped", () => {
  const holding = openTokens("k");
  const old = book(holding, 100);
  const mixed = [book(holding, 500), book(holding, 501), book(holding, 500), book(holding, 501)];
  for (const batch of [old, ...mixed]) holding.refund(batch, 4, 500_000);
  expect(send([holding]).map(({ items }) => items[0]?.refunds)).toEqual([
    [
      [500, 8],
      [501, 8],
    ],
  ]);
});

test("a call and a declaration have only as many long windows as can be read from the stored sums in time", () => {
  const windows = [{ perMs: 18_000_000, requests: null, tokens: null, nano: 1_000 }];
  const holdings = Array.from({ length: 60 }, (_, i) => openHolding(`k${i}`, { windows }));
  for (const holding of holdings) {
    holding.take(10, 0);
    holding.book(10);
  }
  for (const holding of holdings) holding.take(10, 0);
  const { windowsPerCallMax: most } = timing;
  const parts = [most, most, 60 - 2 * most];
  expect(send(holdings).map(({ records }) => records.length)).toEqual(parts);
  const records = holdings.map(({ record }) => record);
  const terms = { isNewEpoch: false, keepsIdle: false, nowMs: 0 };
  const { batches } = declareHoldings(records, { terms, timing });
  expect(batches.map((batch) => batch.records.length)).toEqual(parts);
});

test("what a reply lends after its recall has arrived is returned with the confirmation", () => {
  const holding = openTokens("k");
  holding.recall(3, 0, timing.contendedMs);
  holding.apply({ lent: 100, free: 0, used: 0, resetMs: 0, hasOthersWaiting: true }, 1, timing.contendedMs);
  const [call] = send([holding]);
  expect(call?.items).toMatchObject([{ returned: 100, confirms: 3 }]);
  expect(holding.idle).toBe(0);
});
