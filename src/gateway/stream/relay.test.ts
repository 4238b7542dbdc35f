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
  settled,
  stage,
  TIMING,
} from "./relay.test-support.ts";
import type { StreamEnd } from "./relay.ts";

const isCut = (reading: Promise<unknown>) =>
  reading.then(
    () => false,
    () => true,
  );

describe("a stream that goes well", () => {
  test("reaches the client as it came, and is settled once as complete", async () => {
    const it = stage();
    it.push(CREATED + delta("a"));
    it.push(delta("b") + COMPLETED);
    it.end();
    expect(await it.readAll()).toBe(`${CREATED}${delta("a")}${delta("b")}${COMPLETED}data: [DONE]\n\n`);
    expect(it.ends).toMatchObject([{ kind: "complete", reader: { outcome: "completed" } }]);
    expect(it.ends[0]?.reader?.usage).toMatchObject({ inputTokens: 3, outputTokens: 4 });
  });

  test("is settled before its terminal event is written", async () => {
    const written: string[] = [];
    const it = stage({
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

  test("says its last words together with its terminal event", async () => {
    const it = stage();
    await it.opening;
    it.push(delta("a"));
    await it.read();
    it.push(`${delta("b")}${delta("c")}${COMPLETED}`);
    await it.readAll();
    expect(it.sent).toEqual([delta("a"), `${delta("b")}${delta("c")}${COMPLETED}data: [DONE]\n\n`]);
  });

  test("says its last words while the terminal event waits for the settlement", async () => {
    const settling = Promise.withResolvers<void>();
    const it = stage({ settle: () => settling.promise });
    it.push(delta("a") + COMPLETED);
    await it.read();
    expect(it.sent).toEqual([delta("a")]);
    settling.resolve();
    await it.readAll();
    expect(it.sent).toEqual([delta("a"), `${COMPLETED}data: [DONE]\n\n`]);
  });

  test("is held up while the client does not keep up", async () => {
    const it = stage();
    await it.opening;
    it.push(delta("a"));
    await settled();
    expect(it.upstreamState.paused).toBe(true);
    await it.read();
    await settled();
    expect(it.upstreamState.paused).toBe(false);
  });

  test("is no disconnect when the client closes right after the last byte", async () => {
    const it = stage();
    it.push(delta("a") + COMPLETED);
    while (!it.writes.join("").includes("[DONE]")) await it.read();
    await it.leave();
    expect(it.ends).toMatchObject([{ kind: "complete" }]);
  });

  test("leaves nothing behind on the pulse", async () => {
    const it = stage();
    it.push(COMPLETED);
    await it.readAll();
    expect(it.beats.size).toBe(0);
  });
});

describe("a stream that fails", () => {
  test("before anything was said ends with the error it could not be refused with", async () => {
    const it = stage({ opening: Promise.reject(new ApiError("server_is_overloaded", "Full.")) });
    const { types, done } = eventsIn(await it.readAll());
    expect(types).toEqual(["response.created", "response.failed"]);
    expect(done).toBe(1);
    expect(it.writes.join("")).toContain('"code":"server_is_overloaded"');
    expect(it.ends).toMatchObject([
      { kind: "broken", reader: null, error: { code: "server_is_overloaded" } },
    ]);
  });

  type Fault = (it: ReturnType<typeof stage>) => void;
  const CUT = { class: "reset" };
  const FAULTS: [how: string, cut: typeof CUT | null, fault: Fault][] = [
    ["breaks", CUT, (it) => it.reset()],
    ["ends early", CUT, (it) => it.end()],
    ["says so itself", null, (it) => it.push(FAILED)],
    ["sends an event that is too large", null, (it) => it.push(delta("x".repeat(20_000)))],
  ];

  test.each(FAULTS)(
    "after content, because it %s, ends with exactly one terminal event",
    async (_, cut, fault) => {
      const it = stage();
      it.push(CREATED + delta("a"));
      await it.read();
      fault(it);
      const { types, done } = eventsIn(await it.readAll());
      expect(types).toEqual(["response.created", "response.output_text.delta", "response.failed"]);
      expect(done).toBe(1);
      expect(it.ends).toMatchObject([{ kind: "broken", error: { code: "upstream_error" }, cut }]);
    },
  );

  test("keeps what was said before the failure in the same chunk", async () => {
    const it = stage();
    it.push(delta("a") + FAILED);
    expect(eventsIn(await it.readAll()).types).toEqual(["response.output_text.delta", "response.failed"]);
  });
});

describe("silence", () => {
  test("is bridged by comments while no account has been found yet", async () => {
    const it = stage({ opening: new Promise(() => {}) });
    const reading = it.read();
    await settled();
    it.pass(14_000);
    await settled();
    expect(it.writes).toEqual([]);
    it.pass(1_000);
    expect(await reading).toBe(KEEP_ALIVE);
  });

  test("counts from when the client began to wait", async () => {
    const it = stage({ opening: new Promise(() => {}), waitingSinceMs: -15_000 });
    const reading = it.read();
    await settled();
    it.pass(1_000);
    expect(await reading).toBe(KEEP_ALIVE);
  });

  test("is bridged by a comment each time it has lasted long enough", async () => {
    const it = stage();
    it.push(delta("a"));
    await it.read();
    const readings = [it.read(), it.read(), it.read()];
    await settled();
    it.pass(45_000);
    expect(await Promise.all(readings)).toEqual([KEEP_ALIVE, KEEP_ALIVE, KEEP_ALIVE]);
    expect(it.ends).toEqual([]);
  });

  test("is not bridged between events that come often enough", async () => {
    const it = stage();
    for (let i = 0; i < 5; i++) {
      it.push(delta("a"));
      expect(await it.read()).toBe(delta("a"));
      it.pass(10_000);
    }
  });

  test("is bridged by a data event for a client that counts only those", async () => {
    const it = stage({ needsDataEvents: true });
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

  test("of the upstream for too long ends the stream with an error", async () => {
    const it = stage();
    it.push(delta("a"));
    await it.read();
    const rest = it.readAll();
    await settled();
    await it.passReading(301_000);
    const { types } = eventsIn(await rest);
    expect(types).toEqual(["response.output_text.delta", "response.failed"]);
    expect(it.ends).toMatchObject([
      { kind: "broken", cut: { class: "timeout" }, error: { message: "the stream went silent" } },
    ]);
    expect(it.upstreamState.cancelled).toBe(true);
  });

  test("is silence even if the upstream sends comments", async () => {
    const it = stage();
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

  test("is broken by any data event", async () => {
    const it = stage();
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

describe("a client that leaves", () => {
  test("ends the upstream's work where the group cancels", async () => {
    const it = stage();
    it.push(delta("a"));
    await it.read();
    await it.leave();
    expect(it.upstreamState.cancelled).toBe(true);
    expect(it.ends).toMatchObject([{ kind: "client_gone" }]);
  });

  test("while the upstream is being waited for, ends its work as well", async () => {
    const it = stage();
    it.push(delta("a"));
    await it.read();
    void it.read();
    await settled();
    await it.leave();
    await settled();
    expect(it.upstreamState.cancelled).toBe(true);
    expect(it.ends).toMatchObject([{ kind: "client_gone" }]);
    expect(it.beats.size).toBe(0);
  });

  test("before an account was found, ends the work of the one that is found later", async () => {
    const it = stage();
    await it.leave();
    expect(it.ends).toMatchObject([{ kind: "client_gone", reader: null }]);
    it.push(delta("a"));
    await it.opening;
    await settled();
    expect(it.upstreamState.cancelled).toBe(true);
  });

  test("before an account was found, does not mind if none is", async () => {
    const it = stage();
    await it.leave();
    it.reset();
    await settled();
    expect(it.ends).toHaveLength(1);
  });

  test("is outlasted by the upstream where the group drains, so that its usage is known", async () => {
    const it = stage({ onDisconnect: "drain" });
    it.push(delta("a"));
    await it.read();
    await it.leave();
    expect(it.ends).toEqual([]);
    it.push(delta("b"));
    await settled();
    it.push(COMPLETED);
    await settled();
    expect(it.ends).toMatchObject([{ kind: "client_gone", reader: { outcome: "completed" }, isWhole: true }]);
    expect(it.ends[0]?.reader?.usage).toMatchObject({ inputTokens: 3, outputTokens: 4 });
  });

  test("is not outlasted for ever", async () => {
    const gone = Promise.withResolvers<StreamEnd>();
    const it = stage({
      onDisconnect: "drain",
      timing: { ...TIMING, drainOnDisconnectMs: 1 },
      settle(end) {
        gone.resolve(end);
        return null;
      },
    });
    it.push(delta("a"));
    await it.read();
    await it.leave();
    const left = { kind: "client_gone", reader: { usage: null }, isWhole: false };
    expect(await gone.promise).toMatchObject(left);
    expect(it.upstreamState.cancelled).toBe(true);
  });

  test("is let go when it stops reading, and its stream is cut", async () => {
    const it = stage();
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

  test("is let go when it never begins to read", async () => {
    const it = stage();
    it.push(delta("a"));
    await it.opening;
    it.pass(61_000);
    expect(it.ends).toMatchObject([{ kind: "client_gone" }]);
    await settled();
    expect(it.upstreamState.cancelled).toBe(true);
    expect(await isCut(it.read())).toBe(true);
  });
});

test("whatever happens in whatever order, the stream is settled once and ends with one terminal event", async () => {
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
        const it = stage({ onDisconnect, needsDataEvents, isPaid });
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
            void it.leave().catch(() => {});
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
