import { describe, expect, test } from "bun:test";
import { ApiError } from "../../errors.ts";
import {
  COMPLETED,
  CREATED,
  delta,
  eventsIn,
  ITEM_ADDED,
  ITEM_DONE,
  settled,
  stage,
  TIMING,
} from "./relay.test-support.ts";

const noMoney = () => new ApiError("insufficient_quota", "It is used up.");

describe("the end of a stream that is paid for", () => {
  test.each([
    ["that came to its end", (it: ReturnType<typeof stage>) => it.push(COMPLETED), "response.completed"],
    ["that broke off", (it: ReturnType<typeof stage>) => it.reset(), "response.failed"],
  ])("%s is not said before it is settled", async (_, last, terminal) => {
    const booking = Promise.withResolvers<void>();
    const it = stage({ settle: () => booking.promise });
    it.push(CREATED + delta("a"));
    await it.read();
    last(it);
    await settled();
    expect(it.sent.join("")).toBe(CREATED + delta("a"));
    booking.resolve();
    const { types, done } = eventsIn(await it.readAll());
    expect([types.at(-1), done]).toEqual([terminal, 1]);
  });

  test("is said even if it could not be settled", async () => {
    const it = stage({ settle: () => Promise.reject(new Error("the store is away")) });
    it.push(delta("a") + COMPLETED);
    expect(eventsIn(await it.readAll())).toEqual({
      types: ["response.output_text.delta", "response.completed"],
      done: 1,
    });
  });

  test("is settled once, though the client leaves meanwhile", async () => {
    const booking = Promise.withResolvers<void>();
    let settlements = 0;
    const it = stage({
      settle() {
        settlements++;
        return booking.promise;
      },
    });
    it.push(delta("a") + COMPLETED);
    await it.read();
    await it.leave();
    booking.resolve();
    await settled();
    expect([settlements, it.beats.size]).toEqual([1, 0]);
  });
});

describe("a checkpoint", () => {
  test("is passed once a beat from the moment the stream is open", async () => {
    let passed = 0;
    const checkpoint = () => {
      passed++;
      return null;
    };
    const it = stage({ checkpoint });
    it.pass(2_000);
    expect(passed).toBe(0);
    it.push(delta("a"));
    await it.read();
    it.pass(3_000);
    expect(passed).toBe(3);
  });

  test("that says nobody pays for more ends the upstream's work and the stream, with one terminal event", async () => {
    let error: ApiError | null = null;
    const it = stage({ checkpoint: () => error });
    it.push(CREATED + delta("a"));
    await it.read();
    error = noMoney();
    it.pass(3_000);
    const { types, done } = eventsIn(await it.readAll());
    expect(types).toEqual(["response.created", "response.output_text.delta", "response.failed"]);
    expect(done).toBe(1);
    expect(it.writes.join("")).toContain('"code":"insufficient_quota"');
    expect(it.upstreamState.cancelled).toBe(true);
    // The account is not at fault.
    expect(it.ends).toMatchObject([{ kind: "broken", cut: null, error: { code: "insufficient_quota" } }]);
  });

  test("counts for a client that does not read, too", async () => {
    const it = stage({ checkpoint: noMoney });
    it.push(delta("a"));
    await it.opening;
    await settled();
    it.pass(1_000);
    expect(it.ends).toMatchObject([{ kind: "broken", error: { code: "insufficient_quota" } }]);
    expect(it.upstreamState.cancelled).toBe(true);
  });

  test("counts after the client has left, while its upstream is read on", async () => {
    let error: ApiError | null = null;
    const it = stage({ onDisconnect: "drain", checkpoint: () => error });
    it.push(delta("a"));
    await it.read();
    await it.leave();
    error = noMoney();
    it.pass(1_000);
    expect(it.ends).toMatchObject([{ kind: "client_gone" }]);
    expect(it.upstreamState.cancelled).toBe(true);
  });
});

/** A limit of this many drains. */
function room(max: number) {
  const state = { count: 0 };
  return {
    state,
    mayDrain: () => state.count < max && ++state.count > 0,
    leftDrain: () => void state.count--,
  };
}

describe("a client that leaves when its stream has all but ended", () => {
  async function leftAt(events: string, change: Parameters<typeof stage>[0] = {}) {
    const { state, ...drains } = room(1);
    const it = stage({ isPaid: true, ...drains, ...change });
    it.push(CREATED + delta("a") + events);
    await it.read();
    await it.leave();
    return { it, state };
  }

  test("pays for what its upstream says it used, though the group cancels", async () => {
    const { it, state } = await leftAt(ITEM_DONE);
    expect([it.ends, state.count]).toEqual([[], 1]);
    it.push(COMPLETED);
    expect(it.ends).toMatchObject([{ kind: "client_gone", reader: { usage: { outputTokens: 4 } } }]);
    expect(state.count).toBe(0);
  });

  test("is not waited for long", async () => {
    const { it, state } = await leftAt(ITEM_DONE, { timing: { ...TIMING, lastWordsMs: 1 } });
    while (it.ends.length === 0) await Bun.sleep(1);
    expect(it.ends).toMatchObject([{ kind: "client_gone", reader: { usage: null } }]);
    expect([it.upstreamState.cancelled, state.count]).toEqual([true, 0]);
  });

  test("ends its upstream's work as soon as that begins something else", async () => {
    const { it, state } = await leftAt(ITEM_DONE);
    it.push(ITEM_ADDED);
    expect(it.ends).toMatchObject([{ kind: "client_gone" }]);
    expect([it.upstreamState.cancelled, state.count]).toEqual([true, 0]);
  });

  test.each([
    ["in the middle", "", {}],
    ["where nobody pays", ITEM_DONE, { isPaid: false }],
    ["where there is no room", ITEM_DONE, { mayDrain: () => false }],
  ])("ends its upstream's work at once %s", async (_, events, change) => {
    const { it, state } = await leftAt(events, change);
    expect(it.ends).toMatchObject([{ kind: "client_gone" }]);
    expect([it.upstreamState.cancelled, state.count]).toEqual([true, 0]);
  });
});

