import { afterAll, describe, expect, test } from "bun:test";
import { eventually } from "../../../test/support/eventually.ts";
import { type UpstreamFailure, upstreamFailure } from "../../accounts/failure.ts";
import { openDeadlines } from "../../base/deadlines.ts";
import { joinParts, type Part, wholeBytesPart } from "../../base/parts.ts";
import { openChatReader } from "../../protocols/chat/chat-stream.ts";
import { openResponsesReader } from "../../protocols/responses/responses-stream.ts";
import type { StreamReader } from "../../protocols/shared/stream.ts";
import {
  type OpenedStream,
  type StreamTail,
  UpstreamStream,
  type UpstreamStreamOptions,
} from "./upstream-stream.ts";

const utf8 = new TextEncoder();
const decoder = new TextDecoder();
const deadlines = openDeadlines(1, { monotonicMs: () => performance.now() });
afterAll(() => deadlines.stop());

/** An upstream response controlled by the test. */
function createBody() {
  let stream: UpstreamStream | null = null;
  const early: ((to: UpstreamStream) => void)[] = [];
  const state = { cancelled: false, paused: false };
  const send = (action: (to: UpstreamStream) => void) => {
    if (stream === null) early.push(action);
    else action(stream);
  };
  return {
    state,
    upstreamCall: {
      pause() {
        state.paused = true;
      },
      resume() {
        state.paused = false;
      },
      abort() {
        state.cancelled = true;
      },
      stopDeadline() {},
      stopWatching() {},
    },
    flowInto(to: UpstreamStream) {
      stream = to;
      for (const action of early) action(to);
    },
    push: (...texts: string[]) => {
      for (const text of texts) send((to) => to.data(wholeBytesPart(utf8.encode(text))));
    },
    end: () => send((to) => to.end()),
    reset: () => send((to) => to.fail(upstreamFailure("reset", "ECONNRESET"))),
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
      upstreamCall: body.upstreamCall,
      reader: responses(),
      deadlines,
      eventBytesMax: 10_000,
      holdMs: 60_000,
      monotonicMs: () => 0,
      enterTurn() {},
      ...change,
    };
    body.flowInto(new UpstreamStream(options, resolve));
  });
}

/** One call of the sink. The events before a failure are a separate call. */
type SinkCall =
  | { kind: "events"; parts: readonly Part[] }
  | ({ kind: "end" } & StreamTail)
  | { kind: "broken"; failure: UpstreamFailure };

/** The calls of the sink, taken one by one. */
interface Taking {
  stream: UpstreamStream;
  next(): Promise<SinkCall>;
}

