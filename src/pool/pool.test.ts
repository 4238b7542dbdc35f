import { beforeEach, describe, expect, test } from "bun:test";
import { classifyError } from "../accounts/classify-error.ts";
import { type FailureClass, upstreamFailure } from "../accounts/failure.ts";
import type { AccountRoute } from "../policy/snapshot.ts";
import { NO_RATE_LIMITS } from "../records/limits.ts";
import { account, openTestPool, route, type TestPool } from "./pool.test-support.ts";

let rig: TestPool;
beforeEach(() => {
  rig = openTestPool();
});

const eject = (target: AccountRoute) => {
  for (let i = 0; i < 3; i++) rig.pool.recordFailure(target, upstreamFailure("connect", "refused"));
};
const limited = (ms: number) => ({ ...upstreamFailure("rate_limited", "r"), retryAfterMs: ms });

describe("the selected account", () => {
  test("has the best priority with an eligible account", () => {
    const [first, second, third] = [
      route("a", { priority: 1 }),
      route("b", { priority: 2, weight: 100 }),
      route("c", { priority: 3 }),
    ];
    const routes = [first, second, third];
    expect(rig.take(routes).route).toBe(first);
    eject(first);
    for (let i = 0; i < 20; i++) expect(rig.take(routes).route).toBe(second);
    rig.pool.recordFailure(second, upstreamFailure("credential", "status 401"));
    expect(rig.take(routes).route).toBe(third);
    rig.clock.pass(6_000);
    expect(rig.take(routes).route).toBe(first);
  });

  test("is never one that the request has tried, under any route", () => {
    const [first, second] = [route("a"), route("b")];
    const sameUnderOtherName = route("a", {}, "other");
    for (let i = 0; i < 20; i++) {
      expect(rig.take([first, second], { tried: new Set([first]) }).route).toBe(second);
      expect(rig.take([first, second], { tried: new Set([sameUnderOtherName]) }).route).toBe(second);
    }
    expect(rig.reject([first, second], { tried: new Set([first, second]) })).toMatchObject({
      mayFree: false,
      freesInMs: null,
    });
  });

  test("is null without routes", () => {
    expect(rig.reject([])).toMatchObject({ mayFree: false, freesInMs: null });
  });

  test("is found if it is the only available one of a thousand", () => {
    const routes = Array.from({ length: 1_000 }, (_, i) => route(`a${i}`));
    for (const one of routes) {
      if (one.account.id !== "a777") rig.pool.recordFailure(one, upstreamFailure("credential", "status 401"));
    }
    for (let i = 0; i < 5; i++) expect(rig.take(routes).route.account.id).toBe("a777");
    expect(rig.take(routes, { affinity: "c" }).route.account.id).toBe("a777");
  });
});

describe("streams that break after they began", () => {
  const serve = (target: AccountRoute, ending: "finished" | "brokeOff") => {
    rig.pool.recordSuccess(target, 10, null);
    if (ending === "finished") rig.pool.recordStreamEnd(target);
    else rig.pool.recordBrokenStream(target, upstreamFailure("reset", "the connection was lost"));
  };

  test("open the circuit of an account after three in a row", () => {
    const [first, second] = [route("a", { priority: 1 }), route("b", { priority: 2 })];
    for (let i = 0; i < 2; i++) serve(first, "brokeOff");
    expect(rig.take([first, second]).route).toBe(first);
    serve(first, "brokeOff");
    expect(rig.take([first, second]).route).toBe(second);
  });

  test("are reset by a stream that completes", () => {
    const [first, second] = [route("a", { priority: 1 }), route("b", { priority: 2 })];
    for (const ending of ["brokeOff", "brokeOff", "finished", "brokeOff", "brokeOff"] as const)
      serve(first, ending);
    expect(rig.take([first, second]).route).toBe(first);
  });
});

