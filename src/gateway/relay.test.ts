import { afterAll, describe, expect, test } from "bun:test";
import { createParser } from "eventsource-parser";
import fc from "fast-check";
import { openAlarms } from "../alarms.ts";
import { ApiError } from "../errors.ts";
import { openResponsesReader } from "../interfaces/responses-stream.ts";
import type { StreamReader } from "../interfaces/stream.ts";
import { clientError, failed } from "../upstreams/failure.ts";
import { openRelay, type RelayOptions, type StreamEnd } from "./relay.ts";
import type { StreamIntake } from "./send.ts";
import { openUpstreamStream, type UpstreamStream } from "./upstream-stream.ts";

const utf8 = new TextEncoder();
const decoder = new TextDecoder();
const alarms = openAlarms(1, { monotonicMs: () => performance.now() });
afterAll(() => alarms.stop());

const TIMING = {
  keepAliveMs: 15_000,
  silentReasoningMs: 60_000,
  idleTimeoutMs: 300_000,
  writeStallMs: 60_000,
  drainOnDisconnectMs: 60_000,
};

function reader(): StreamReader {
  return openResponsesReader({ publicModel: "fast", depthMax: 32, nowMs: () => 0 });
}

const event = (type: string, rest: Record<string, unknown> = {}) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...rest })}\n\n`;
const RESPONSE = { id: "resp_1", model: "fast" };
const CREATED = event("response.created", { sequence_number: 0, response: RESPONSE });
const delta = (text: string) => event("response.output_text.delta", { sequence_number: 7, delta: text });
const USAGE = { input_tokens: 3, output_tokens: 4 };
const COMPLETED = event("response.completed", { response: { ...RESPONSE, usage: USAGE } });
const FAILED = event("response.failed", { response: { ...RESPONSE, error: { code: "server_error" } } });
const KEEP_ALIVE = ": keep-alive\n\n";

/** An upstream, a relay and a client, with time and both ends under the test's hand. */
function stage(change: Partial<RelayOptions> = {}) {
  let nowMs = 0;
  const beats = new Set<(nowMs: number) => void>();
  const ends: StreamEnd[] = [];
  /** What the relay wrote, and what of it the client has read. */
  const sent: string[] = [];
  const writes: string[] = [];
  const upstreamState = { cancelled: false, paused: false };
  const early: ((to: StreamIntake) => void)[] = [];
  let intake: StreamIntake | null = null;
  let over = false;
  const tell = (deed: (to: StreamIntake) => void) => {
    if (over) return;
    if (intake === null) early.push(deed);
    else deed(intake);
  };
  const line = {
    pause() {
      upstreamState.paused = true;
    },
    resume() {
      upstreamState.paused = false;
    },
    hangUp() {
      over = true;
      upstreamState.cancelled = true;
    },
    stopDeadline() {},
    stopWatching() {},
  };
  const opening = new Promise<UpstreamStream>((resolve, reject) => {
    const options = {
      line,
      reader: reader(),
      alarms,
      eventBytesMax: 10_000,
      holdMs: 0,
      monotonicMs: () => nowMs,
    };
    intake = openUpstreamStream(options, (result) => {
      if (result.kind === "open") resolve(result.stream);
      else {
        const audience = { publicModel: "fast", upstreamModel: "up", mentions: () => false };
        reject(clientError(result.failure, audience));
      }
    });
    for (const deed of early) deed(intake);
  });
  opening.catch(() => {});

  let ended = false;
  let cut = false;
  let readsWaiting = 0;
  let wakeReader: (() => void) | null = null;
  let makeRoom: (() => void) | null = null;
  const relay = openRelay({
    opening,
    openSpareReader: reader,
    requestId: "req_1",
    onDisconnect: "cancel",
    needsDataEvents: false,
    describeFailure: (failure) => new ApiError("upstream_error", failure.reason),
    settle: (end) => void ends.push(end),
    cutOff() {
      cut = true;
      wakeReader?.();
    },
    pulse: {
      add(beat) {
        beats.add(beat);
        return () => beats.delete(beat);
      },
    },
    monotonicMs: () => nowMs,
    timing: TIMING,
    ...change,
  });
  relay.flowTo({
    write(bytes) {
      sent.push(decoder.decode(bytes));
      wakeReader?.();
      if (sent.length - writes.length <= readsWaiting) return null;
      return new Promise<void>((resolve) => {
        makeRoom = resolve;
      });
    },
    end() {
      ended = true;
      wakeReader?.();
    },
  });

  return {
    ends,
    sent,
    writes,
    beats,
    upstreamState,
    opening,
    push: (text: string) => tell((to) => to.data(utf8.encode(text))),
    end() {
      tell((to) => to.end());
      over = true;
    },
    reset() {
      tell((to) => to.broke(failed("reset", "ECONNRESET")));
      over = true;
    },
    /** One read of the client: a write, or null at the end. */
    async read(): Promise<string | null> {
      readsWaiting++;
      try {
        while (cut || sent.length === writes.length) {
          if (cut) throw new Error("the stream was cut");
          if (ended) return null;
          await new Promise<void>((resolve) => {
            const before = wakeReader;
            wakeReader = () => {
              before?.();
              resolve();
            };
          });
        }
      } finally {
        readsWaiting--;
      }
      const text = sent[writes.length] ?? "";
      writes.push(text);
      if (sent.length === writes.length) makeRoom?.();
      return text;
    },
    async readAll(): Promise<string> {
      while ((await this.read()) !== null);
      return writes.join("");
    },
    async leave() {
      ended = true;
      wakeReader?.();
      relay.leave();
    },
    /** Time passes, and the client reads whatever comes meanwhile. */
    async passReading(ms: number) {
      for (let passedMs = 0; passedMs < ms; passedMs += 1_000) {
        this.pass(1_000);
        await settled();
      }
    },
    /** Time passes, one second a beat. */
    pass(ms: number) {
      for (const until = nowMs + ms; nowMs < until; ) {
        nowMs += 1_000;
        for (const beat of [...beats]) beat(nowMs);
      }
    },
  };
}

const isCut = (reading: Promise<unknown>) =>
  reading.then(
    () => false,
    () => true,
  );

/** Lets everything happen that can happen without anyone doing anything. */
const settled = () => Bun.sleep(0);

function eventsIn(text: string): { types: string[]; done: number } {
  const types: string[] = [];
  let done = 0;
  const parser = createParser({
    onEvent({ data }) {
      if (data === "[DONE]") done++;
      else types.push(JSON.parse(data).type);
    },
  });
  parser.feed(text);
  return { types, done };
}

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
    const it = stage({ settle: () => void written.push(...it.sent) });
    it.push(delta("a"));
    it.push(COMPLETED);
    await it.readAll();
    expect(written).toEqual([delta("a")]);
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
    expect(it.ends).toMatchObject([{ kind: "client_gone", reader: { outcome: "completed" } }]);
    expect(it.ends[0]?.reader?.usage).toMatchObject({ inputTokens: 3, outputTokens: 4 });
  });

  test("is not outlasted for ever", async () => {
    const gone = Promise.withResolvers<StreamEnd>();
    const it = stage({
      onDisconnect: "drain",
      timing: { ...TIMING, drainOnDisconnectMs: 1 },
      settle: gone.resolve,
    });
    it.push(delta("a"));
    await it.read();
    await it.leave();
    expect(await gone.promise).toMatchObject({ kind: "client_gone", reader: { usage: null } });
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
      async (steps, onDisconnect, needsDataEvents) => {
        const it = stage({ onDisconnect, needsDataEvents });
        const reads: Promise<string | null>[] = [];
        let left = false;
        for (const next of [...steps, "end"]) {
          if (next === "created") it.push(CREATED);
          else if (next === "delta") it.push(delta("a"));
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
