import { describe, expect, test } from "bun:test";
import { policyAccount } from "../../accounts/account.test-support.ts";
import { type UpstreamFailure, upstreamFailure } from "../../accounts/failure.ts";
import { wholeBytesPart } from "../../base/parts.ts";
import { ApiError } from "../../errors.ts";
import { FREE_LEASE } from "../../limits/lease.ts";
import { openLimiter } from "../../limits/limiter.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import { openPool } from "../../pool/pool.ts";
import { openWaitingQueue } from "../../pool/waiting-queue.ts";
import { CHAT_COMPLETIONS } from "../../protocols/chat/chat-endpoint.ts";
import { readJsonRequest } from "../../protocols/shared/json-request.ts";
import { NO_RATE_LIMITS, type RateLimits } from "../../records/limits.ts";
import { isOrdinary, openTrace, traceRecord, waitedMs } from "../request/trace.ts";
import { takeAccountSlot } from "./account-slot.ts";
import type { DispatchRequest } from "./dispatch-request.ts";
import { describeNoAccount } from "./no-account.ts";

function route(id: string, limits: Partial<RateLimits> = {}): AccountRoute {
  return {
    account: policyAccount(id, { name: id, limits: { ...NO_RATE_LIMITS, ...limits } }),
    upstreamModel: "upstream",
    translation: null,
  };
}

const BODY = new TextEncoder().encode('{"model":"fast","messages":[{"role":"user","content":"hi"}]}');

/** Time does not advance except for the timers of the queue. */
function setUp(routes: readonly AccountRoute[], queue = { maxWaiting: 5, timeoutMs: 5_000 }) {
  const clock = { atMs: 0, monotonicMs: () => clock.atMs, nowMs: () => clock.atMs };
  const pool = openPool({ clock, random: () => 0.5, limiter: openLimiter(clock) });
  const dispatcher = {
    pool,
    waitingQueue: openWaitingQueue(clock),
    limitBorrower: null,
    monotonicMs: clock.monotonicMs,
  };
  const request = readJsonRequest(wholeBytesPart(BODY), CHAT_COMPLETIONS, {
    depthMax: 16,
    modelNameCharsMax: 32,
  });
  function order(left = new AbortController()): DispatchRequest {
    return {
      step: null,
      requestId: "req_1",
      keyId: "k1",
      groupId: "g1",
      queue,
      lease: FREE_LEASE,
      endpoint: CHAT_COMPLETIONS,
      request,
      cap: null,
      searchCap: null,
      routes,
      requireKey() {},
      affinity: null,
      seals: null,
      socketTurn: null,
      clientHeaders: new Headers(),
      client: { signal: left.signal },
      openTranslator: () => {
        throw new Error("not translated");
      },
      continuesStored: false,
      openReader() {
        throw new Error("nothing is read here");
      },
      isCharged: false,
      capture: null,
      trace: openTrace(clock.atMs),
    };
  }
  return {
    clock,
    pool,
    order,
    waiting: () => dispatcher.waitingQueue.countWaiting("g1"),
    /** Throws the error for the client, as dispatch does. */
    async take(of: DispatchRequest, tried: readonly AccountRoute[] = [], last: ApiError | null = null) {
      const slot = await takeAccountSlot(dispatcher, of, { tried: new Set(tried), error: last });
      if (!("verdict" in slot)) return slot;
      const unavailability = last === null ? null : pool.findUnavailability(of.routes);
      throw describeNoAccount({
        publicModel: of.request.publicModel,
        noSlot: slot,
        last,
        unable: null,
        unavailability,
      });
    },
  };
}

async function rejection(work: Promise<unknown>): Promise<ApiError> {
  const thrown = await work.then(
    () => new Error("a place was taken"),
    (error: unknown) => error,
  );
  if (thrown instanceof ApiError) return thrown;
  throw thrown;
}

const limited = (retryAfterMs: number): UpstreamFailure => ({
  ...upstreamFailure("rate_limited", "429", 429),
  retryAfterMs,
});

