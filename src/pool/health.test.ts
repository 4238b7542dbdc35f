import { beforeEach, describe, expect, test } from "bun:test";
import type { FailureClass } from "../accounts/failure.ts";
import {
  abandon,
  begin,
  type Circuit,
  close,
  closedCircuit,
  isOpen,
  isParked,
  recordFailure,
  recordSuccess,
  usableInMs,
} from "./health.ts";

let nowMs: number;
let account: Circuit;
let model: Circuit;

beforeEach(() => {
  nowMs = 1_000;
  account = closedCircuit();
  model = closedCircuit();
});

const fail = (kind: FailureClass, hintMs: number | null = null) =>
  recordFailure(account, model, { kind, hintMs }, nowMs, () => 0.5);
const succeed = () => recordSuccess(account, model, nowMs);
const times = (count: number, act: () => void) => {
  for (let i = 0; i < count; i++) act();
};
const open = () => ({ account: isOpen(account, nowMs), model: isOpen(model, nowMs) });

const WELL = { account: false, model: false };

describe("consecutive failures", () => {
  test("three failed connections open the circuit of the account", () => {
    times(2, () => fail("connect"));
    expect(open()).toEqual(WELL);
    fail("connect");
    expect(open()).toEqual({ account: true, model: false });
    expect(usableInMs(account, nowMs)).toBe(5_000);
  });

  test.each<[FailureClass, number]>([
    ["timeout", 3],
    ["reset", 3],
    ["server", 2],
    ["bad_answer", 2],
    ["overloaded", 1],
    ["rate_limited", 1],
    ["model_missing", 1],
  ])("of class %s open the circuit of the model after %i", (kind, count) => {
    times(count - 1, () => fail(kind));
    expect(open()).toEqual(WELL);
    fail(kind);
    expect(open()).toEqual({ account: false, model: true });
  });

  test("are counted from zero after a success", () => {
    times(2, () => fail("connect"));
    succeed();
    times(2, () => fail("connect"));
    expect(open()).toEqual(WELL);
    fail("server");
    succeed();
    fail("server");
    expect(open()).toEqual(WELL);
  });

  test("of connections are interrupted by any response", () => {
    times(2, () => fail("connect"));
    fail("server");
    times(2, () => fail("connect"));
    expect(isOpen(account, nowMs)).toBe(false);
  });

  test.each(["rejected", "not_here", "too_large"] as const)(
    "that clients can cause do not count: %s",
    (kind) => {
      fail("server");
      times(9, () => fail(kind));
      expect(open()).toEqual(WELL);
      fail("server");
      expect(open()).toEqual({ account: false, model: true });
    },
  );
});

describe("a half-open circuit", () => {
  beforeEach(() => {
    times(3, () => fail("connect"));
    nowMs += 5_000;
  });

  test("allows exactly one attempt as a probe", () => {
    expect(isOpen(account, nowMs)).toBe(false);
    expect(begin(account, 1, nowMs)).toBe(true);
    expect(isOpen(account, nowMs)).toBe(true);
    nowMs += 3_600_000;
    expect(isOpen(account, nowMs)).toBe(true);
  });

  test("is closed by a successful probe", () => {
    begin(account, 1, nowMs);
    succeed();
    expect(isOpen(account, nowMs)).toBe(false);
    expect(begin(account, 2, nowMs)).toBe(false);
    times(2, () => fail("connect"));
    expect(isOpen(account, nowMs)).toBe(false);
  });

  test("is opened again by a failed probe, for longer", () => {
    begin(account, 1, nowMs);
    fail("connect");
    expect(usableInMs(account, nowMs)).toBe(10_000);
    nowMs += 10_000;
    begin(account, 2, nowMs);
    fail("connect");
    expect(usableInMs(account, nowMs)).toBe(20_000);
  });

  test("of an account is closed by any response to the probe", () => {
    begin(account, 1, nowMs);
    fail("overloaded");
    expect(open()).toEqual({ account: false, model: true });
    expect(begin(account, 2, nowMs)).toBe(false);
  });

  test("allows another probe if the probe is abandoned", () => {
    begin(account, 1, nowMs);
    abandon(account, 1);
    expect(isOpen(account, nowMs)).toBe(false);
    expect(begin(account, 2, nowMs)).toBe(true);
    abandon(account, 1);
    expect(isOpen(account, nowMs)).toBe(true);
  });

  test("of a failed model is closed by a rejected request", () => {
    succeed();
    times(2, () => fail("server"));
    nowMs += 5_000;
    begin(model, 1, nowMs);
    fail("rejected");
    expect(begin(model, 2, nowMs)).toBe(false);
  });

  test("of a missing model is not closed by a rejected request", () => {
    succeed();
    fail("model_missing");
    nowMs += 300_000;
    begin(model, 1, nowMs);
    fail("rejected");
    expect(isOpen(model, nowMs)).toBe(false);
    expect(begin(model, 2, nowMs)).toBe(true);
  });

  test("of an exhausted quota is not closed by another failure", () => {
    succeed();
    fail("quota");
    nowMs += 600_000;
    begin(account, 1, nowMs);
    fail("timeout");
    expect(begin(account, 2, nowMs)).toBe(true);
  });
});

describe("attempts in flight when the circuit opened", () => {
  test("do not extend the cool-down when they fail", () => {
    times(20, () => fail("connect"));
    expect(usableInMs(account, nowMs)).toBe(5_000);
    times(20, () => fail("rate_limited"));
    expect(usableInMs(model, nowMs)).toBe(1_000);
  });

  test("do not end the cool-down when they succeed", () => {
    fail("rate_limited", 20_000);
    nowMs += 1_000;
    succeed();
    expect(usableInMs(model, nowMs)).toBe(19_000);
  });

  test("extend the cool-down if the upstream states so", () => {
    fail("rate_limited", 2_000);
    fail("rate_limited", 30_000);
    fail("rate_limited", 3_000);
    expect(usableInMs(model, nowMs)).toBe(30_000);
  });
});

describe("a rate limit", () => {
  test("that is short ends by time, without a probe", () => {
    fail("rate_limited", 2_000);
    nowMs += 2_000;
    expect(open()).toEqual(WELL);
    expect(begin(model, 1, nowMs)).toBe(false);
  });

  test("without a hint lasts longer each time, until a success", () => {
    const lengths = [1, 2, 3].map(() => {
      fail("rate_limited");
      const ms = usableInMs(model, nowMs);
      nowMs += ms;
      return ms;
    });
    expect(lengths).toEqual([1_000, 2_000, 4_000]);
    succeed();
    fail("rate_limited");
    expect(usableInMs(model, nowMs)).toBe(1_000);
  });

  test("that is long is probed", () => {
    fail("rate_limited", 7_200_000);
    nowMs += 600_000;
    expect(begin(model, 1, nowMs)).toBe(true);
    fail("rate_limited", 6_600_000);
    expect(usableInMs(model, nowMs)).toBe(600_000);
  });
});

describe("a rejected credential", () => {
  test("parks the account until it is closed manually", () => {
    fail("credential");
    nowMs += 1e12;
    succeed();
    fail("quota");
    fail("connect");
    expect(isParked(account)).toBe(true);
    expect(isOpen(account, nowMs)).toBe(true);
    close(account);
    expect(open()).toEqual(WELL);
  });
});
