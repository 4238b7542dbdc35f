import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { ApiError } from "../../errors.ts";
import {
  COMPLETED,
  CREATED,
  delta,
  eventsIn,
  FAILED,
  ITEM_DONE,
  KEEP_ALIVE,
  openTestRelay,
  settled,
  TIMING,
} from "./relay.test-support.ts";
import type { StreamEnd } from "./relay.ts";

const isCut = (reading: Promise<unknown>) =>
  reading.then(
    () => false,
    () => true,
  );

describe("a successful stream", () => {
  test("is relayed unchanged and settled once as complete", async () => {
    const it = openTestRelay();
    it.push(CREATED + delta("a"));
    it.push(delta("b") + COMPLETED);
    it.end();
    expect(await it.readAll()).toBe(`${CREATED}${delta("a")}${delta("b")}${COMPLETED}data: [DONE]\n\n`);
    expect(it.ends).toMatchObject([{ kind: "complete", reader: { outcome: "completed" } }]);
    expect(it.ends[0]?.reader?.usage).toMatchObject({ inputTokens: 3, outputTokens: 4 });
  });

  test("is settled before its terminal event is written", async () => {
    const written: string[] = [];
    const it = openTestRelay({
      settle() {
        written.push(...it.sent);
        return null;
      },
    });
    it.push(delta("a"));
    await it.read();
    it.push(COMPLETED);
    await it.readAll();
    expect(written).toEqual([delta("a")]);
  });

  test("sends its last deltas together with its terminal event", async () => {
    const it = openTestRelay();
    await it.opening;
    it.push(delta("a"));
    await it.read();
    it.push(`${delta("b")}${delta("c")}${COMPLETED}`);
    await it.readAll();
    expect(it.sent).toEqual([delta("a"), `${delta("b")}${delta("c")}${COMPLETED}data: [DONE]\n\n`]);
  });

  test("sends its last deltas while the terminal event waits for the settlement", async () => {
    const settling = Promise.withResolvers<void>();
    const it = openTestRelay({ settle: () => settling.promise });
    it.push(delta("a") + COMPLETED);
    await it.read();
    expect(it.sent).toEqual([delta("a")]);
    settling.resolve();
    await it.readAll();
    expect(it.sent).toEqual([delta("a"), `${COMPLETED}data: [DONE]\n\n`]);
  });

  test("pauses the upstream while the client does not read", async () => {
    const it = openTestRelay();
    await it.opening;
    it.push(delta("a"));
    await settled();
    expect(it.upstreamState.paused).toBe(true);
    await it.read();
    await settled();
    expect(it.upstreamState.paused).toBe(false);
  });

  test("is complete if the client closes right after the last byte", async () => {
    const it = openTestRelay();
    it.push(delta("a") + COMPLETED);
    while (!it.writes.join("").includes("[DONE]")) await it.read();
    await it.disconnect();
    expect(it.ends).toMatchObject([{ kind: "complete" }]);
  });

  test("leaves no timer behind", async () => {
    const it = openTestRelay();
    it.push(COMPLETED);
    await it.readAll();
    expect(it.beats.size).toBe(0);
  });
});

describe("a failed stream", () => {
  test("that could not be opened ends with the error as an event", async () => {
    const it = openTestRelay({ opening: Promise.reject(new ApiError("server_is_overloaded", "Full.")) });
    const { types, done } = eventsIn(await it.readAll());
    expect(types).toEqual(["response.created", "response.failed"]);
    expect(done).toBe(1);
    expect(it.writes.join("")).toContain('"code":"server_is_overloaded"');
    expect(it.ends).toMatchObject([
      { kind: "broken", reader: null, error: { code: "server_is_overloaded" } },
    ]);
  });

  type Fault = (it: ReturnType<typeof openTestRelay>) => void;
  const CUT = { class: "reset" };
  const FAULTS: [how: string, cut: typeof CUT | null, fault: Fault][] = [
    ["breaks", CUT, (it) => it.reset()],
    ["ends early", CUT, (it) => it.end()],
    ["reports a failure", null, (it) => it.push(FAILED)],
    ["sends a too large event", null, (it) => it.push(delta("x".repeat(20_000)))],
  ];

  test.each(FAULTS)(
    "after content, because it %s, ends with exactly one terminal event",
    async (_, interruption, fault) => {
      const it = openTestRelay();
      it.push(CREATED + delta("a"));
      await it.read();
      fault(it);
      const { types, done } = eventsIn(await it.readAll());
      expect(types).toEqual(["response.created", "response.output_text.delta", "response.failed"]);
      expect(done).toBe(1);
      expect(it.ends).toMatchObject([{ kind: "broken", error: { code: "upstream_error" }, interruption }]);
    },
  );

  test("delivers the events before the failure in the same chunk", async () => {
    const it = openTestRelay();
    it.push(delta("a") + FAILED);
    expect(eventsIn(await it.readAll()).types).toEqual(["response.output_text.delta", "response.failed"]);
  });
});

