import { describe, expect, test } from "bun:test";
import { type CallerLimits, NO_LIMITS, NO_RATE_LIMITS } from "../records/limits.ts";
import { openLimiter } from "./limiter.ts";
import type { LimitLease, Shortage, Subject } from "./limiter-types.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

function setUp() {
  const clock = { atMs: 1_000, monotonicMs: () => clock.atMs };
  const limiter = openLimiter(clock);
  return {
    clock,
    admit: limiter.admit.bind(limiter),
    checkShortage: limiter.checkShortage.bind(limiter),
    seed: limiter.seed.bind(limiter),
    readStatus: limiter.readStatus.bind(limiter),
    subjectCount: () => limiter.subjectCount(),
    take(subjects: Subject[], tokens = 0, nano = 0): LimitLease {
      const admission = limiter.admit(subjects, { tokens, nano });
      if (!admission.ok) throw new Error(`refused: ${JSON.stringify(admission.shortage)}`);
      return admission.lease;
    },
    reject(subjects: Subject[], tokens = 0, nano = 0): Shortage {
      const admission = limiter.admit(subjects, { tokens, nano });
      if (admission.ok) throw new Error("admitted");
      return admission.shortage;
    },
  };
}

function key(limits: Partial<CallerLimits>, id = "key_1"): Subject {
  return { scope: "key", id, limits: { ...NO_LIMITS, ...limits } };
}

const group = (limits: Partial<CallerLimits>): Subject => ({ ...key(limits, "grp_1"), scope: "group" });

describe("requests per minute", () => {
  test("a request leaves the window after exactly 60,000 ms", () => {
    const { take, reject, clock } = setUp();
    const subject = key({ rpm: 2 });
    take([subject]);
    clock.atMs += 20_000;
    take([subject]);
    clock.atMs += 39_999;
    expect(reject([subject])).toEqual({
      scope: "key",
      id: expect.any(String),
      kind: "rpm",
      max: 2,
      used: 2,
      freesInMs: 1,
      perMs: 60_000,
      unit: "requests",
    });
    clock.atMs += 1;
    take([subject]);
    expect(reject([subject]).freesInMs).toBe(20_000);
  });

  test("a burst across a minute boundary is not admitted twice", () => {
    const { take, reject, clock } = setUp();
    clock.atMs = 59_999;
    for (let i = 0; i < 60; i++) take([key({ rpm: 60 })]);
    clock.atMs = 60_001;
    expect(reject([key({ rpm: 60 })]).freesInMs).toBe(59_998);
  });

  test("a released request still counts in its minute; a cancelled one does not", () => {
    const { take, reject } = setUp();
    const subject = key({ rpm: 1 });
    take([subject]).cancel();
    take([subject]).release();
    expect(reject([subject]).kind).toBe("rpm");
  });

  test("a limit of 0 rejects permanently, without a time", () => {
    const { reject, checkShortage } = setUp();
    for (const limits of [{ rpm: 0 }, { tpm: 0 }, { concurrency: 0 }]) {
      expect(checkShortage(key(limits, "key_unknown"), {})?.freesInMs).toBeNull();
      expect(reject([key(limits)]).freesInMs).toBeNull();
    }
  });
});

