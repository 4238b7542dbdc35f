import { describe, expect, test } from "bun:test";
import { eventually } from "../../../test/support/eventually.ts";
import { ApiError } from "../../errors.ts";
import {
  COMPLETED,
  CREATED,
  delta,
  eventsIn,
  ITEM_ADDED,
  ITEM_DONE,
  openTestRelay,
  settled,
  TIMING,
} from "./relay.test-support.ts";

const noMoney = () => new ApiError("insufficient_quota", "It is used up.");

describe("the terminal event of a paid stream", () => {
  test.each([
    [
      "that came to its end",
      (it: ReturnType<typeof openTestRelay>) => it.push(COMPLETED),
      "response.completed",
    ],
    ["that broke", (it: ReturnType<typeof openTestRelay>) => it.reset(), "response.failed"],
  ])("%s is sent only after the settlement", async (_, last, terminal) => {
    const booking = Promise.withResolvers<void>();
    const it = openTestRelay({ settle: () => booking.promise });
    it.push(CREATED + delta("a"));
    await it.read();
    last(it);
    await settled();
    expect(it.sent.join("")).toBe(CREATED + delta("a"));
    booking.resolve();
    const { types, done } = eventsIn(await it.readAll());
    expect([types.at(-1), done]).toEqual([terminal, 1]);
  });

  test("is sent even if the settlement failed", async () => {
    const it = openTestRelay({ settle: () => Promise.reject(new Error("the store is away")) });
    it.push(delta("a") + COMPLETED);
    expect(eventsIn(await it.readAll())).toEqual({
      types: ["response.output_text.delta", "response.completed"],
      done: 1,
    });
  });

  test("is settled once, even if the client disconnects meanwhile", async () => {
    const booking = Promise.withResolvers<void>();
    let settlements = 0;
    const it = openTestRelay({
      settle() {
        settlements++;
        return booking.promise;
      },
    });
    it.push(delta("a") + COMPLETED);
    await it.read();
    await it.disconnect();
    booking.resolve();
    await settled();
    expect([settlements, it.beats.size]).toEqual([1, 0]);
  });
});

