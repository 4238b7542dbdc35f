import { afterAll, describe, expect, test } from "bun:test";
import { upstreamFailure } from "../../accounts/failure.ts";
import { openDeadlines } from "../../net/wire/deadlines.ts";
import { joinParts, wholeBytesPart } from "../../net/wire/parts.ts";
import { openChatReader } from "../../protocols/chat/chat-stream.ts";
import { openResponsesReader } from "../../protocols/responses/responses-stream.ts";
import type { StreamReader } from "../../protocols/shared/stream.ts";
import type { StreamIntake } from "./send-request.ts";
import {
  type OpenedStream,
  openUpstreamStream,
  type UpstreamStream,
  type UpstreamStreamOptions,
  type UpstreamStreamStep,
} from "./upstream-stream.ts";

const utf8 = new TextEncoder();
const decoder = new TextDecoder();
const alarms = openDeadlines(1, { monotonicMs: () => performance.now() });
afterAll(() => alarms.stop());

/** An upstream response controlled by the test. */
function createBody() {
  let intake: StreamIntake | null = null;
  const early: ((to: StreamIntake) => void)[] = [];
  const state = { cancelled: false, paused: false };
  const tell = (deed: (to: StreamIntake) => void) => {
    if (intake === null) early.push(deed);
    else deed(intake);
  };
  return {
    state,
    line: {
      pause() {
        state.paused = true;
      },
      resume() {
        state.paused = false;
      },
      hangUp() {
        state.cancelled = true;
      },
      stopDeadline() {},
      stopWatching() {},
    },
    flowInto(to: StreamIntake) {
      intake = to;
      for (const deed of early) deed(to);
    },
    push: (...texts: string[]) => {
      for (const text of texts) tell((to) => to.data(wholeBytesPart(utf8.encode(text))));
    },
    end: () => tell((to) => to.end()),
    reset: () => tell((to) => to.broke(upstreamFailure("reset", "ECONNRESET"))),
  };
}

type Body = ReturnType<typeof createBody>;

function responses(): StreamReader {
  return openResponsesReader({ publicModel: "fast", depthMax: 32, nowMs: () => 0 });
}

function chat(choices = 1): StreamReader {
  return openChatReader({ publicModel: "fast", hidesUsage: true, choices, depthMax: 32 });
}

function open(body: Body, change: Partial<UpstreamStreamOptions> = {}): Promise<OpenedStream> {
  return new Promise((resolve) => {
    const options = {
      line: body.line,
      reader: responses(),
      alarms,
      eventBytesMax: 10_000,
      holdMs: 60_000,
      monotonicMs: () => 0,
      ...change,
    };
    body.flowInto(openUpstreamStream(options, resolve));
  });
}

/** The steps of a stream, taken one by one. */
interface Taking {
  stream: UpstreamStream;
  next(): Promise<UpstreamStreamStep>;
}

async function opened(body: Body, change: Partial<UpstreamStreamOptions> = {}): Promise<Taking> {
  const result = await open(body, change);
  if (result.kind !== "open") throw new Error(`expected an open stream, got ${result.failure.reason}`);
  const { stream } = result;
  const steps: UpstreamStreamStep[] = [];
  let wake: (() => void) | null = null;
  stream.flowTo((step) => {
    steps.push(step);
    wake?.();
  });
  return {
    stream,
    async next() {
      while (steps.length === 0) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
      const [step] = steps.splice(0, 1);
      if (step === undefined) throw new Error("woken for nothing");
      return step;
    },
  };
}