describe("tokens per minute", () => {
  test("the estimate is reserved, and settling releases the unused part", () => {
    const { take, reject } = setUp();
    const subject = key({ tpm: 1_000 });
    const lease = take([subject], 900);
    expect(reject([subject], 200)).toMatchObject({ kind: "tpm", used: 900, max: 1_000, unit: "tokens" });
    lease.settle({ tokens: 300, nano: 0 });
    take([subject], 700);
  });

  test("an underestimate may exceed the limit, which then rejects until it frees", () => {
    const { take, reject, readStatus, clock } = setUp();
    const subject = key({ tpm: 1_000 });
    take([subject], 100).settle({ tokens: 5_000, nano: 0 });
    expect(readStatus(subject).tpm).toEqual({ limit: 1_000, used: 5_000, remaining: 0, resetMs: 60_000 });
    clock.atMs += 10_000;
    expect(reject([subject], 1).freesInMs).toBe(50_000);
    clock.atMs += 50_000;
    take([subject], 1);
  });

  test("settling again replaces the amount, even after the release while the estimate counts", () => {
    const { take, readStatus, clock } = setUp();
    const subject = key({ tpm: 1_000 });
    const lease = take([subject], 100);
    lease.settle({ tokens: 400, nano: 0 });
    lease.settle({ tokens: 250, nano: 0 });
    lease.release();
    lease.settle({ tokens: 900, nano: 0 });
    expect(readStatus(subject).tpm?.used).toBe(900);
    clock.atMs += 60_000;
    lease.settle({ tokens: 950, nano: 0 });
    expect(readStatus(subject).tpm?.used).toBe(0);
  });

  test("a cancelled reservation cannot be settled", () => {
    const { take, readStatus } = setUp();
    const subject = key({ tpm: 1_000 });
    const lease = take([subject], 100);
    lease.cancel();
    lease.settle({ tokens: 900, nano: 0 });
    expect(readStatus(subject).tpm?.used).toBe(0);
  });

  test("a request above the whole limit waits for an empty window, and is then admitted", () => {
    const { take, reject, clock } = setUp();
    const subject = key({ tpm: 100 });
    take([subject], 10);
    clock.atMs += 5_000;
    take([subject], 10);
    expect(reject([subject], 500).freesInMs).toBe(60_000);
    clock.atMs += 60_000;
    take([subject], 500);
    expect(reject([subject], 1).freesInMs).toBe(60_000);
  });

  test("a wait ends when enough tokens have left the window, not at the first of them", () => {
    const { take, reject, clock } = setUp();
    const subject = key({ tpm: 100 });
    for (const tokens of [10, 20, 70]) {
      take([subject], tokens);
      clock.atMs += 1_000;
    }
    expect(reject([subject], 10).freesInMs).toBe(57_000);
    expect(reject([subject], 30).freesInMs).toBe(58_000);
    expect(reject([subject], 31).freesInMs).toBe(59_000);
  });

  test("tokens above a reservation that has left the window count from their settlement", () => {
    const { take, readStatus, clock } = setUp();
    const subject = key({ tpm: 1_000 });
    const lease = take([subject], 100);
    clock.atMs += 90_000;
    lease.settle({ tokens: 700, nano: 0 });
    expect(readStatus(subject).tpm).toEqual({ limit: 1_000, used: 600, remaining: 400, resetMs: 60_000 });
    lease.settle({ tokens: 650, nano: 0 });
    expect(readStatus(subject).tpm?.used).toBe(550);
    lease.settle({ tokens: 50, nano: 0 });
    expect(readStatus(subject).tpm?.used).toBe(0);
  });

  test("an invalid number of tokens counts as zero", () => {
    const { take, readStatus } = setUp();
    const subject = key({ tpm: 1_000 });
    const lease = take([subject], Number.NaN);
    lease.settle({ tokens: -5, nano: 0 });
    expect(readStatus(subject).tpm?.used).toBe(0);
    lease.settle({ tokens: Number.POSITIVE_INFINITY, nano: 0 });
    lease.settle({ tokens: 7, nano: 0 });
    expect(readStatus(subject).tpm?.used).toBe(7);
  });
});