async function opened(body: Body, change: Partial<UpstreamStreamOptions> = {}): Promise<Taking> {
  const result = await open(body, change);
  if (result.kind !== "open") throw new Error(`expected an open stream, got ${result.failure.reason}`);
  const { stream } = result;
  const calls: SinkCall[] = [];
  let wake: (() => void) | null = null;
  const add = (call: SinkCall) => {
    calls.push(call);
    wake?.();
  };
  stream.flowTo({
    data: (parts) => add({ kind: "events", parts }),
    end: (tail) => add({ kind: "end", ...tail }),
    fail: (failure) => add({ kind: "broken", failure }),
  });
  return {
    stream,
    async next() {
      while (calls.length === 0) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
      const [call] = calls.splice(0, 1);
      if (call === undefined) throw new Error("woken for nothing");
      return call;
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

/** The content of a call as text. */
async function shown(calling: Promise<SinkCall>) {
  const call = await calling;
  const text = (parts: readonly Part[]) => decoder.decode(joinParts(parts));
  switch (call.kind) {
    case "events":
      return { kind: "events", bytes: text(call.parts) };
    case "end":
      return { kind: "end", bytes: text(call.events), terminal: text(call.terminal) };
    case "broken":
      return { kind: "broken", class: call.failure.class };
  }
}

describe("opening an upstream stream", () => {
  test("waits for the first content and then yields all events at once", async () => {
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

  test("succeeds with a terminal event and no content", async () => {
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
  ])("with the error %s before any content fails as %s and aborts the upstream call", async (code, kind) => {
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

  test("fails when the first event is too large", async () => {
    const body = createBody();
    const { push } = body;
    push(delta("x".repeat(20_000)));
    expect(await open(body)).toMatchObject({ kind: "failed", failure: { class: "too_large" } });
  });

  test("fails when a chat sends [DONE] before any content", async () => {
    const body = createBody();
    const { push } = body;
    push(DONE);
    expect(await open(body, { reader: chat() })).toMatchObject({
      kind: "failed",
      failure: { class: "server" },
    });
  });

  test("with content and an error in one chunk yields a broken stream, not a failed opening", async () => {
    const body = createBody();
    const { push } = body;
    push(CREATED + delta("a") + failure("server_error"));
    const stream = await opened(body);
    expect(await shown(stream.next())).toEqual({ kind: "events", bytes: CREATED + delta("a") });
    expect(await shown(stream.next())).toEqual({ kind: "broken", class: "server" });
  });

  test("stops waiting for content at its deadline", async () => {
    const body = createBody();
    const { push } = body;
    push(CREATED);
    const stream = await opened(body, { holdMs: 1 });
    expect(await shown(stream.next())).toEqual({ kind: "events", bytes: CREATED });
    const next = shown(stream.next());
    push(delta("a"));
    expect(await next).toEqual({ kind: "events", bytes: delta("a") });
  });

  test("yields nothing at its deadline without events, and yields later events", async () => {
    const body = createBody();
    const { push } = body;
    const stream = await opened(body, { holdMs: 1 });
    const next = shown(stream.next());
    push(CREATED);
    expect(await next).toEqual({ kind: "events", bytes: CREATED });
  });

  test("an error after the deadline is a broken stream", async () => {
    const body = createBody();
    const { push } = body;
    push(CREATED);
    const stream = await opened(body, { holdMs: 1 });
    await stream.next();
    push(failure("server_is_overloaded"));
    expect(await shown(stream.next())).toEqual({ kind: "broken", class: "overloaded" });
  });
});

describe("reading an upstream stream", () => {
  async function begun(change: Partial<UpstreamStreamOptions> = {}) {
    const upstream = createBody();
    upstream.push(change.reader ? chatChunk({ delta: { content: "a" } }) : delta("a"));
    const stream = await opened(upstream, change);
    await stream.next();
    return { ...upstream, stream };
  }

  test("skips comments and dropped events", async () => {
    const { stream, push } = await begun();
    push(": ping\n\n", "data: nope\n\n", "event: x\n\n", delta("b"));
    expect(await shown(stream.next())).toEqual({ kind: "events", bytes: delta("b") });
  });

  test("yields the terminal event with one [DONE]", async () => {
    const { stream, push } = await begun();
    push(delta("b") + COMPLETED + DONE);
    expect(await shown(stream.next())).toEqual({
      kind: "end",
      bytes: delta("b"),
      terminal: COMPLETED + DONE,
    });
  });

  test("yields the [DONE] of a chat once", async () => {
    const { stream, push } = await begun({ reader: chat() });
    push(DONE);
    expect(await shown(stream.next())).toEqual({ kind: "end", bytes: "", terminal: DONE });
  });

  test("adds a missing [DONE] to a chat once every choice has a finish reason", async () => {
    const { stream, push, end } = await begun({ reader: chat() });
    push(chatChunk({ finish_reason: "stop" }));
    end();
    expect((await stream.next()).kind).toBe("events");
    expect(await shown(stream.next())).toEqual({ kind: "end", bytes: "", terminal: DONE });
  });

  test("adds a missing [DONE] even if the connection broke after the finish reasons", async () => {
    const { stream, push, reset } = await begun({ reader: chat() });
    push(chatChunk({ finish_reason: "stop" }));
    await stream.next();
    reset();
    expect(await shown(stream.next())).toEqual({ kind: "end", bytes: "", terminal: DONE });
  });

  test("yields a failure when the stream ends too early", async () => {
    const early = await begun();
    early.end();
    expect(await shown(early.stream.next())).toEqual({ kind: "broken", class: "reset" });
    const missing = await begun({ reader: chat(2) });
    missing.push(chatChunk({ finish_reason: "stop" }));
    missing.end();
    await missing.stream.next();
    expect(await shown(missing.stream.next())).toEqual({ kind: "broken", class: "reset" });
  });

  test("yields a failure when the connection breaks", async () => {
    const { stream, reset } = await begun();
    reset();
    expect(await shown(stream.next())).toEqual({ kind: "broken", class: "reset" });
  });

  test("yields the events before a too large event", async () => {
    const { stream, push, state } = await begun();
    push(delta("b") + delta("x".repeat(20_000)));
    expect(await shown(stream.next())).toEqual({ kind: "events", bytes: delta("b") });
    expect(await shown(stream.next())).toEqual({ kind: "broken", class: "too_large" });
    expect(state.cancelled).toBe(true);
  });
});

describe("aborting an upstream stream", () => {
  test("aborts the upstream, and the sink receives nothing more", async () => {
    const body = createBody();
    body.push(delta("a"));
    const { stream, next } = await opened(body);
    await next();
    const late = next().then(() => "called");
    stream.abort();
    body.push(delta("b"));
    body.end();
    expect(body.state.cancelled).toBe(true);
    expect(await Promise.race([late, Bun.sleep(1)])).toBeUndefined();
  });

  test("of a complete stream has no effect, so that the connection can be reused", async () => {
    const body = createBody();
    body.push(delta("a") + COMPLETED);
    const { stream, next } = await opened(body);
    await next();
    stream.abort();
    expect(body.state.cancelled).toBe(false);
  });
});

describe("an upstream stream without a sink", () => {
  test("is paused when it holds too much, and delivers what it held in order", async () => {
    const body = createBody();
    const long = delta("x".repeat(9_000));
    body.push(delta("a"));
    const result = await open(body);
    if (result.kind !== "open") throw new Error("expected an open stream");
    for (let i = 0; i < 8; i++) body.push(long);
    expect(body.state.paused).toBe(true);
    // A call that is resumed may deliver at once what has arrived in the meantime.
    body.upstreamCall.resume = () => {
      body.state.paused = false;
      body.push(delta("b"));
    };
    const texts: string[] = [];
    result.stream.flowTo({
      data: (parts) => void texts.push(decoder.decode(joinParts(parts))),
      end() {},
      fail() {},
    });
    expect(texts).toEqual([delta("a") + long.repeat(8), delta("b")]);
    expect(body.state.paused).toBe(false);
  });

  test("stays paused if its sink does not keep up", async () => {
    const body = createBody();
    body.push(delta("a"));
    const result = await open(body);
    if (result.kind !== "open") throw new Error("expected an open stream");
    const { stream } = result;
    for (let i = 0; i < 8; i++) body.push(delta("x".repeat(9_000)));
    stream.flowTo({ data: () => stream.pause(), end() {}, fail() {} });
    expect(body.state.paused).toBe(true);
    stream.resume();
    expect(body.state.paused).toBe(false);
  });
});

describe("the time of the last data", () => {
  test("is updated by data events and not by comments", async () => {
    let nowMs = 0;
    const body = createBody();
    const { push } = body;
    push(delta("a"));
    const stream = await opened(body, { monotonicMs: () => nowMs });
    await stream.next();
    expect(stream.stream.lastDataMs).toBe(0);
    const pulling = stream.next();
    nowMs = 500;
    push(": ping\n\n");
    await Bun.sleep(1);
    expect(stream.stream.lastDataMs).toBe(0);
    push("data: nope\n\n");
    await eventually(() => stream.stream.lastDataMs, { equals: 500 });
    nowMs = 900;
    push(delta("b"));
    await pulling;
    expect(stream.stream.lastDataMs).toBe(900);
  });
});

describe("an upstream stream after the terminal event", () => {
  test("is read to its end, so that the connection can be reused", async () => {
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

  test("is aborted if the upstream keeps sending", async () => {
    const body = createBody();
    const { push, state } = body;
    push(COMPLETED);
    const stream = await opened(body);
    await stream.next();
    for (let i = 0; i < 40; i++) push(delta("more"));
    await eventually(() => state.cancelled);
  });
});