describe("a failure", () => {
  test("of a model does not affect the account's other models", () => {
    const [one, other] = [
      route("a", {}, "m1"),
      { account: account("a"), upstreamModel: "m2", translation: null },
    ];
    rig.pool.recordFailure(one, limited(20_000));
    expect(rig.reasons([one, other])).toEqual(["cooling", null]);
  });

  test("of a connection, credential or quota affects all models of the account", () => {
    for (const kind of ["connect", "credential", "quota"] satisfies FailureClass[]) {
      const [one, other] = [route(kind, {}, "m1"), route(kind, {}, "m2")];
      for (let i = 0; i < 3; i++) rig.pool.recordFailure(one, upstreamFailure(kind, "r"));
      expect(rig.reasons([other])).toEqual([kind === "credential" ? "parked" : "cooling"]);
    }
  });

  test("caused by the request changes nothing", () => {
    const one = route("a");
    const before = rig.pool.describe(one);
    for (let i = 0; i < 10; i++) rig.pool.recordFailure(one, upstreamFailure("rejected", "status 400"));
    expect(rig.pool.describe(one)).toEqual(before);
  });

  test("states its end, from headers, the message or a reset time in the body", () => {
    const error = { code: null, type: null, param: null, message: "" };
    const frees = (id: string, failure: Parameters<TestPool["pool"]["recordFailure"]>[1]) => {
      const one = route(id);
      rig.pool.recordFailure(one, failure);
      return rig.pool.describe(one).freesInMs;
    };
    expect(frees("a", classifyError(429, null, 7_000))).toBe(7_000);
    expect(frees("b", classifyError(429, { ...error, message: "Please try again in 1.5s." }, null))).toBe(
      1_500,
    );
    expect(frees("c", classifyError(429, { ...error, resetsAtMs: rig.clock.nowMs() + 45_000 }, null))).toBe(
      45_000,
    );
    expect(frees("d", classifyError(429, { ...error, resetsInMs: 18_000_000 }, null))).toBe(600_000);
  });
});

describe("after a cool-down", () => {
  test("exactly one request probes the account, and others see it as cooling down", () => {
    const only = route("a");
    eject(only);
    expect(rig.reject([only]).mayFree).toBe(true);
    rig.clock.pass(6_000);
    const probe = rig.take([only]);
    expect(probe.probe).toBe(true);
    expect(rig.reject([only])).toMatchObject({ mayFree: true, freesInMs: 500 });
    expect(rig.reasons([only])).toEqual(["cooling"]);
    rig.pool.recordSuccess(only, 10, null);
    expect(rig.take([only]).probe).toBe(false);
    expect(rig.take([only]).probe).toBe(false);
  });

  test("a failed probe is followed by a longer cool-down", () => {
    const only = route("a");
    eject(only);
    rig.clock.pass(6_000);
    const probe = rig.take([only]);
    rig.pool.recordFailure(only, upstreamFailure("connect", "refused"));
    probe.lease.release();
    const { freesInMs } = rig.reject([only]);
    expect(freesInMs).toBeGreaterThanOrEqual(8_000);
    expect(freesInMs).toBeLessThanOrEqual(12_000);
  });

  test("a probe whose client disconnects allows another probe", () => {
    const only = route("a");
    eject(only);
    rig.clock.pass(6_000);
    rig.take([only]).lease.release();
    expect(rig.take([only]).probe).toBe(true);
    const model = route("b");
    for (let i = 0; i < 2; i++) rig.pool.recordFailure(model, upstreamFailure("server", "status 500"));
    rig.clock.pass(6_000);
    rig.take([model]).lease.cancel();
    expect(rig.take([model]).probe).toBe(true);
  });

  test("an outcome reported after the release counts as well", () => {
    const only = route("a");
    eject(only);
    rig.clock.pass(6_000);
    rig.take([only]).lease.release();
    rig.pool.recordSuccess(only, 10, null);
    expect(rig.take([only]).probe).toBe(false);
  });
});

describe("a rejected credential", () => {
  test("excludes the account until it is enabled again", () => {
    const [bad, good] = [route("bad"), route("good")];
    rig.pool.recordFailure(bad, upstreamFailure("credential", "status 401"));
    for (let i = 0; i < 100; i++) {
      rig.clock.pass(3_600_000);
      expect(rig.take([bad, good]).route).toBe(good);
    }
    expect(rig.reject([bad])).toMatchObject({ mayFree: false, freesInMs: null });
    rig.pool.resetHealth("bad");
    expect(rig.take([bad])).toMatchObject({ route: bad, probe: false });
  });

  test("is forgotten when the credential changes, and late failures do not affect the new one", () => {
    const old = route("a");
    rig.take([old]);
    rig.pool.recordFailure(old, upstreamFailure("credential", "status 401"));
    const renewed = route("a", { credential: "new" });
    expect(rig.take([renewed]).route).toBe(renewed);
    rig.pool.recordFailure(old, upstreamFailure("credential", "status 401"));
    expect(rig.reasons([renewed])).toEqual([null]);
  });
});