describe("an account slot", () => {
  test("of an idle account is taken at once, and the trace records the candidates", async () => {
    const { take, order, clock } = setUp([route("a"), route("b")]);
    const asked = order();
    await take(asked);
    expect(traceRecord(asked.trace, clock.atMs)).toMatchObject({
      waitedMs: 0,
      candidates: [
        { accountName: "a", reason: null },
        { accountName: "b", reason: null },
      ],
    });
  });

  test("without alternatives leaves the trace ordinary", async () => {
    const { take, order, clock } = setUp([route("a")]);
    const asked = order();
    expect((await take(asked)).route.account.id).toBe("a");
    expect(isOrdinary(asked.trace, clock.atMs)).toBe(true);
  });

  test("is never on an account that was tried", async () => {
    const [a, b] = [route("a"), route("b")];
    const { take, order } = setUp([a, b]);
    for (let i = 0; i < 10; i++) expect((await take(order(), [a])).route).toBe(b);
  });

  test("that is released goes to one waiting request", async () => {
    const { take, order, waiting, clock } = setUp([route("a", { concurrency: 1 })]);
    const held = await take(order());
    const [second, third] = [order(), order()];
    const served: string[] = [];
    const takes = [take(second), take(third)].map((taking, i) =>
      taking.then((accountSlot) => {
        served.push(["second", "third"][i] ?? "");
        return accountSlot;
      }),
    );
    expect(waiting()).toBe(2);
    clock.atMs += 40;
    held.release(null);
    held.release(null);
    const accountSlot = await takes[0];
    expect([served, waiting()]).toEqual([["second"], 1]);
    expect(waitedMs(second.trace, clock.atMs)).toBe(40);
    accountSlot?.release({ tokens: 10 });
    await takes[1];
    expect(served).toEqual(["second", "third"]);
  });

  test("that is abandoned is released, and the account is penalized", async () => {
    const { take, order, pool } = setUp([route("a", { concurrency: 1 })]);
    const accountSlot = await take(order());
    accountSlot.fail(limited(9_000));
    expect(pool.describe(accountSlot.route)).toMatchObject({ reason: "cooling", freesInMs: 9_000 });
  });

  test("of a failed attempt releases its tokens", async () => {
    const { take, order } = setUp([route("a", { tpm: 1_000 })]);
    for (let i = 0; i < 5; i++) (await take(order())).fail(upstreamFailure("rejected", "status 400", 400));
  });
});

describe("a request without an account slot", () => {
  test.each(["credential", "quota", "model_missing"] as const)(
    "fails with no_available_account while the account is parked (%s)",
    async (kind) => {
      const a = route("a");
      const { take, order, pool } = setUp([a]);
      pool.recordFailure(a, upstreamFailure(kind, "r"));
      const error = await rejection(take(order()));
      expect(error).toMatchObject({ status: 503, code: "no_available_account" });
      expect(error.headers).toEqual({ "x-should-retry": "false" });
    },
  );

  test("fails with server_is_overloaded if one account is only rate-limited for long", async () => {
    const [a, b] = [route("a"), route("b")];
    const { take, order, pool } = setUp([a, b]);
    pool.recordFailure(a, upstreamFailure("credential", "status 401", 401));
    pool.recordFailure(b, limited(300_000));
    const error = await rejection(take(order()));
    expect(error).toMatchObject({ status: 503, code: "server_is_overloaded" });
    expect(error.message).toStartWith("Selected model is at capacity");
    expect(error.message).toEndWith("try again in 5 min.");
    expect(error.headers).toEqual({});
  });

  test("fails with Retry-After if a slot is expected soon after the queue timeout", async () => {
    const a = route("a");
    const { take, order, pool, waiting } = setUp([a]);
    pool.recordFailure(a, limited(42_000));
    const error = await rejection(take(order()));
    expect(error).toMatchObject({
      status: 429,
      code: "rate_limit_exceeded",
      headers: { "retry-after": "42" },
    });
    expect(error.message).toContain("try again in 42s");
    expect(waiting()).toBe(0);
  });

  test("fails with the error of the last attempt, if there was one", async () => {
    const a = route("a");
    const { take, order } = setUp([a]);
    const last = new ApiError("upstream_error", "what it said");
    expect(await rejection(take(order(), [a], last))).toBe(last);
  });

  test("does not fail with not_found while another account is only busy", async () => {
    const [a, b] = [route("a"), route("b", { concurrency: 1 })];
    const { take, order, pool } = setUp([a, b], { maxWaiting: 0, timeoutMs: 5_000 });
    await take(order(), [a]);
    const last = new ApiError("not_found", "what the other said");
    expect(await rejection(take(order(), [a], last))).toMatchObject({ code: "rate_limit_exceeded" });
    pool.recordFailure(b, upstreamFailure("credential", "status 401", 401));
    expect(await rejection(take(order(), [a], last))).toBe(last);
  });

  test("fails with rate_limit_exceeded if the queue is full", async () => {
    const { take, order } = setUp([route("a", { concurrency: 1 })], { maxWaiting: 0, timeoutMs: 5_000 });
    await take(order());
    const error = await rejection(take(order()));
    expect(error).toMatchObject({ status: 429, headers: { "retry-after": "1" } });
    expect(error.message).toContain("queueing is disabled for your group");
  });

  test("fails with rate_limit_exceeded at the queue timeout", async () => {
    const { take, order, waiting } = setUp([route("a", { concurrency: 1 })], { maxWaiting: 5, timeoutMs: 5 });
    await take(order());
    expect(await rejection(take(order()))).toMatchObject({ status: 429, code: "rate_limit_exceeded" });
    expect(waiting()).toBe(0);
  });

  test("leaves the queue when its client disconnects", async () => {
    const { take, order, waiting } = setUp([route("a", { concurrency: 1 })]);
    const held = await take(order());
    const leaving = new AbortController();
    const taking = rejection(take(order(leaving)));
    leaving.abort();
    expect((await taking).code).toBe("client_closed_request");
    expect(waiting()).toBe(0);
    held.release(null);
    await take(order());
  });
});