describe("keep-alives and idle timeouts", () => {
  test("comments are sent while no account is available yet", async () => {
    const it = openTestRelay({ opening: new Promise(() => {}) });
    const reading = it.read();
    await settled();
    it.pass(14_000);
    await settled();
    expect(it.writes).toEqual([]);
    it.pass(1_000);
    expect(await reading).toBe(KEEP_ALIVE);
  });

  test("the interval begins when the client began to wait", async () => {
    const it = openTestRelay({ opening: new Promise(() => {}), waitingSinceMs: -15_000 });
    const reading = it.read();
    await settled();
    it.pass(1_000);
    expect(await reading).toBe(KEEP_ALIVE);
  });

  test("a comment is sent at each interval", async () => {
    const it = openTestRelay();
    it.push(delta("a"));
    await it.read();
    const readings = [it.read(), it.read(), it.read()];
    await settled();
    it.pass(45_000);
    expect(await Promise.all(readings)).toEqual([KEEP_ALIVE, KEEP_ALIVE, KEEP_ALIVE]);
    expect(it.ends).toEqual([]);
  });

  test("no comment is sent between frequent events", async () => {
    const it = openTestRelay();
    for (let i = 0; i < 5; i++) {
      it.push(delta("a"));
      expect(await it.read()).toBe(delta("a"));
      it.pass(10_000);
    }
  });

  test("a data event is sent to clients that ignore comments", async () => {
    const it = openTestRelay({ needsDataEvents: true });
    it.push(CREATED);
    await it.read();
    const readings = Array.from({ length: 5 }, () => it.read());
    await settled();
    it.pass(75_000);
    const texts = await Promise.all(readings);
    expect(texts.map((text) => (text === KEEP_ALIVE ? "comment" : eventsIn(text ?? "").types[0]))).toEqual([
      "comment",
      "comment",
      "comment",
      "response.in_progress",
      "comment",
    ]);
  });

  test("an upstream without data events for too long ends the stream with an error", async () => {
    const it = openTestRelay();
    it.push(delta("a"));
    await it.read();
    const rest = it.readAll();
    await settled();
    await it.passReading(301_000);
    const { types } = eventsIn(await rest);
    expect(types).toEqual(["response.output_text.delta", "response.failed"]);
    expect(it.ends).toMatchObject([
      { kind: "broken", interruption: { class: "timeout" }, error: { message: "the stream timed out" } },
    ]);
    expect(it.upstreamState.cancelled).toBe(true);
  });

  test("comments of the upstream do not reset the idle timeout", async () => {
    const it = openTestRelay();
    it.push(delta("a"));
    await it.read();
    const rest = it.readAll();
    for (let seconds = 0; seconds <= 301; seconds += 10) {
      it.push(": ping\n\n");
      await settled();
      it.pass(10_000);
    }
    expect(eventsIn(await rest).types.at(-1)).toBe("response.failed");
  });

  test("a data event of the upstream resets the idle timeout", async () => {
    const it = openTestRelay();
    it.push(delta("a"));
    await it.read();
    const rest = it.readAll();
    for (let seconds = 0; seconds < 900; seconds += 200) {
      await settled();
      await it.passReading(200_000);
      it.push(delta("b"));
    }
    it.push(COMPLETED);
    await rest;
    expect(it.ends).toMatchObject([{ kind: "complete" }]);
  });
});