describe("a drain whose client left before there was anything", () => {
  async function leftEarly(max = 1, change: Parameters<typeof stage>[0] = {}) {
    const { state, ...drains } = room(max);
    const it = stage({ onDisconnect: "drain", ...drains, ...change });
    await it.leave();
    return { it, state };
  }

  test("takes no room until the stream is open, and reads it to its end", async () => {
    const { it, state } = await leftEarly();
    expect([it.ends, state.count]).toEqual([[], 0]);
    it.push(delta("a"));
    await it.opening;
    await settled();
    expect([it.ends, state.count]).toEqual([[], 1]);
    it.push(COMPLETED);
    expect(it.ends).toMatchObject([{ kind: "client_gone", reader: { usage: { outputTokens: 4 } } }]);
    expect([state.count, it.beats.size]).toEqual([0, 0]);
  });

  test("ends with the last try to open it", async () => {
    const { it, state } = await leftEarly();
    it.reset();
    await settled();
    expect(it.ends).toMatchObject([{ kind: "client_gone", reader: null }]);
    expect([state.count, it.beats.size]).toEqual([0, 0]);
  });

  test("is cut when it opens where there is no room", async () => {
    const { it, state } = await leftEarly(0);
    it.push(delta("a"));
    await settled();
    expect(it.ends).toMatchObject([{ kind: "client_gone", reader: { usage: null } }]);
    expect([it.upstreamState.cancelled, state.count]).toEqual([true, 0]);
  });

  test("lasts as long as any other, from when its client left", async () => {
    const { it } = await leftEarly();
    it.pass(TIMING.drainOnDisconnectMs);
    it.push(delta("a"));
    while (it.ends.length === 0) await Bun.sleep(1);
    expect(it.upstreamState.cancelled).toBe(true);
  });
});

describe("the end of the process", () => {
  test.each([
    ["whose client reads", "cancel", false],
    ["that drains", "drain", true],
  ] as const)("settles a stream %s, and ends its upstream's work", async (_, onDisconnect, leaves) => {
    const { state, ...drains } = room(1);
    const it = stage({ onDisconnect, ...drains });
    it.push(delta("a"));
    await it.read();
    if (leaves) await it.leave();
    it.cut();
    const leftBy = leaves ? "client" : "shutdown";
    expect(it.ends).toMatchObject([{ kind: "client_gone", reader: { usage: null }, leftBy }]);
    expect([it.upstreamState.cancelled, state.count, it.beats.size]).toEqual([true, 0, 0]);
  });

  test("does not wait for a stream that is still being opened, and ends its upstream's work", async () => {
    const it = stage({ onDisconnect: "drain" });
    it.cut();
    expect(it.ends).toMatchObject([{ kind: "client_gone", reader: null }]);
    it.push(delta("a"));
    await it.opening;
    await settled();
    expect(it.upstreamState.cancelled).toBe(true);
    expect(it.ends).toHaveLength(1);
  });
});

describe("a drain", () => {
  test("is not begun where there is no room: the upstream's work ends with its client", async () => {
    const { state, ...drains } = room(0);
    const it = stage({ onDisconnect: "drain", ...drains });
    it.push(delta("a"));
    await it.read();
    await it.leave();
    expect(it.upstreamState.cancelled).toBe(true);
    expect(it.ends).toMatchObject([{ kind: "client_gone" }]);
    expect(state.count).toBe(0);
  });

  test("is cut when its upstream falls silent, as a stream that is read would be", async () => {
    const { state, ...drains } = room(1);
    const it = stage({ onDisconnect: "drain", ...drains });
    it.push(delta("a"));
    await it.read();
    await it.leave();
    it.pass(TIMING.idleTimeoutMs);
    expect(it.ends).toEqual([]);
    it.pass(2_000);
    expect(it.ends).toMatchObject([{ kind: "client_gone", isWhole: false, leftBy: "client" }]);
    expect([it.upstreamState.cancelled, state.count]).toEqual([true, 0]);
  });

  test.each([
    ["comes to its end", (it: ReturnType<typeof stage>) => it.push(COMPLETED)],
    ["breaks off", (it: ReturnType<typeof stage>) => it.reset()],
  ])("takes room until the upstream %s", async (_, last) => {
    const { state, ...drains } = room(1);
    const it = stage({ onDisconnect: "drain", ...drains });
    it.push(delta("a"));
    await it.read();
    await it.leave();
    expect([state.count, it.ends]).toEqual([1, []]);
    last(it);
    expect([state.count, it.ends.length]).toEqual([0, 1]);
  });

  test("takes room no longer than it may last", async () => {
    const { state, ...drains } = room(1);
    const it = stage({ onDisconnect: "drain", timing: { ...TIMING, drainOnDisconnectMs: 1 }, ...drains });
    it.push(delta("a"));
    await it.read();
    await it.leave();
    while (it.ends.length === 0) await Bun.sleep(1);
    expect(state.count).toBe(0);
  });

  test("takes no room for a stream that is over, or where the group cancels", async () => {
    const { state, ...drains } = room(1);
    const over = stage({ onDisconnect: "drain", ...drains });
    over.push(delta("a") + COMPLETED);
    await over.readAll();
    await over.leave();
    const cancelled = stage({ onDisconnect: "cancel", ...drains });
    cancelled.push(delta("a"));
    await cancelled.read();
    await cancelled.leave();
    expect(state.count).toBe(0);
  });
});
