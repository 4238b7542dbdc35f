import { beforeEach, describe, expect, test } from "bun:test";
import { classifyError, type FailureClass, upstreamFailure } from "../accounts/failure.ts";
import type { AccountRoute } from "../policy/snapshot.ts";
import { account, openRig, type Rig, route } from "./pool.test-support.ts";

let rig: Rig;
beforeEach(() => {
  rig = openRig();
});

const eject = (target: AccountRoute) => {
  for (let i = 0; i < 3; i++) rig.pool.failed(target, upstreamFailure("connect", "refused"));
};
const limited = (ms: number) => ({ ...upstreamFailure("rate_limited", "r"), retryAfterMs: ms });

describe("which account", () => {
  test("is one of the best priority that has an eligible account", () => {
    const [first, second, third] = [
      route("a", { priority: 1 }),
      route("b", { priority: 2, weight: 100 }),
      route("c", { priority: 3 }),
    ];
    const routes = [first, second, third];
    expect(rig.take(routes).route).toBe(first);
    eject(first);
    for (let i = 0; i < 20; i++) expect(rig.take(routes).route).toBe(second);
    rig.pool.failed(second, upstreamFailure("credential", "status 401"));
    expect(rig.take(routes).route).toBe(third);
    rig.clock.pass(6_000);
    expect(rig.take(routes).route).toBe(first);
  });

  test("is never one that the request has tried, under whatever route", () => {
    const [first, second] = [route("a"), route("b")];
    const sameUnderOtherName = route("a", {}, "other");
    for (let i = 0; i < 20; i++) {
      expect(rig.take([first, second], { tried: new Set([first]) }).route).toBe(second);
      expect(rig.take([first, second], { tried: new Set([sameUnderOtherName]) }).route).toBe(second);
    }
    expect(rig.refuse([first, second], { tried: new Set([first, second]) })).toMatchObject({
      mayFree: false,
      freesInMs: null,
    });
  });

  test("is none where there is no route", () => {
    expect(rig.refuse([])).toMatchObject({ mayFree: false, freesInMs: null });
  });

  test("is found even if it is the only one of a thousand that can be taken", () => {
    const routes = Array.from({ length: 1_000 }, (_, i) => route(`a${i}`));
    for (const one of routes) {
      if (one.account.id !== "a777") rig.pool.failed(one, upstreamFailure("credential", "status 401"));
    }
    for (let i = 0; i < 5; i++) expect(rig.take(routes).route.account.id).toBe("a777");
    expect(rig.take(routes, { affinity: "c" }).route.account.id).toBe("a777");
  });
});

describe("streams that break off after they began", () => {
  const serve = (target: AccountRoute, ending: "finished" | "brokeOff") => {
    rig.pool.succeeded(target, 10, null);
    if (ending === "finished") rig.pool.finished(target);
    else rig.pool.brokeOff(target, upstreamFailure("reset", "the connection broke"));
  };

  test("cost an account its turn after three in a row", () => {
    const [first, second] = [route("a", { priority: 1 }), route("b", { priority: 2 })];
    for (let i = 0; i < 2; i++) serve(first, "brokeOff");
    expect(rig.take([first, second]).route).toBe(first);
    serve(first, "brokeOff");
    expect(rig.take([first, second]).route).toBe(second);
  });

  test("are forgotten when one comes to its end", () => {
    const [first, second] = [route("a", { priority: 1 }), route("b", { priority: 2 })];
    for (const ending of ["brokeOff", "brokeOff", "finished", "brokeOff", "brokeOff"] as const)
      serve(first, ending);
    expect(rig.take([first, second]).route).toBe(first);
  });
});