describe("concurrency", () => {
  test("a slot is free after its release, and only once", () => {
    const { take, reject } = setUp();
    const subject = key({ concurrency: 2 });
    const first = take([subject]);
    take([subject]);
    expect(reject([subject])).toEqual({
      scope: "key",
      id: expect.any(String),
      kind: "concurrency",
      max: 2,
      used: 2,
      freesInMs: null,
      perMs: null,
      unit: "requests",
    });
    first.release();
    first.release();
    first.cancel();
    take([subject]);
    reject([subject]);
  });

  test("cancelling after the release changes nothing", () => {
    const { take, readStatus } = setUp();
    const subject = key({ rpm: 5, tpm: 100 });
    const lease = take([subject], 40);
    lease.release();
    lease.cancel();
    expect(readStatus(subject)).toMatchObject({ rpm: { used: 1 }, tpm: { used: 40 } });
  });

  test("nothing leaks after 10,000 requests that end in any way, in any order", () => {
    const { admit, readStatus, clock } = setUp();
    const limits = {
      concurrency: 50,
      rpm: 1e6,
      tpm: 1e9,
      windows: [{ perMs: DAY_MS, requests: 1e6, tokens: 1e9, nano: 5e15 }],
    };
    const subjects = [key(limits), group(limits)];
    const open: LimitLease[] = [];
    let state = 1;
    const random = (below: number) => {
      state = (state * 48_271) % 2_147_483_647;
      return state % below;
    };
    const endOne = () => {
      const [lease] = open.splice(random(open.length), 1);
      for (let i = random(4); i > 0; i--) lease?.settle({ tokens: random(1_000), nano: random(9e8) });
      if (random(2) === 0) lease?.release();
      lease?.cancel();
      lease?.release();
    };
    let admitted = 0;
    while (admitted < 10_000) {
      clock.atMs += random(20);
      const admission = admit(subjects, { tokens: random(500), nano: random(7e8) });
      if (admission.ok) {
        admitted += 1;
        open.push(admission.lease);
      }
      if (!admission.ok || random(2) === 0) endOne();
    }
    while (open.length > 0) endOne();
    for (const subject of subjects) expect(readStatus(subject).concurrency).toEqual({ limit: 50, inUse: 0 });
    clock.atMs += 2 * DAY_MS;
    for (const subject of subjects) {
      const { rpm, tpm, windows } = readStatus(subject);
      const [{ requests: ofDay, tokens: tokensOfDay, nano } = {}] = windows;
      for (const allowance of [rpm, tpm, ofDay, tokensOfDay, nano]) {
        expect(allowance).toMatchObject({ used: 0, resetMs: 0 });
      }
    }
  });
});

describe("one admission over several subjects", () => {
  test("a rejection by one subject takes nothing from the others", () => {
    const { take, reject, readStatus } = setUp();
    const [mine, ours] = [key({ rpm: 10, tpm: 100, concurrency: 3 }), group({ rpm: 1 })];
    take([mine, ours], 10);
    const before = readStatus(mine);
    expect(reject([mine, ours], 10)).toMatchObject({ scope: "group", kind: "rpm" });
    expect(readStatus(mine)).toEqual(before);
  });

  test("of several exceeded limits, the one that frees last is reported", () => {
    const { take, reject, clock } = setUp();
    const [mine, ours] = [key({ rpm: 1, concurrency: 1 }), group({ tpm: 100 })];
    take([ours], 100);
    clock.atMs += 5_000;
    take([mine]);
    expect(reject([ours, mine], 10)).toMatchObject({ scope: "key", kind: "rpm", freesInMs: 60_000 });
    clock.atMs += 60_000;
    expect(reject([ours, mine], 10)).toMatchObject({ scope: "key", kind: "concurrency", freesInMs: null });
  });

  test("a duplicate subject counts once", () => {
    const { take, readStatus } = setUp();
    const subject = key({ rpm: 5, concurrency: 1 });
    take([subject, subject]);
    expect(readStatus(subject)).toMatchObject({ rpm: { used: 1 }, concurrency: { inUse: 1 } });
  });

  test("the same id in two scopes is two subjects", () => {
    const { take, readStatus } = setUp();
    const limits: CallerLimits = { ...NO_LIMITS, rpm: 1 };
    for (const scope of ["key", "user"] as const) {
      take([{ scope, id: "x", limits }]);
      expect(readStatus({ scope, id: "x", limits }).rpm?.used).toBe(1);
    }
  });

  test("checkShortage takes nothing", () => {
    const { checkShortage, take } = setUp();
    const subject = key({ rpm: 1, tpm: 10 });
    for (let i = 0; i < 5; i++) expect(checkShortage(subject, { tokens: 5 })).toBeNull();
    take([subject], 5);
    expect(checkShortage(subject, { tokens: 5 })).toMatchObject({ kind: "rpm" });
  });
});