describe("a checkpoint", () => {
  test("is recorded once per interval, from the opening of the stream", async () => {
    let passed = 0;
    const checkpoint = () => {
      passed++;
      return null;
    };
    const it = openTestRelay({ checkpoint });
    it.pass(2_000);
    expect(passed).toBe(0);
    it.push(delta("a"));
    await it.read();
    it.pass(3_000);
    expect(passed).toBe(3);
  });

  test("that exhausts the paid output ends the upstream's work and the stream, with one terminal event", async () => {
    let error: ApiError | null = null;
    const it = openTestRelay({ checkpoint: () => error });
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
    expect(it.ends).toMatchObject([
      { kind: "broken", interruption: null, error: { code: "insufficient_quota" } },
    ]);
  });

  test("applies to a client that does not read, too", async () => {
    const it = openTestRelay({ checkpoint: noMoney });
    it.push(delta("a"));
    await it.opening;
    await settled();
    it.pass(1_000);
    expect(it.ends).toMatchObject([{ kind: "broken", error: { code: "insufficient_quota" } }]);
    expect(it.upstreamState.cancelled).toBe(true);
  });

  test("applies during a drain", async () => {
    let error: ApiError | null = null;
    const it = openTestRelay({ onDisconnect: "drain", checkpoint: () => error });
    it.push(delta("a"));
    await it.read();
    await it.disconnect();
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
    tryStartDrain: () => state.count < max && ++state.count > 0,
    endDrain: () => void state.count--,
  };
}

describe("a client that disconnects just before the terminal event", () => {
  async function leftAt(events: string, change: Parameters<typeof openTestRelay>[0] = {}) {
    const { state, ...drains } = room(1);
    const it = openTestRelay({ isPaid: true, ...drains, ...change });
    it.push(CREATED + delta("a") + events);
    await it.read();
    await it.disconnect();
    return { it, state };
  }

  test("is charged the usage that the upstream reports, even in a group that cancels", async () => {
    const { it, state } = await leftAt(ITEM_DONE);
    expect([it.ends, state.count]).toEqual([[], 1]);
    it.push(COMPLETED);
    expect(it.ends).toMatchObject([{ kind: "client_gone", reader: { usage: { outputTokens: 4 } } }]);
    expect(state.count).toBe(0);
  });

  test("is drained only for a short time", async () => {
    const { it, state } = await leftAt(ITEM_DONE, { timing: { ...TIMING, endingDrainMs: 1 } });
    await eventually(() => it.ends.length > 0);
    expect(it.ends).toMatchObject([{ kind: "client_gone", reader: { usage: null } }]);
    expect([it.upstreamState.cancelled, state.count]).toEqual([true, 0]);
  });

  test("aborts the upstream call as soon as another output item begins", async () => {
    const { it, state } = await leftAt(ITEM_DONE);
    it.push(ITEM_ADDED);
    expect(it.ends).toMatchObject([{ kind: "client_gone" }]);
    expect([it.upstreamState.cancelled, state.count]).toEqual([true, 0]);
  });

  test.each([
    ["in the middle of the output", "", {}],
    ["of an unpaid request", ITEM_DONE, { isPaid: false }],
    ["above the drain limit", ITEM_DONE, { tryStartDrain: () => false }],
  ])("aborts the upstream call at once %s", async (_, events, change) => {
    const { it, state } = await leftAt(events, change);
    expect(it.ends).toMatchObject([{ kind: "client_gone" }]);
    expect([it.upstreamState.cancelled, state.count]).toEqual([true, 0]);
  });
});

describe("a drain after a disconnect before the first event", () => {
  async function leftEarly(max = 1, change: Parameters<typeof openTestRelay>[0] = {}) {
    const { state, ...drains } = room(max);
    const it = openTestRelay({ onDisconnect: "drain", ...drains, ...change });
    await it.disconnect();
    return { it, state };
  }

  test("starts when the stream opens, and reads the stream to its end", async () => {
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

  test("ends if the stream cannot be opened", async () => {
    const { it, state } = await leftEarly();
    it.reset();
    await settled();
    expect(it.ends).toMatchObject([{ kind: "client_gone", reader: null }]);
    expect([state.count, it.beats.size]).toEqual([0, 0]);
  });

  test("aborts the stream when it opens if the drain limit is reached", async () => {
    const { it, state } = await leftEarly(0);
    it.push(delta("a"));
    await settled();
    expect(it.ends).toMatchObject([{ kind: "client_gone", reader: { usage: null } }]);
    expect([it.upstreamState.cancelled, state.count]).toEqual([true, 0]);
  });

  test("has the usual duration, measured from the disconnect", async () => {
    const { it } = await leftEarly();
    it.pass(TIMING.drainOnDisconnectMs);
    it.push(delta("a"));
    await eventually(() => it.ends.length > 0);
    expect(it.upstreamState.cancelled).toBe(true);
  });
});

describe("shutdown", () => {
  test.each([
    ["whose client reads", "cancel", false],
    ["that drains", "drain", true],
  ] as const)("settles a stream %s, and aborts the upstream call", async (_, onDisconnect, leaves) => {
    const { state, ...drains } = room(1);
    const it = openTestRelay({ onDisconnect, ...drains });
    it.push(delta("a"));
    await it.read();
    if (leaves) await it.disconnect();
    it.cut();
    const abortedBy = leaves ? "client" : "shutdown";
    expect(it.ends).toMatchObject([{ kind: "client_gone", reader: { usage: null }, abortedBy }]);
    expect([it.upstreamState.cancelled, state.count, it.beats.size]).toEqual([true, 0, 0]);
  });

  test("does not wait for a stream that is still opening, and aborts the upstream call", async () => {
    const it = openTestRelay({ onDisconnect: "drain" });
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
  test("is not started above the drain limit: the upstream call is aborted", async () => {
    const { state, ...drains } = room(0);
    const it = openTestRelay({ onDisconnect: "drain", ...drains });
    it.push(delta("a"));
    await it.read();
    await it.disconnect();
    expect(it.upstreamState.cancelled).toBe(true);
    expect(it.ends).toMatchObject([{ kind: "client_gone" }]);
    expect(state.count).toBe(0);
  });

  test("is aborted at the idle timeout of the upstream", async () => {
    const { state, ...drains } = room(1);
    const it = openTestRelay({ onDisconnect: "drain", ...drains });
    it.push(delta("a"));
    await it.read();
    await it.disconnect();
    it.pass(TIMING.idleTimeoutMs);
    expect(it.ends).toEqual([]);
    it.pass(2_000);
    expect(it.ends).toMatchObject([{ kind: "client_gone", isWhole: false, abortedBy: "client" }]);
    expect([it.upstreamState.cancelled, state.count]).toEqual([true, 0]);
  });

  test.each([
    ["completes", (it: ReturnType<typeof openTestRelay>) => it.push(COMPLETED)],
    ["breaks", (it: ReturnType<typeof openTestRelay>) => it.reset()],
  ])("occupies the drain limit until the upstream %s", async (_, last) => {
    const { state, ...drains } = room(1);
    const it = openTestRelay({ onDisconnect: "drain", ...drains });
    it.push(delta("a"));
    await it.read();
    await it.disconnect();
    expect([state.count, it.ends]).toEqual([1, []]);
    last(it);
    expect([state.count, it.ends.length]).toEqual([0, 1]);
  });

  test("is aborted after its maximum duration", async () => {
    const { state, ...drains } = room(1);
    const it = openTestRelay({
      onDisconnect: "drain",
      timing: { ...TIMING, drainOnDisconnectMs: 1 },
      ...drains,
    });
    it.push(delta("a"));
    await it.read();
    await it.disconnect();
    await eventually(() => it.ends.length > 0);
    expect(state.count).toBe(0);
  });

  test("is not started for a finished stream, nor in a group that cancels", async () => {
    const { state, ...drains } = room(1);
    const over = openTestRelay({ onDisconnect: "drain", ...drains });
    over.push(delta("a") + COMPLETED);
    await over.readAll();
    await over.disconnect();
    const cancelled = openTestRelay({ onDisconnect: "cancel", ...drains });
    cancelled.push(delta("a"));
    await cancelled.read();
    await cancelled.disconnect();
    expect(state.count).toBe(0);
  });
});