describe("a failure", () => {
  test("of a model leaves the account's other models alone", () => {
    const [one, other] = [route("a", {}, "m1"), { account: account("a"), upstreamModel: "m2" }];
    rig.pool.failed(one, limited(20_000));
    expect(rig.reasons([one, other])).toEqual(["cooling", null]);
  });

  test("of a connection, credential or quota concerns all models of the account", () => {
    for (const kind of ["connect", "credential", "quota"] satisfies FailureClass[]) {
      const [one, other] = [route(kind, {}, "m1"), route(kind, {}, "m2")];
      for (let i = 0; i < 3; i++) rig.pool.failed(one, upstreamFailure(kind, "r"));
      expect(rig.reasons([other])).toEqual([kind === "credential" ? "parked" : "cooling"]);
    }
  });

  test("that the request is to blame for changes nothing", () => {
    const one = route("a");
    const before = rig.pool.describe(one);
    for (let i = 0; i < 10; i++) rig.pool.failed(one, upstreamFailure("rejected", "status 400"));
    expect(rig.pool.describe(one)).toEqual(before);
  });

  test("tells when it is over, from headers, words or a moment in the body", () => {
    const said = { code: null, type: null, param: null, message: "" };
    const frees = (id: string, failure: Parameters<Rig["pool"]["failed"]>[1]) => {
      const one = route(id);
      rig.pool.failed(one, failure);
      return rig.pool.describe(one).freesInMs;
    };
    expect(frees("a", classifyError(429, null, 7_000))).toBe(7_000);
    expect(frees("b", classifyError(429, { ...said, message: "Please try again in 1.5s." }, null))).toBe(
      1_500,
    );
    expect(frees("c", classifyError(429, { ...said, resetsAtMs: rig.clock.nowMs() + 45_000 }, null))).toBe(
      45_000,
    );
    expect(frees("d", classifyError(429, { ...said, resetsInMs: 18_000_000 }, null))).toBe(600_000);
  });
});

describe("after a cool-down", () => {
  test("exactly one request goes first, and the others see the account as cooling", () => {
    const only = route("a");
    eject(only);
    expect(rig.refuse([only]).mayFree).toBe(true);
    rig.clock.pass(6_000);
    const probe = rig.take([only]);
    expect(probe.probe).toBe(true);
    expect(rig.refuse([only])).toMatchObject({ mayFree: true, freesInMs: 500 });
    expect(rig.reasons([only])).toEqual(["cooling"]);
    rig.pool.succeeded(only, 10, null);
    expect(rig.take([only]).probe).toBe(false);
    expect(rig.take([only]).probe).toBe(false);
  });

  test("a probe that fails is followed by a longer one", () => {
    const only = route("a");
    eject(only);
    rig.clock.pass(6_000);
    const probe = rig.take([only]);
    rig.pool.failed(only, upstreamFailure("connect", "refused"));
    probe.lease.release();
    const { freesInMs } = rig.refuse([only]);
    expect(freesInMs).toBeGreaterThanOrEqual(8_000);
    expect(freesInMs).toBeLessThanOrEqual(12_000);
  });

  test("a probe whose client leaves gives its place to the next", () => {
    const only = route("a");
    eject(only);
    rig.clock.pass(6_000);
    rig.take([only]).lease.release();
    expect(rig.take([only]).probe).toBe(true);
    const model = route("b");
    for (let i = 0; i < 2; i++) rig.pool.failed(model, upstreamFailure("server", "status 500"));
    rig.clock.pass(6_000);
    rig.take([model]).lease.cancel();
    expect(rig.take([model]).probe).toBe(true);
  });

  test("a report that follows the release counts as well", () => {
    const only = route("a");
    eject(only);
    rig.clock.pass(6_000);
    rig.take([only]).lease.release();
    rig.pool.succeeded(only, 10, null);
    expect(rig.take([only]).probe).toBe(false);
  });
});

describe("a refused credential", () => {
  test("keeps the account out until somebody acts", () => {
    const [bad, good] = [route("bad"), route("good")];
    rig.pool.failed(bad, upstreamFailure("credential", "status 401"));
    for (let i = 0; i < 100; i++) {
      rig.clock.pass(3_600_000);
      expect(rig.take([bad, good]).route).toBe(good);
    }
    expect(rig.refuse([bad])).toMatchObject({ mayFree: false, freesInMs: null });
    rig.pool.forgive("bad");
    expect(rig.take([bad])).toMatchObject({ route: bad, probe: false });
  });

  test("is forgotten when the credential changes, and its late refusals do not touch the new one", () => {
    const old = route("a");
    rig.take([old]);
    rig.pool.failed(old, upstreamFailure("credential", "status 401"));
    const renewed = route("a", { credential: "new" });
    expect(rig.take([renewed]).route).toBe(renewed);
    rig.pool.failed(old, upstreamFailure("credential", "status 401"));
    expect(rig.reasons([renewed])).toEqual([null]);
  });
});