describe("a clock that jumps back", () => {
  test("admits nothing twice, and delays nothing once it has caught up", () => {
    const { take, reject, clock } = setUp();
    const subject = key({ rpm: 1 });
    clock.atMs = 100_000;
    take([subject]);
    clock.atMs = 0;
    expect(reject([subject]).freesInMs).toBe(60_000);
    clock.atMs = 159_999;
    expect(reject([subject]).freesInMs).toBe(1);
    clock.atMs = 160_000;
    take([subject]);
  });
});

describe("changed limits", () => {
  test("a raised limit keeps its history, and a lowered one applies at once", () => {
    const { take, reject } = setUp();
    for (let i = 0; i < 3; i++) take([key({ rpm: 3 })]);
    take([key({ rpm: 4 })]);
    expect(reject([key({ rpm: 4 })])).toMatchObject({ max: 4, used: 4 });
    expect(reject([key({ rpm: 2 })])).toMatchObject({ max: 2, used: 4 });
    take([key({ rpm: 5 })]);
  });

  test("a new limit counts from now on; requests in flight count at once", () => {
    const { take, reject, readStatus } = setUp();
    take([key({ rpm: 9 })], 500);
    const added = key({ rpm: 9, tpm: 100, concurrency: 1 });
    expect(readStatus(added)).toMatchObject({ rpm: { used: 1 }, tpm: { used: 0 } });
    expect(reject([added], 10)).toMatchObject({ kind: "concurrency", used: 1 });
  });

  test("a reservation outlives its limit", () => {
    const { take, readStatus } = setUp();
    const lease = take([key({ tpm: 100, concurrency: 1 })], 50);
    expect(readStatus(key({ concurrency: 1 })).tpm).toBeNull();
    const again = key({ tpm: 100, concurrency: 1 });
    expect(readStatus(again).tpm?.used).toBe(0);
    lease.settle({ tokens: 70, nano: 0 });
    lease.cancel();
    expect(readStatus(again)).toMatchObject({ tpm: { used: 0 }, concurrency: { inUse: 0 } });
  });

  test("two windows of the same length and unit are combined to the tighter one", () => {
    const { take, reject } = setUp();
    const windows = [5, 2, 7].map((requests) => ({ perMs: HOUR_MS, requests, tokens: null, nano: null }));
    take([key({ windows })]);
    take([key({ windows })]);
    expect(reject([key({ windows })])).toMatchObject({ max: 2, used: 2 });
  });
});

describe("memory", () => {
  test("a subject without limits uses no memory", () => {
    const { take, subjectCount } = setUp();
    const none = { perMs: HOUR_MS, requests: null, tokens: null, nano: null };
    for (const subject of [key({}), key({ windows: [none] }, "key_2")]) {
      const lease = take([subject], 1_000);
      lease.settle({ tokens: 5, nano: 0 });
      lease.release();
      lease.cancel();
    }
    expect(subjectCount()).toBe(0);
  });

  test("queries of unknown subjects use no memory", () => {
    const { readStatus, checkShortage, subjectCount } = setUp();
    for (let i = 0; i < 10; i++) {
      readStatus(key({ rpm: 1 }, `key_${i}`));
      checkShortage(key({ rpm: 1 }, `key_${i}`), { tokens: 1 });
    }
    expect(subjectCount()).toBe(0);
  });

  test("100,000 idle subjects are evicted by the requests of another", () => {
    const { take, subjectCount, clock } = setUp();
    const { limits } = key({ rpm: 5, concurrency: 5 });
    for (let i = 0; i < 100_000; i++) take([{ scope: "key", id: `key_${i}`, limits }]).release();
    expect(subjectCount()).toBe(100_000);
    clock.atMs += 60_000;
    const busy = key({ rpm: 1_000_000 }, "key_busy");
    for (let i = 0; i < 100_000; i++) take([busy]).release();
    expect(subjectCount()).toBe(1);
  }, 60_000);

  test("an endless sequence of new subjects keeps about twice those of the last minute", () => {
    const { take, subjectCount, clock } = setUp();
    let most = 0;
    for (let i = 0; i < 20_000; i++) {
      clock.atMs += 200;
      take([key({ rpm: 5 }, `key_${i}`)]).release();
      most = Math.max(most, subjectCount());
    }
    expect(most).toBeLessThan(2.2 * (60_000 / 200));
  });

  test("a subject with a request in flight is never evicted", () => {
    const { take, reject, clock } = setUp();
    const subject = key({ concurrency: 1, rpm: 10 });
    const lease = take([subject]);
    clock.atMs += DAY_MS;
    for (let i = 0; i < 10; i++) take([key({ rpm: 1 }, `key_other_${i}`)]);
    expect(reject([subject]).kind).toBe("concurrency");
    lease.release();
    take([subject]);
  });
});