describe("a new snapshot", () => {
  test("keeps the health of an account whose connection settings are unchanged", () => {
    rig.pool.recordFailure(route("a"), upstreamFailure("credential", "status 401"));
    const again = route("a", { weight: 7, priority: 3, name: "renamed" });
    expect(rig.reasons([again])).toEqual(["parked"]);
  });

  test.each(["credential", "baseUrl", "kind"] as const)("with another %s resets the health", (field) => {
    rig.pool.recordFailure(route("a"), upstreamFailure("credential", "status 401"));
    expect(rig.reasons([route("a", { [field]: field === "kind" ? "azure" : "other" })])).toEqual([null]);
  });

  test("counts requests in flight across the change", () => {
    const limits = { ...NO_RATE_LIMITS, concurrency: 1 };
    const { lease } = rig.take([route("a", { limits })]);
    const renewed = route("a", { limits, credential: "new" });
    expect(rig.reasons([renewed])).toEqual(["at_capacity"]);
    lease.release();
    expect(rig.reasons([renewed])).toEqual([null]);
  });

  test("drops the health of deleted accounts", () => {
    rig.pool.recordFailure(route("gone"), upstreamFailure("credential", "status 401"));
    rig.pool.recordFailure(route("here"), upstreamFailure("credential", "status 401"));
    rig.pool.retain(new Map([["here", account("here")]]));
    expect(rig.reasons([route("gone"), route("here")])).toEqual([null, "parked"]);
  });

  test("drops models without traffic for an hour, unless they are cooling down", () => {
    rig.clock.pass(1_000);
    const kept = new Map([["a", account("a")]]);
    const slow = route("a", {}, "slow");
    rig.pool.recordFailure(slow, upstreamFailure("timeout", "late"));
    rig.pool.recordFailure(slow, upstreamFailure("timeout", "late"));
    rig.pool.retain(kept);
    rig.pool.recordFailure(route("a", {}, "slow"), upstreamFailure("timeout", "late"));
    expect(rig.reasons([route("a", {}, "slow")])).toEqual(["cooling"]);
    rig.clock.pass(7_200_000);
    rig.pool.retain(kept);
    expect(rig.take([route("a", {}, "slow")]).probe).toBe(false);
  });
});

describe("the candidates of a selection", () => {
  test("are listed with names, reasons and scores, best priority first", () => {
    const routes = [route("b", { priority: 2 }), route("a", { priority: 1 }), route("c", { priority: 1 })];
    rig.pool.recordFailure(routes[2] ?? route("c"), limited(5_000));
    const taken = rig.take(routes);
    expect(taken.candidates()).toEqual([
      {
        accountId: "a",
        accountName: "name of a",
        upstreamModel: "m",
        priority: 1,
        score: 1,
        reason: null,
        freesInMs: null,
      },
      {
        accountId: "c",
        accountName: "name of c",
        upstreamModel: "m",
        priority: 1,
        score: null,
        reason: "cooling",
        cause: "rate_limited",
        freesInMs: 5_000,
      },
      {
        accountId: "b",
        accountName: "name of b",
        upstreamModel: "m",
        priority: 2,
        score: 1,
        reason: null,
        freesInMs: null,
      },
    ]);
  });

  test("show the tried accounts and the selected one as they were at the selection", () => {
    const limits = { ...NO_RATE_LIMITS, concurrency: 1 };
    const [first, second] = [route("a", { limits }), route("b", { limits })];
    const tried = new Set<AccountRoute>([first]);
    const taken = rig.take([first, second], { tried });
    tried.add(second);
    expect(taken.candidates().map(({ reason, score }) => ({ reason, score }))).toEqual([
      { reason: "tried", score: null },
      { reason: null, score: 1 },
    ]);
  });

  test("report the earliest time at which an account becomes available", () => {
    const routes = [route("a"), route("b"), route("c"), route("d")];
    const [a, b, c, d] = routes;
    if (!a || !b || !c || !d) throw new Error("four routes");
    rig.pool.recordFailure(a, limited(9_000));
    rig.pool.recordFailure(b, limited(4_000));
    rig.pool.recordFailure(c, upstreamFailure("credential", "r"));
    expect(rig.reject(routes, { tried: new Set([d]) })).toMatchObject({ mayFree: true, freesInMs: 4_000 });
    expect(rig.reject(routes, { tried: new Set([b, d]) })).toMatchObject({ freesInMs: 9_000 });
  });
});
