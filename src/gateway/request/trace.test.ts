import { describe, expect, test } from "bun:test";
import { policyAccount } from "../../accounts/account.test-support.ts";
import { upstreamFailure } from "../../accounts/failure.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import { UNCHANGED } from "./attempt-trace.ts";
import { endWait, isOrdinary, openTrace, traceRecord, waitedMs } from "./trace.ts";

function route(name: string): AccountRoute {
  return {
    account: policyAccount(`id of ${name}`, { name, credential: "secret of the account" }),
    upstreamModel: `model of ${name}`,
    translation: null,
  };
}

function open(startedMs = 1_000) {
  const clock = { atMs: startedMs };
  return { clock, trace: openTrace(startedMs) };
}

describe("the trace of a request", () => {
  test("of a request without attempts is empty", () => {
    const { trace, clock } = open();
    expect(traceRecord(trace, clock.atMs)).toEqual({ waitedMs: 0, candidates: [], attempts: [] });
    expect([trace.route, trace.attempts, trace.lastAttempt]).toEqual([null, [], null]);
  });

  test("contains each attempt with its timing and failure", () => {
    const { trace, clock } = open();
    clock.atMs += 10;
    trace.beginAttempt({ route: route("first"), changes: UNCHANGED, nowMs: clock.atMs });
    clock.atMs += 20.4;
    trace.lastAttempt?.fail(upstreamFailure("overloaded", "status 529", 529), clock.atMs);
    trace.beginAttempt({ route: route("second"), changes: UNCHANGED, nowMs: clock.atMs });
    clock.atMs += 5;
    trace.lastAttempt?.recordFirstByte("req_upstream", clock.atMs);
    expect(traceRecord(trace, clock.atMs).attempts).toEqual([
      {
        accountId: "id of first",
        accountName: "first",
        upstreamModel: "model of first",
        startedMs: 10,
        firstByteMs: null,
        endedMs: 30,
        status: 529,
        failure: "overloaded",
        reason: "status 529",
      },
      {
        accountId: "id of second",
        accountName: "second",
        upstreamModel: "model of second",
        startedMs: 30,
        firstByteMs: 35,
        endedMs: null,
        status: 200,
        failure: null,
        reason: null,
      },
    ]);
    expect([trace.route?.account.name, trace.attempts.length, trace.upstreamRequestId]).toEqual([
      "second",
      2,
      "req_upstream",
    ]);
  });

  test("separates the client's time to first byte from the account's", () => {
    const { trace, clock } = open();
    clock.atMs += 4_000;
    trace.beginAttempt({ route: route("first"), changes: UNCHANGED, nowMs: clock.atMs });
    clock.atMs += 25;
    trace.lastAttempt?.recordFirstByte(null, clock.atMs);
    expect([trace.lastAttempt?.firstByteMs, trace.lastAttempt?.latencyMs]).toEqual([4_025, 25]);
  });

  test("drops the first byte of an attempt that failed after it", () => {
    const { trace, clock } = open();
    trace.beginAttempt({ route: route("first"), changes: UNCHANGED, nowMs: clock.atMs });
    trace.lastAttempt?.recordFirstByte("req_first", clock.atMs);
    trace.lastAttempt?.fail(upstreamFailure("reset", "the connection was lost"), clock.atMs);
    trace.beginAttempt({ route: route("second"), changes: UNCHANGED, nowMs: clock.atMs });
    expect([trace.lastAttempt?.firstByteMs, trace.upstreamRequestId]).toEqual([null, null]);
  });

  test("sums the waits", () => {
    const { trace, clock } = open();
    for (const ms of [100, 250]) {
      trace.waitingSinceMs = clock.atMs;
      clock.atMs += ms;
      endWait(trace, clock.atMs);
      clock.atMs += 1_000;
    }
    expect(waitedMs(trace, clock.atMs)).toBe(350);
  });

  test("includes a wait that has not ended", () => {
    const { trace, clock } = open();
    trace.waitingSinceMs = clock.atMs;
    clock.atMs += 70;
    expect([waitedMs(trace, clock.atMs), traceRecord(trace, clock.atMs).waitedMs]).toEqual([70, 70]);
  });

  test("contains the candidates of the last selection, without secrets", () => {
    const { trace, clock } = open();
    const candidate = {
      accountId: "a",
      accountName: "first",
      upstreamModel: "m",
      priority: 1,
      score: null,
      reason: "cooling" as const,
      freesInMs: 5,
    };
    trace.candidates = [candidate];
    trace.candidates = [{ ...candidate, reason: null, score: 1 }];
    trace.beginAttempt({ route: route("first"), changes: UNCHANGED, nowMs: clock.atMs });
    expect(traceRecord(trace, clock.atMs).candidates).toEqual([{ ...candidate, reason: null, score: 1 }]);
    expect(JSON.stringify(traceRecord(trace, clock.atMs))).not.toContain("secret of the account");
  });

  test("is ordinary with one attempt, one candidate and no wait", () => {
    const { trace, clock } = open();
    expect(isOrdinary(trace, clock.atMs)).toBe(true);
    trace.beginAttempt({ route: route("first"), changes: UNCHANGED, nowMs: clock.atMs });
    trace.lastAttempt?.recordFirstByte(null, clock.atMs);
    expect(isOrdinary(trace, clock.atMs)).toBe(true);
    trace.beginAttempt({ route: route("second"), changes: UNCHANGED, nowMs: clock.atMs });
    expect(isOrdinary(trace, clock.atMs)).toBe(false);
  });

  test("of a failed attempt is not ordinary", () => {
    const { trace, clock } = open();
    trace.beginAttempt({ route: route("first"), changes: UNCHANGED, nowMs: clock.atMs });
    trace.lastAttempt?.fail(upstreamFailure("server", "status 500", 500), clock.atMs);
    expect(isOrdinary(trace, clock.atMs)).toBe(false);
  });

  test("of a wait is not ordinary, even before the wait ends", () => {
    const { trace, clock } = open();
    trace.waitingSinceMs = clock.atMs;
    clock.atMs += 50;
    expect(isOrdinary(trace, clock.atMs)).toBe(false);
    endWait(trace, clock.atMs);
    expect(isOrdinary(trace, clock.atMs)).toBe(false);
  });
});