describe("a client that disconnects", () => {
  test("aborts the upstream call in a group that cancels", async () => {
    const it = openTestRelay();
    it.push(delta("a"));
    await it.read();
    await it.disconnect();
    expect(it.upstreamState.cancelled).toBe(true);
    expect(it.ends).toMatchObject([{ kind: "client_gone" }]);
  });

  test("aborts the upstream call while the relay waits for the upstream", async () => {
    const it = openTestRelay();
    it.push(delta("a"));
    await it.read();
    void it.read();
    await settled();
    await it.disconnect();
    await settled();
    expect(it.upstreamState.cancelled).toBe(true);
    expect(it.ends).toMatchObject([{ kind: "client_gone" }]);
    expect(it.beats.size).toBe(0);
  });

  test("before an account is available aborts the later upstream call", async () => {
    const it = openTestRelay();
    await it.disconnect();
    expect(it.ends).toMatchObject([{ kind: "client_gone", reader: null }]);
    it.push(delta("a"));
    await it.opening;
    await settled();
    expect(it.upstreamState.cancelled).toBe(true);
  });

  test("before an account is available is settled once if none becomes available", async () => {
    const it = openTestRelay();
    await it.disconnect();
    it.reset();
    await settled();
    expect(it.ends).toHaveLength(1);
  });

  test("is drained in a group that drains, so that the usage is known", async () => {
    const it = openTestRelay({ onDisconnect: "drain" });
    it.push(delta("a"));
    await it.read();
    await it.disconnect();
    expect(it.ends).toEqual([]);
    it.push(delta("b"));
    await settled();
    it.push(COMPLETED);
    await settled();
    expect(it.ends).toMatchObject([{ kind: "client_gone", reader: { outcome: "completed" }, isWhole: true }]);
    expect(it.ends[0]?.reader?.usage).toMatchObject({ inputTokens: 3, outputTokens: 4 });
  });

  test("is drained for a limited time", async () => {
    const gone = Promise.withResolvers<StreamEnd>();
    const it = openTestRelay({
      onDisconnect: "drain",
      timing: { ...TIMING, drainOnDisconnectMs: 1 },
      settle(end) {
        gone.resolve(end);
        return null;
      },
    });
    it.push(delta("a"));
    await it.read();
    await it.disconnect();
    const left = { kind: "client_gone", reader: { usage: null }, isWhole: false };
    expect(await gone.promise).toMatchObject(left);
    expect(it.upstreamState.cancelled).toBe(true);
  });

  test("is cut when it stops reading", async () => {
    const it = openTestRelay();
    it.push(delta("a"));
    await it.read();
    it.push(delta("b"));
    await settled();
    it.pass(60_000);
    expect(it.ends).toEqual([]);
    it.pass(1_000);
    expect(it.ends).toMatchObject([{ kind: "client_gone" }]);
    expect(it.upstreamState.cancelled).toBe(true);
    expect(await isCut(it.read())).toBe(true);
  });

  test("is cut when it never begins to read", async () => {
    const it = openTestRelay();
    it.push(delta("a"));
    await it.opening;
    it.pass(61_000);
    expect(it.ends).toMatchObject([{ kind: "client_gone" }]);
    await settled();
    expect(it.upstreamState.cancelled).toBe(true);
    expect(await isCut(it.read())).toBe(true);
  });
});

test("any order of events settles the stream once and sends one terminal event", async () => {
  const step = fc.constantFrom(
    "created",
    "delta",
    "done",
    "ping",
    "half",
    "bad",
    "completed",
    "failed",
    "end",
    "reset",
    "read",
    "read",
    "read",
    "leave",
    "minute",
    "wait",
  );
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 14 }),
      fc.constantFrom("cancel" as const, "drain" as const),
      fc.boolean(),
      fc.boolean(),
      async (steps, onDisconnect, needsDataEvents, isPaid) => {
        const it = openTestRelay({ onDisconnect, needsDataEvents, isPaid });
        const reads: Promise<string | null>[] = [];
        let left = false;
        for (const next of [...steps, "end"]) {
          if (next === "created") it.push(CREATED);
          else if (next === "delta") it.push(delta("a"));
          else if (next === "done") it.push(ITEM_DONE);
          else if (next === "ping") it.push(": ping\n\n");
          else if (next === "half") it.push(": pi");
          else if (next === "bad") it.push("data: nope\n\n");
          else if (next === "completed") it.push(COMPLETED);
          else if (next === "failed") it.push(FAILED);
          else if (next === "end") it.end();
          else if (next === "reset") it.reset();
          else if (next === "read") reads.push(it.read().catch(() => null));
          else if (next === "minute") it.pass(61_000);
          else if (next === "wait") await settled();
          else {
            left = true;
            void it.disconnect().catch(() => {});
          }
        }
        await settled();
        await Promise.all(reads);
        const text = left ? null : await it.readAll().catch(() => null);
        await settled();
        expect(it.ends).toHaveLength(1);
        expect(it.beats.size).toBe(0);
        for (const written of it.writes) expect(written.endsWith("\n\n")).toBe(true);
        if (text === null) return;
        const { types, done } = eventsIn(text);
        expect(types.filter((type) => /^response\.(?:completed|failed)$/.test(type))).toHaveLength(1);
        expect(types.at(-1)).toMatch(/^response\.(?:completed|failed)$/);
        expect(done).toBe(1);
      },
    ),
    { numRuns: 400 },
  );
});