describe("a new snapshot", () => {
  test("keeps what is known of an account that is reached as before", () => {
    rig.pool.failed(route("a"), upstreamFailure("credential", "status 401"));
    const again = route("a", { weight: 7, priority: 3, name: "renamed" });
    expect(rig.reasons([again])).toEqual(["parked"]);
  });

  test.each(["credential", "baseUrl", "kind"] as const)("with another %s starts afresh", (field) => {
    rig.pool.failed(route("a"), upstreamFailure("credential", "status 401"));
    expect(rig.reasons([route("a", { [field]: field === "kind" ? "azure" : "other" })])).toEqual([null]);
  });

  test("counts what is under way across the change", () => {
    const limits = { concurrency: 1, rpm: null, tpm: null };
    const { lease } = rig.take([route("a", { limits })]);
    const renewed = route("a", { limits, credential: "new" });
    expect(rig.reasons([renewed])).toEqual(["at_capacity"]);
    lease.release();
    expect(rig.reasons([renewed])).toEqual([null]);
  });

  test("drops what is known of accounts that are gone", () => {
    rig.pool.failed(route("gone"), upstreamFailure("credential", "status 401"));
    rig.pool.failed(route("here"), upstreamFailure("credential", "status 401"));
    rig.pool.retain(new Map([["here", account("here")]]));
    expect(rig.reasons([route("gone"), route("here")])).toEqual([null, "parked"]);
  });

  test("drops models that nobody has asked for in an hour, unless they are still cooling", () => {
    rig.clock.pass(1_000);
    const kept = new Map([["a", account("a")]]);
    const slow = route("a", {}, "slow");
    rig.pool.failed(slow, upstreamFailure("timeout", "late"));
    rig.pool.failed(slow, upstreamFailure("timeout", "late"));
    rig.pool.retain(kept);
    rig.pool.failed(route("a", {}, "slow"), upstreamFailure("timeout", "late"));
    expect(rig.reasons([route("a", {}, "slow")])).toEqual(["cooling"]);
    rig.clock.pass(7_200_000);
    rig.pool.retain(kept);
    expect(rig.take([route("a", {}, "slow")]).probe).toBe(false);
  });
});

describe("what was weighed", () => {
  test("is listed with names, reasons and scores, best priority first", () => {
    const routes = [route("b", { priority: 2 }), route("a", { priority: 1 }), route("c", { priority: 1 })];
    rig.pool.failed(routes[2] ?? route("c"), limited(5_000));
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

  test("shows what had been tried then, and the chosen one as it was when it was chosen", () => {
    const limits = { concurrency: 1, rpm: null, tpm: null };
    const [first, second] = [route("a", { limits }), route("b", { limits })];
    const tried = new Set<AccountRoute>([first]);
    const taken = rig.take([first, second], { tried });
    tried.add(second);
    expect(taken.candidates().map(({ reason, score }) => ({ reason, score }))).toEqual([
      { reason: "tried", score: null },
      { reason: null, score: 1 },
    ]);
  });

  test("tells the soonest moment of all that may free", () => {
    const routes = [route("a"), route("b"), route("c"), route("d")];
    const [a, b, c, d] = routes;
    if (!a || !b || !c || !d) throw new Error("four routes");
    rig.pool.failed(a, limited(9_000));
    rig.pool.failed(b, limited(4_000));
    rig.pool.failed(c, upstreamFailure("credential", "r"));
    expect(rig.refuse(routes, { tried: new Set([d]) })).toMatchObject({ mayFree: true, freesInMs: 4_000 });
    expect(rig.refuse(routes, { tried: new Set([b, d]) })).toMatchObject({ freesInMs: 9_000 });
  });
});