describe("the status of a subject", () => {
  test("contains usage, remainder and reset of every limit", () => {
    const { take, readStatus, clock } = setUp();
    const windows = [{ perMs: DAY_MS, requests: 100, tokens: null, nano: 5_000_000_000 }];
    const subject = key({ rpm: 10, tpm: 1_000, concurrency: 4, windows });
    take([subject], 100, 1_250_000_000);
    clock.atMs += 10_000;
    take([subject], 50).release();
    clock.atMs += 5_000;
    expect(readStatus(subject)).toEqual({
      ...NO_LIMITS,
      rpm: { limit: 10, used: 2, remaining: 8, resetMs: 55_000 },
      tpm: { limit: 1_000, used: 150, remaining: 850, resetMs: 55_000 },
      concurrency: { limit: 4, inUse: 1 },
      windows: [
        {
          perMs: DAY_MS,
          requests: { limit: 100, used: 2, remaining: 98, resetMs: DAY_MS - 5_000 },
          tokens: null,
          nano: {
            limit: 5_000_000_000,
            used: 1_250_000_000,
            remaining: 3_750_000_000,
            resetMs: DAY_MS - 15_000,
          },
        },
      ],
    });
  });

  test("is null for limits that are not set, and zero for unknown subjects", () => {
    const { readStatus } = setUp();
    expect(readStatus({ scope: "account", id: "acc_1", limits: { ...NO_RATE_LIMITS, rpm: 7 } })).toEqual({
      ...NO_LIMITS,
      rpm: { limit: 7, used: 0, remaining: 7, resetMs: 0 },
    });
  });
});

describe("long windows", () => {
  const windows = [{ perMs: 5 * HOUR_MS, requests: 3, tokens: 1_000, nano: null }];

  test("usage before a restart counts, each part until it leaves the window", () => {
    const { seed, reject, take, clock } = setUp();
    const subject = key({ windows });
    seed(subject, [
      { atAgoMs: HOUR_MS, requests: 1, tokens: 100, nano: 100 },
      { atAgoMs: 4 * HOUR_MS, requests: 2, tokens: 500, nano: 500 },
      { atAgoMs: 5 * HOUR_MS, requests: 50, tokens: 50_000, nano: 50_000 },
    ]);
    expect(reject([subject], 10)).toEqual({
      scope: "key",
      id: expect.any(String),
      kind: "window",
      max: 3,
      used: 3,
      freesInMs: HOUR_MS,
      perMs: 5 * HOUR_MS,
      unit: "requests",
    });
    clock.atMs += HOUR_MS;
    take([subject], 900);
    expect(reject([subject], 1)).toMatchObject({ unit: "tokens", used: 1_000, freesInMs: 3 * HOUR_MS });
  });

  test("usage that is seeded late is merged, and reservations still settle correctly", () => {
    const { seed, readStatus, take, clock } = setUp();
    const subject = key({ windows: [{ perMs: DAY_MS, requests: 100, tokens: 1_000, nano: 1_000 }] });
    const leases = [];
    for (let i = 0; i < 5; i++) {
      leases.push(take([subject], 10, 20));
      clock.atMs += 400_000;
    }
    seed(subject, [
      { atAgoMs: 450_000, requests: 3, tokens: 7, nano: 7 },
      { atAgoMs: 12 * HOUR_MS, requests: 2, tokens: 5, nano: 5 },
      { atAgoMs: 0, requests: 1, tokens: 1, nano: 1 },
    ]);
    expect(readStatus(subject).windows[0]).toMatchObject({
      requests: { used: 11 },
      tokens: { used: 63 },
      nano: { used: 113 },
    });
    for (const lease of leases) lease.cancel();
    expect(readStatus(subject).windows[0]).toMatchObject({
      requests: { used: 6 },
      tokens: { used: 13 },
      nano: { used: 13 },
    });
  });

  test("minute windows are not seeded, because a restart takes about as long", () => {
    const { seed, readStatus } = setUp();
    const subject = key({ rpm: 5, windows });
    seed(subject, [{ atAgoMs: 1_000, requests: 3, tokens: 0, nano: 0 }]);
    expect(readStatus(subject)).toMatchObject({ rpm: { used: 0 }, windows: [{ requests: { used: 3 } }] });
  });

  test("seeding a subject without limits uses no memory", () => {
    const { seed, subjectCount } = setUp();
    seed(key({}), [{ atAgoMs: 0, requests: 1, tokens: 1, nano: 1 }]);
    expect(subjectCount()).toBe(0);
  });
});

