import { describe, expect, test } from "bun:test";
import type { Route } from "../policy/snapshot.ts";
import { failed } from "../upstreams/failure.ts";
import { openTrace } from "./trace.ts";

function route(name: string): Route {
  return {
    account: {
      id: `id of ${name}`,
      name,
      kind: "openai",
      baseUrl: "https://upstream.example",
      basePath: "",
      credential: "secret of the account",
      apiVersion: null,
      interfaces: new Set(["chat"]),
      privateNetwork: false,
      priority: 1,
      weight: 1,
      models: {},
      limits: { concurrency: null, rpm: null, tpm: null },
    },
    upstreamModel: `model of ${name}`,
  };
}

function open(startedMs = 1_000) {
  const clock = { atMs: startedMs };
  return { clock, trace: openTrace(startedMs, () => clock.atMs) };
}

describe("the trace of a request", () => {
  test("that went nowhere holds nothing", () => {
    const { trace } = open();
    expect(trace.snapshot()).toEqual({ waitedMs: 0, candidates: [], attempts: [] });
    expect([trace.route, trace.attempts, trace.firstByteMs(), trace.latencyMs()]).toEqual([
      null,
      0,
      null,
      null,
    ]);
  });

  test("holds each attempt, its timing since the request came in, and why it failed", () => {
    const { trace, clock } = open();
    clock.atMs += 10;
    trace.attemptBegins(route("first"));
    clock.atMs += 20.4;
    trace.attemptFailed(failed("overloaded", "status 529", 529));
    trace.attemptBegins(route("second"));
    clock.atMs += 5;
    trace.firstByte("req_upstream");
    expect(trace.snapshot().attempts).toEqual([
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
    expect([trace.route?.account.name, trace.attempts, trace.upstreamRequestId]).toEqual([
      "second",
      2,
      "req_upstream",
    ]);
  });

  test("tells the client's time to the first byte from the account's", () => {
    const { trace, clock } = open();
    clock.atMs += 4_000;
    trace.attemptBegins(route("first"));
    clock.atMs += 25;
    trace.firstByte(null);
    expect([trace.firstByteMs(), trace.latencyMs()]).toEqual([4_025, 25]);
  });

  test("forgets the first byte of an attempt that failed after it", () => {
    const { trace } = open();
    trace.attemptBegins(route("first"));
    trace.firstByte("req_first");
    trace.attemptFailed(failed("reset", "the connection broke"));
    trace.attemptBegins(route("second"));
    expect([trace.firstByteMs(), trace.upstreamRequestId]).toEqual([null, null]);
  });

  test("adds up the times that it waited", () => {
    const { trace, clock } = open();
    for (const ms of [100, 250]) {
      trace.waitBegins();
      clock.atMs += ms;
      trace.waitEnds();
      clock.atMs += 1_000;
    }
    expect(trace.waitedMs).toBe(350);
  });

  test("counts a wait that has not ended", () => {
    const { trace, clock } = open();
    trace.waitBegins();
    clock.atMs += 70;
    expect([trace.waitedMs, trace.snapshot().waitedMs]).toEqual([70, 70]);
  });

  test("keeps the accounts as they were weighed last, and no secret of theirs", () => {
    const { trace } = open();
    const candidate = {
      accountId: "a",
      accountName: "first",
      upstreamModel: "m",
      priority: 1,
      score: null,
      reason: "cooling" as const,
      freesInMs: 5,
    };
    trace.weighed([candidate]);
    trace.weighed([{ ...candidate, reason: null, score: 1 }]);
    trace.attemptBegins(route("first"));
    expect(trace.snapshot().candidates).toEqual([{ ...candidate, reason: null, score: 1 }]);
    expect(JSON.stringify(trace.snapshot())).not.toContain("secret of the account");
  });

  test("is ordinary while there was one attempt, no choice and no wait", () => {
    const { trace } = open();
    expect(trace.isOrdinary()).toBe(true);
    trace.attemptBegins(route("first"));
    trace.firstByte(null);
    expect(trace.isOrdinary()).toBe(true);
    trace.attemptBegins(route("second"));
    expect(trace.isOrdinary()).toBe(false);
  });

  test("of an attempt that failed is worth keeping", () => {
    const { trace } = open();
    trace.attemptBegins(route("first"));
    trace.attemptFailed(failed("server", "status 500", 500));
    expect(trace.isOrdinary()).toBe(false);
  });

  test("of a wait is worth keeping, even when it has not ended", () => {
    const { trace, clock } = open();
    trace.waitBegins();
    clock.atMs += 50;
    expect(trace.isOrdinary()).toBe(false);
    trace.waitEnds();
    expect(trace.isOrdinary()).toBe(false);
  });
});