const event = (type: string, rest: Record<string, unknown> = {}) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...rest })}\n\n`;
const RESPONSE = { id: "resp_1", model: "fast" };
const CREATED = event("response.created", { response: RESPONSE });
const IN_PROGRESS = event("response.in_progress", { response: RESPONSE });
const delta = (text: string) => event("response.output_text.delta", { delta: text });
const COMPLETED = event("response.completed", { response: RESPONSE });
const failure = (code: string) =>
  event("response.failed", { response: { ...RESPONSE, error: { code, message: "m" } } });
const DONE = "data: [DONE]\n\n";
const chatChunk = (choice: Record<string, unknown>) =>
  `data: ${JSON.stringify({ id: "c", model: "fast", choices: [{ index: 0, delta: {}, ...choice }] })}\n\n`;

/** The content of a step as text. */
async function shown(pulling: Promise<UpstreamStreamStep>) {
  const pulled = await pulling;
  const bytes = decoder.decode(joinParts(pulled.parts));
  switch (pulled.kind) {
    case "events":
      return { kind: "events", bytes };
    case "end":
      return { kind: "end", bytes, terminal: decoder.decode(joinParts(pulled.terminal)) };
    case "broken":
      return { kind: "broken", bytes, class: pulled.failure.class };
  }
}

describe("opening", () => {
  test("waits for the first content and then has everything at once", async () => {
    const body = createBody();
    const { push } = body;
    let isOpen = false;
    const opening = opened(body).then((stream) => {
      isOpen = true;
      return stream;
    });
    push(CREATED);
    push(": ping\n\n", IN_PROGRESS);
    await Bun.sleep(1);
    expect(isOpen).toBe(false);
    push(delta("a"));
    const stream = await opening;
    expect(await shown(stream.next())).toEqual({ kind: "events", bytes: CREATED + IN_PROGRESS + delta("a") });
  });

  test("with a terminal event and no content is an answer too", async () => {
    const body = createBody();
    const { push } = body;
    push(CREATED, COMPLETED);
    const stream = await opened(body);
    expect(await shown(stream.next())).toEqual({ kind: "end", bytes: CREATED, terminal: COMPLETED + DONE });
  });

  test.each([
    ["server_is_overloaded", "overloaded"],
    ["rate_limit_exceeded", "rate_limited"],
    ["context_length_exceeded", "rejected"],
    ["server_error", "server"],
  ])("with the error %s before any content fails as %s, and the upstream is let go", async (code, kind) => {
    const body = createBody();
    const { push, state } = body;
    push(CREATED + IN_PROGRESS, failure(code));
    const result = await open(body);
    expect(result).toMatchObject({ kind: "failed", failure: { class: kind } });
    expect(state.cancelled).toBe(true);
  });

  test("fails when the stream ends or breaks before any content", async () => {
    const ended = createBody();
    ended.push(CREATED);
    ended.end();
    expect(await open(ended)).toMatchObject({ kind: "failed", failure: { class: "reset" } });
    const broken = createBody();
    broken.push(CREATED);
    const opening = open(broken);
    await Bun.sleep(1);
    broken.reset();
    expect(await opening).toMatchObject({ kind: "failed", failure: { class: "reset" } });
    const empty = createBody();
    empty.end();
    expect(await open(empty)).toMatchObject({ kind: "failed", failure: { class: "reset" } });
  });

  test("fails when the first event is larger than allowed", async () => {
    const body = createBody();
    const { push } = body;
    push(delta("x".repeat(20_000)));
    expect(await open(body)).toMatchObject({ kind: "failed", failure: { class: "too_large" } });
  });

  test("fails when a chat says that it is done before it said anything", async () => {
    const body = createBody();
    const { push } = body;
    push(DONE);
    expect(await open(body, { reader: chat() })).toMatchObject({
      kind: "failed",
      failure: { class: "server" },
    });
  });

  test("with content and an error in one chunk is a stream that broke, not a failure to hide", async () => {
    const body = createBody();
    const { push } = body;
    push(CREATED + delta("a") + failure("server_error"));
    const stream = await opened(body);
    expect(await shown(stream.next())).toEqual({
      kind: "broken",
      bytes: CREATED + delta("a"),
      class: "server",
    });
  });

  test("stops holding back at its deadline", async () => {
    const body = createBody();
    const { push } = body;
    push(CREATED);
    const stream = await opened(body, { holdMs: 1 });
    expect(await shown(stream.next())).toEqual({ kind: "events", bytes: CREATED });
    const next = shown(stream.next());
    push(delta("a"));
    expect(await next).toEqual({ kind: "events", bytes: delta("a") });
  });

  test("at its deadline has nothing if nothing came, and what comes later is heard", async () => {
    const body = createBody();
    const { push } = body;
    const stream = await opened(body, { holdMs: 1 });
    const next = shown(stream.next());
    push(CREATED);
    expect(await next).toEqual({ kind: "events", bytes: CREATED });
  });

  test("past its deadline an error is a stream that broke", async () => {
    const body = createBody();
    const { push } = body;
    push(CREATED);
    const stream = await opened(body, { holdMs: 1 });
    await stream.next();
    push(failure("server_is_overloaded"));
    expect(await shown(stream.next())).toEqual({ kind: "broken", bytes: "", class: "overloaded" });
  });
});

describe("pulling", () => {
  async function begun(change: Partial<UpstreamStreamOptions> = {}) {
    const upstream = createBody();
    upstream.push(change.reader ? chatChunk({ delta: { content: "a" } }) : delta("a"));
    const stream = await opened(upstream, change);
    await stream.next();
    return { ...upstream, stream };
  }

  test("never brings nothing: comments and dropped events are read past", async () => {
    const { stream, push } = await begun();
    push(": ping\n\n", "data: nope\n\n", "event: x\n\n", delta("b"));
    expect(await shown(stream.next())).toEqual({ kind: "events", bytes: delta("b") });
  });

  test("brings the end with one [DONE] after it", async () => {
    const { stream, push } = await begun();
    push(delta("b") + COMPLETED + DONE);
    expect(await shown(stream.next())).toEqual({
      kind: "end",
      bytes: delta("b"),
      terminal: COMPLETED + DONE,
    });
  });

  test("brings a chat's [DONE] once", async () => {
    const { stream, push } = await begun({ reader: chat() });
    push(DONE);
    expect(await shown(stream.next())).toEqual({ kind: "end", bytes: "", terminal: DONE });
  });

  test("adds the [DONE] that a chat forgot, once every choice had its reason", async () => {
    const { stream, push, end } = await begun({ reader: chat() });
    push(chatChunk({ finish_reason: "stop" }));
    end();
    expect((await stream.next()).kind).toBe("events");
    expect(await shown(stream.next())).toEqual({ kind: "end", bytes: "", terminal: DONE });
  });

  test("does so even if the connection broke after that", async () => {
    const { stream, push, reset } = await begun({ reader: chat() });
    push(chatChunk({ finish_reason: "stop" }));
    await stream.next();
    reset();
    expect(await shown(stream.next())).toEqual({ kind: "end", bytes: "", terminal: DONE });
  });

  test("brings a break when the stream ends too early", async () => {
    const early = await begun();
    early.end();
    expect(await shown(early.stream.next())).toEqual({ kind: "broken", bytes: "", class: "reset" });
    const missing = await begun({ reader: chat(2) });
    missing.push(chatChunk({ finish_reason: "stop" }));
    missing.end();
    await missing.stream.next();
    expect(await shown(missing.stream.next())).toEqual({ kind: "broken", bytes: "", class: "reset" });
  });

  test("brings a break when the connection does", async () => {
    const { stream, reset } = await begun();
    reset();
    expect(await shown(stream.next())).toEqual({ kind: "broken", bytes: "", class: "reset" });
  });

  test("brings what came before an event that is larger than allowed", async () => {
    const { stream, push, state } = await begun();
    push(delta("b") + delta("x".repeat(20_000)));
    expect(await shown(stream.next())).toEqual({ kind: "broken", bytes: delta("b"), class: "too_large" });
    expect(state.cancelled).toBe(true);
  });
});

describe("aborting", () => {
  test("ends a pull under way with the reason given, and lets the upstream go", async () => {
    const body = createBody();
    const { push, state } = body;
    push(delta("a"));
    const stream = await opened(body);
    await stream.next();
    const pulling = shown(stream.next());
    stream.stream.abort(upstreamFailure("timeout", "first"));
    stream.stream.abort(upstreamFailure("reset", "second"));
    expect(await pulling).toEqual({ kind: "broken", bytes: "", class: "timeout" });
    expect(state.cancelled).toBe(true);
  });

  test("ends the next pull if none is under way", async () => {
    const body = createBody();
    const { push } = body;
    push(delta("a"));
    const stream = await opened(body);
    await stream.next();
    stream.stream.abort(upstreamFailure("timeout", "r"));
    expect((await stream.next()).kind).toBe("broken");
  });
});

describe("signs of life", () => {
  test("are data events; comments are none", async () => {
    let nowMs = 0;
    const body = createBody();
    const { push } = body;
    push(delta("a"));
    const stream = await opened(body, { monotonicMs: () => nowMs });
    await stream.next();
    expect(stream.stream.lastDataMs()).toBe(0);
    const pulling = stream.next();
    nowMs = 500;
    push(": ping\n\n");
    await Bun.sleep(1);
    expect(stream.stream.lastDataMs()).toBe(0);
    push("data: nope\n\n");
    await Bun.sleep(1);
    expect(stream.stream.lastDataMs()).toBe(500);
    nowMs = 900;
    push(delta("b"));
    await pulling;
    expect(stream.stream.lastDataMs()).toBe(900);
  });
});

describe("after the terminal event", () => {
  test("the rest is read to its end, so that the connection can be used again", async () => {
    const body = createBody();
    body.push(delta("a"));
    const { stream, next } = await opened(body);
    body.push(COMPLETED);
    await next();
    expect((await next()).kind).toBe("end");
    const closing = stream.closing();
    body.push(DONE, ": bye\n\n");
    body.end();
    await closing;
    expect(stream.closing()).toBeNull();
    expect(body.state.cancelled).toBe(false);
  });

  test("an upstream that goes on and on is let go", async () => {
    const body = createBody();
    const { push, state } = body;
    push(COMPLETED);
    const stream = await opened(body);
    await stream.next();
    for (let i = 0; i < 40; i++) push(delta("more"));
    await Bun.sleep(5);
    expect(state.cancelled).toBe(true);
  });
});
