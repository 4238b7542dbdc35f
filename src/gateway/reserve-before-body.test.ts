import { expect, test } from "bun:test";
import { openLimiter, type Subject } from "../limits/limiter.ts";
import { raiseReservation, reserveBeforeBody, takeOwnLimits } from "./own-limits.ts";

const NO_WINDOWS = { windows: [] };

function fixture(limits: { rpm?: number; tpm?: number; concurrency?: number }) {
  const clock = { monotonicMs: () => 1_000, nowMs: () => 1_000 };
  const source = { limiter: openLimiter(clock), clock };
  const key: Subject = {
    scope: "key",
    id: "k",
    limits: { rpm: null, tpm: null, concurrency: null, ...NO_WINDOWS, ...limits },
  };
  return { source, subjects: [key] };
}

test("a reservation takes the place in flight and the request, and no tokens", () => {
  const { source, subjects } = fixture({ rpm: 5, tpm: 100, concurrency: 1 });
  const lease = reserveBeforeBody(source, subjects);
  expect(source.limiter.standing(subjects[0] as Subject)).toMatchObject({
    requests: { used: 1 },
    tokens: { used: 0 },
    concurrency: { inUse: 1 },
  });
  expect(() => reserveBeforeBody(source, subjects)).toThrow("1 simultaneous request");
  lease.cancel();
  expect(source.limiter.standing(subjects[0] as Subject)).toMatchObject({
    requests: { used: 0 },
    concurrency: { inUse: 0 },
  });
});

test("tokens are added when they are known, exactly up to the limit", () => {
  const { source, subjects } = fixture({ rpm: 2, tpm: 100, concurrency: 5 });
  takeOwnLimits(source, subjects, 40, 0n).release();
  const lease = reserveBeforeBody(source, subjects);
  expect(() => raiseReservation(source, lease, subjects, 61, 0n)).toThrow("100 tokens per minute");
  expect(source.limiter.standing(subjects[0] as Subject).tokens?.used).toBe(40);
  // It holds its own request already: a full rpm is no reason to refuse it now.
  raiseReservation(source, lease, subjects, 60, 0n);
  expect(source.limiter.standing(subjects[0] as Subject).tokens?.used).toBe(100);
  lease.settle(10, null);
  expect(source.limiter.standing(subjects[0] as Subject).tokens?.used).toBe(50);
  lease.cancel();
  expect(source.limiter.standing(subjects[0] as Subject).tokens?.used).toBe(40);
});

test("a window that is used up refuses before the body is read", () => {
  const { source, subjects } = fixture({ tpm: 100 });
  takeOwnLimits(source, subjects, 100, 0n).release();
  expect(() => reserveBeforeBody(source, subjects)).toThrow("100 tokens per minute");
});
