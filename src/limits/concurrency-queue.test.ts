import { describe, expect, test } from "bun:test";
import { type CallerLimits, NO_LIMITS } from "../records/limits.ts";
import { ConcurrencyQueue, type SlotResult } from "./concurrency-queue.ts";
import { openLimiter } from "./limiter.ts";
import type { LimitLease, Subject } from "./limiter-types.ts";
import { QueueOccupancy } from "./queue-occupancy.ts";

const slots = (concurrency: number | null): CallerLimits => ({ ...NO_LIMITS, concurrency });

interface Who {
  key: string;
  keySlots?: number;
  groupSlots?: number;
  user?: string;
  userSlots?: number;
  rpm?: number;
}

interface Wish extends Who {
  name: string;
  timeoutMs?: number;
  maxWaiting?: number;
  signal?: AbortSignal;
}

const NEVER = new AbortController().signal;

function subjects({ key, keySlots, groupSlots, user, userSlots, rpm }: Who): Subject[] {
  return [
    { scope: "key", id: key, limits: { ...slots(keySlots ?? null), rpm: rpm ?? null } },
    { scope: "group", id: "g", limits: slots(groupSlots ?? null) },
    ...(user === undefined ? [] : [{ scope: "user" as const, id: user, limits: slots(userSlots ?? null) }]),
  ];
}

function setUp() {
  const clock = { atMs: 0, monotonicMs: () => clock.atMs };
  const limiter = openLimiter(clock);
  const occupancy = new QueueOccupancy();
  const queue = new ConcurrencyQueue(limiter, occupancy, clock);
  const served: string[] = [];
  const leases = new Map<string, LimitLease>();
  let tries = 0;

  const admit = (wish: Wish) => {
    tries++;
    const admission = limiter.admit(subjects(wish), {});
    if (admission.ok) {
      served.push(wish.name);
      leases.set(wish.name, admission.lease);
    }
    return admission;
  };
  function ask(wish: Wish): Promise<SlotResult<LimitLease>> {
    const admission = admit(wish);
    if (admission.ok) return Promise.resolve({ kind: "taken", value: admission.lease });
    return queue.wait<LimitLease>({
      keyId: wish.key,
      groupId: "g",
      subjects: subjects(wish),
      maxWaiting: wish.maxWaiting ?? 1_000,
      timeoutMs: wish.timeoutMs ?? 60_000,
      attempt() {
        const again = admit(wish);
        if (again.ok) return { taken: again.lease };
        return again.shortage.kind === "concurrency" ? "blocked" : "rejected";
      },
      disconnectSignal: wish.signal ?? NEVER,
    });
  }
  return {
    clock,
    limiter,
    occupancy,
    queue,
    served,
    ask,
    tries: () => tries,
    end(name: string) {
      leases.get(name)?.release();
    },
    cancel(name: string) {
      leases.get(name)?.cancel();
    },
  };
}

describe("a released concurrency slot", () => {
  test("goes to the oldest request of its key, at once", async () => {
    const { ask, end, served, queue, occupancy } = setUp();
    for (const name of ["a1", "a2", "a3"]) void ask({ name, key: "a", keySlots: 1 });
    expect([served, queue.waiting("g"), occupancy.waiting("g")]).toEqual([["a1"], 2, 2]);
    end("a1");
    expect(served).toEqual(["a1", "a2"]);
    end("a2");
    end("a3");
    expect([served, queue.waiting("g"), occupancy.waiting("g")]).toEqual([["a1", "a2", "a3"], 0, 0]);
  });

  test("goes to the keys in turn", () => {
    const { ask, end, served } = setUp();
    for (let n = 1; n <= 20; n++) void ask({ name: `a${n}`, key: "a", groupSlots: 1 });
    for (let n = 1; n <= 3; n++) void ask({ name: `b${n}`, key: "b", groupSlots: 1 });
    for (let n = 0; n < 7; n++) end(served.at(-1) ?? "");
    expect(served).toEqual(["a1", "a2", "b1", "a3", "b2", "a4", "b3", "a5"]);
  });

  test("never goes to a new request while another waits for it", () => {
    const { ask, end, served } = setUp();
    for (const name of ["a1", "a2"]) void ask({ name, key: "a", groupSlots: 1 });
    end("a1");
    void ask({ name: "b1", key: "b", groupSlots: 1 });
    expect(served).toEqual(["a1", "a2"]);
  });

  test("of a cancelled request is released together with its windows", () => {
    const { ask, cancel, served } = setUp();
    for (const name of ["a1", "a2"]) void ask({ name, key: "a", keySlots: 1, rpm: 1 });
    expect(served).toEqual(["a1"]);
    // The minute window is released as well, and before the slot: otherwise the next request would exceed it.
    cancel("a1");
    expect(served).toEqual(["a1", "a2"]);
  });
});