describe("USD windows", () => {
  const dollars = (nano: number) => [{ perMs: 5 * HOUR_MS, requests: null, tokens: null, nano }];

  test("the estimate is reserved, and the cost counts from the time of admission", () => {
    const { take, reject, readStatus, clock } = setUp();
    const subject = key({ windows: dollars(5_000_000_000) });
    const lease = take([subject], 0, 4_000_000_000);
    expect(reject([subject], 0, 1_000_000_001)).toEqual({
      scope: "key",
      id: expect.any(String),
      kind: "window",
      max: 5_000_000_000,
      used: 4_000_000_000,
      freesInMs: 5 * HOUR_MS,
      perMs: 5 * HOUR_MS,
      unit: "nano",
      isReserved: true,
    });
    clock.atMs += HOUR_MS;
    lease.settle({ tokens: 700, nano: 123_456_789 });
    expect(readStatus(subject).windows[0]?.nano).toEqual({
      limit: 5_000_000_000,
      used: 123_456_789,
      remaining: 4_876_543_211,
      resetMs: 4 * HOUR_MS,
    });
    take([subject], 0, 4_876_543_211);
  });

  test("a cost above its estimate may exceed the limit, which then rejects until it frees", () => {
    const { take, reject, clock } = setUp();
    const subject = key({ windows: dollars(1_000) });
    take([subject], 0, 10).settle({ tokens: 0, nano: 9_000 });
    clock.atMs += HOUR_MS;
    expect(reject([subject], 0, 1)).toMatchObject({ used: 9_000, freesInMs: 4 * HOUR_MS });
    clock.atMs += 4 * HOUR_MS;
    take([subject], 0, 1);
  });

  test("an unknown amount keeps its estimate", () => {
    const { take, readStatus } = setUp();
    const subject = key({ tpm: 1_000, windows: dollars(1_000) });
    const lease = take([subject], 10, 20);
    lease.settle({ nano: 5 });
    expect(readStatus(subject)).toMatchObject({ tpm: { used: 10 }, windows: [{ nano: { used: 5 } }] });
    lease.settle({ tokens: 3 });
    expect(readStatus(subject)).toMatchObject({ tpm: { used: 3 }, windows: [{ nano: { used: 5 } }] });
  });

  test("a rejection takes no money, and a cancelled request releases its amount", () => {
    const { take, reject, readStatus } = setUp();
    const [mine, ours] = [key({ windows: dollars(1_000) }), group({ rpm: 2 })];
    take([mine, ours], 0, 100);
    take([mine, ours], 0, 200).cancel();
    take([ours]);
    reject([mine, ours], 0, 300);
    expect(readStatus(mine).windows[0]?.nano?.used).toBe(100);
  });

  test("millions of dollars are exact to the nano-USD", () => {
    const { take, readStatus, reject } = setUp();
    const subject = key({ windows: dollars(9_000_000_000_000_000) });
    const leases = Array.from({ length: 8 }, () => take([subject], 0, 1_124_999_999_999_999));
    expect(readStatus(subject).windows[0]?.nano?.remaining).toBe(8);
    expect(reject([subject], 0, 9).unit).toBe("nano");
    leases[0]?.settle({ tokens: 0, nano: 1 });
    expect(readStatus(subject).windows[0]?.nano?.used).toBe(7 * 1_124_999_999_999_999 + 1);
  });
});
