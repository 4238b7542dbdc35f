import { expect, test } from "bun:test";
import { openLimiter } from "../../limits/limiter.ts";
import type { LimitLease, Subject } from "../../limits/limiter-types.ts";
import { NO_LIMITS } from "../../records/limits.ts";
import { raiseReservation } from "./caller-limits.ts";

function setUp(limits: { rpm?: number; tpm?: number; concurrency?: number }) {
  const clock = { monotonicMs: () => 1_000, nowMs: () => 1_000 };
  const limiter = openLimiter(clock);
  const key: Subject = { scope: "key", id: "k", limits: { ...NO_LIMITS, ...limits } };
  return {
    readStatus: () => limiter.readStatus(key),
    take(tokens: number): LimitLease {
      const admission = limiter.admit([key], { tokens });
      if (!admission.ok) throw new Error(admission.shortage.kind);
      return admission.lease;
    },
    raise: (lease: LimitLease, tokens: number) =>
      raiseReservation({ limiter, clock }, { lease, subjects: [key] }, { tokens }),
  };
}

test("a reservation without tokens occupies one slot and one request until it is cancelled", () => {
  const { take, readStatus } = setUp({ rpm: 5, tpm: 100, concurrency: 1 });
  const lease = take(0);
  expect(readStatus()).toMatchObject({ rpm: { used: 1 }, tpm: { used: 0 }, concurrency: { inUse: 1 } });
  lease.cancel();
  expect(readStatus()).toMatchObject({ rpm: { used: 0 }, concurrency: { inUse: 0 } });
});

test("tokens are added to a reservation later, exactly up to the limit", () => {
  const { take, raise, readStatus } = setUp({ rpm: 2, tpm: 100, concurrency: 5 });
  take(40).release();
  const lease = take(0);
  expect(() => raise(lease, 61)).toThrow("100 tokens per minute");
  expect(readStatus().tpm?.used).toBe(40);
  // The reservation already includes its own request: an exhausted rpm must not reject it now.
  raise(lease, 60);
  expect(readStatus().tpm?.used).toBe(100);
  lease.settle({ tokens: 10 });
  expect(readStatus().tpm?.used).toBe(50);
  lease.cancel();
  expect(readStatus().tpm?.used).toBe(40);
});