describe("taking several slots", () => {
  test("a request that waits for its group occupies no slot of its key or user", () => {
    const { ask, end, served, limiter } = setUp();
    const ada = { user: "ada", userSlots: 2, keySlots: 2, groupSlots: 2 };
    for (const name of ["b1", "b2"]) void ask({ name, key: "b", groupSlots: 2 });
    for (const name of ["a1", "a2"]) void ask({ ...ada, name, key: "a" });
    for (const subject of subjects({ ...ada, key: "a" }).filter(({ scope }) => scope !== "group")) {
      expect(limiter.readStatus(subject).concurrency?.inUse ?? 0).toBe(0);
    }
    end("b1");
    end("b2");
    expect(served).toEqual(["b1", "b2", "a1", "a2"]);
  });

  test("a key that gets one slot and lacks another waits for the other", () => {
    const { ask, end, served } = setUp();
    void ask({ name: "a1", key: "a", keySlots: 1, groupSlots: 2 });
    void ask({ name: "b1", key: "b", groupSlots: 2 });
    void ask({ name: "a2", key: "a", keySlots: 1, groupSlots: 2 });
    void ask({ name: "b2", key: "b", groupSlots: 2 });
    void ask({ name: "b3", key: "b", groupSlots: 2 });
    end("b1");
    // The key's own slot is still in use, so another key gets the slot of the group.
    expect(served).toEqual(["a1", "b1", "b2"]);
    end("a1");
    expect(served).toContain("a2");
    for (const name of ["b2", "a2", "b3"]) end(name);
    expect(served.toSorted()).toEqual(["a1", "a2", "b1", "b2", "b3"]);
  });

  test("no subject ever exceeds its limit, and every request is served", () => {
    const { ask, end, served, limiter } = setUp();
    let state = 11;
    const random = (below: number) => {
      state = (state * 48_271) % 2_147_483_647;
      return state % below;
    };
    const who = (i: number): Who => ({
      key: `k${i % 7}`,
      keySlots: 1 + (i % 7 === 0 ? 0 : 2),
      groupSlots: 5,
      user: `u${(i % 7) % 3}`,
      userSlots: 3,
    });
    const total = 400;
    const ended = new Set<string>();
    let asked = 0;
    for (let step = 0; step < 10_000 && ended.size < total; step++) {
      if (asked < total && random(3) > 0) {
        void ask({ ...who(random(700)), name: `r${asked++}` });
      } else {
        const open = served.filter((name) => !ended.has(name));
        const name = open[random(Math.max(1, open.length))];
        if (name === undefined) continue;
        ended.add(name);
        end(name);
      }
      for (let i = 0; i < 7; i++) {
        for (const subject of subjects(who(i))) {
          const { concurrency } = limiter.readStatus(subject);
          if (concurrency !== null) expect(concurrency.inUse).toBeLessThanOrEqual(concurrency.limit);
        }
      }
    }
    expect(ended.size).toBe(total);
  });
});

describe("a wait ends", () => {
  test("at once when the queue is full", async () => {
    const { ask } = setUp();
    void ask({ name: "a1", key: "a", keySlots: 1 });
    void ask({ name: "a2", key: "a", keySlots: 1, maxWaiting: 1 });
    expect(await ask({ name: "a3", key: "a", keySlots: 1, maxWaiting: 1 })).toEqual({ kind: "full" });
  });

  test("at its timeout, and leaves the queue", async () => {
    const { ask, clock, occupancy, queue, end, served } = setUp();
    void ask({ name: "a1", key: "a", keySlots: 1 });
    const waiting = ask({ name: "a2", key: "a", keySlots: 1, timeoutMs: 5 });
    clock.atMs = 10;
    expect(await waiting).toEqual({ kind: "timeout" });
    expect([occupancy.waiting("g"), queue.waiting("g")]).toEqual([0, 0]);
    end("a1");
    expect(served).toEqual(["a1"]);
  });

  test("when its client disconnects, and the next request takes its turn", async () => {
    const { ask, end, served, occupancy } = setUp();
    const leaving = new AbortController();
    void ask({ name: "a1", key: "a", keySlots: 1 });
    const left = ask({ name: "a2", key: "a", keySlots: 1, signal: leaving.signal });
    void ask({ name: "a3", key: "a", keySlots: 1 });
    leaving.abort();
    expect(await left).toEqual({ kind: "left" });
    expect(occupancy.waiting("g")).toBe(1);
    end("a1");
    expect(served).toEqual(["a1", "a3"]);
  });

  test("when another limit is exceeded by then", async () => {
    const { ask, end } = setUp();
    void ask({ name: "a1", key: "a", keySlots: 1, rpm: 2 });
    const waiting = [2, 3].map((n) => ask({ name: `a${n}`, key: "a", keySlots: 1, rpm: 2 }));
    end("a1");
    end("a2");
    expect((await Promise.all(waiting)).map(({ kind }) => kind)).toEqual(["taken", "rejected"]);
  });
});

test("a release tries as many requests as it serves, independent of the queue length", () => {
  const { ask, end, served, tries } = setUp();
  // One key waits for its own slot, 500 others wait for the slot of the group.
  for (let n = 0; n < 300; n++) void ask({ name: `own${n}`, key: "own", keySlots: 1, groupSlots: 10 });
  for (let n = 0; n < 1_000; n++) void ask({ name: `k${n}`, key: `k${n % 500}`, groupSlots: 10 });
  const before = tries();
  for (let n = 0; n < 500; n++) end(served[n] ?? "");
  expect(served.length).toBe(510);
  // One for each slot that is assigned, and one that finds none left.
  expect(tries() - before).toBeLessThanOrEqual(3 * 500);
});

test("a raised limit takes effect without a release", async () => {
  const clock = { atMs: 0, monotonicMs: () => clock.atMs };
  const limiter = openLimiter(clock);
  const queue = new ConcurrencyQueue(limiter, new QueueOccupancy(), clock);
  let allowed = 1;
  const now = (): Subject[] => [{ scope: "key", id: "a", limits: slots(allowed) }];
  expect(limiter.admit(now(), {}).ok).toBe(true);
  const waiting = queue.wait<LimitLease>({
    keyId: "a",
    groupId: "g",
    subjects: now(),
    maxWaiting: 10,
    timeoutMs: 60_000,
    attempt() {
      const admission = limiter.admit(now(), {});
      return admission.ok ? { taken: admission.lease } : "blocked";
    },
    disconnectSignal: NEVER,
  });
  allowed = 2;
  expect((await waiting).kind).toBe("taken");
});
