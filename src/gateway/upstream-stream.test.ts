import { describe, expect, test } from "bun:test";
import { openChatReader } from "../interfaces/chat-stream.ts";
import { openResponsesReader } from "../interfaces/responses-stream.ts";
import type { StreamReader } from "../interfaces/stream.ts";
import { failed } from "../upstreams/failure.ts";
import { openUpstreamStream, type Pulled, type UpstreamStreamOptions } from "./upstream-stream.ts";

const utf8 = new TextEncoder();
const decoder = new TextDecoder();

/** An upstream's body under the test's hand. */
function createBody() {
  let controller: ReadableStreamDefaultController<Uint8Array> | null = null;
  const state = { cancelled: false };
  const body = new ReadableStream<Uint8Array>({
    start(to) {
      controller = to;
    },
    cancel() {
      state.cancelled = true;
    },
  });
  return {
    body,
    state,
    push: (...texts: string[]) => {
      for (const text of texts) controller?.enqueue(utf8.encode(text));
    },
    end: () => controller?.close(),
    reset: () => controller?.error(new Error("ECONNRESET")),
  };
}

function responses(): StreamReader {
  return openResponsesReader({ publicModel: "fast", depthMax: 32, nowMs: () => 0 });
}

function chat(choices = 1): StreamReader {
  return openChatReader({ publicModel: "fast", hidesUsage: true, choices, depthMax: 32 });
}

function open(body: ReadableStream<Uint8Array>, change: Partial<UpstreamStreamOptions> = {}) {
  return openUpstreamStream({
    body,
    reader: responses(),
    abort: () => {},
    eventBytesMax: 10_000,
    holdMs: 60_000,
    monotonicMs: () => 0,
    ...change,
  });
}

async function opened(body: ReadableStream<Uint8Array>, change: Partial<UpstreamStreamOptions> = {}) {
  const result = await open(body, change);
  if (result.kind !== "open") throw new Error(`expected an open stream, got ${result.failure.reason}`);
  return result.stream;
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

/** What a pull brings, as text. */
async function shown(pulling: Promise<Pulled>) {
  const pulled = await pulling;
  const bytes = decoder.decode(pulled.bytes);
  switch (pulled.kind) {
    case "bytes":
      return { kind: "bytes", bytes };
    case "end":
      return { kind: "end", bytes, terminal: decoder.decode(pulled.terminal) };
    case "broken":
      return { kind: "broken", bytes, class: pulled.failure.class };
  }
}

describe("opening", () => {
  test("waits for the first content and then has everything at once", async () => {
    const { body, push } = createBody();
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
    expect(await shown(stream.pull())).toEqual({ kind: "bytes", bytes: CREATED + IN_PROGRESS + delta("a") });
  });

  test("with a terminal event and no content is an answer too", async () => {
    const { body, push } = createBody();
    push(CREATED, COMPLETED);
    const stream = await opened(body);
    expect(await shown(stream.pull())).toEqual({ kind: "end", bytes: CREATED, terminal: COMPLETED + DONE });
  });

  test.each([
    ["server_is_overloaded", "overloaded"],
    ["rate_limit_exceeded", "rate_limited"],
    ["context_length_exceeded", "rejected"],
    ["server_error", "server"],
  ])("with the error %s before any content fails as %s, and the upstream is let go", async (code, kind) => {
    const { body, push, state } = createBody();
    let aborted = false;
    push(CREATED + IN_PROGRESS, failure(code));
    const result = await open(body, {
      abort: () => {
        aborted = true;
      },
    });
    expect(result).toMatchObject({ kind: "failed", failure: { class: kind } });
    expect(aborted).toBe(true);
    expect(state.cancelled).toBe(true);
  });

  test("fails when the stream ends or breaks before any content", async () => {
    const ended = createBody();
    ended.push(CREATED);
    ended.end();
    expect(await open(ended.body)).toMatchObject({ kind: "failed", failure: { class: "reset" } });
    const broken = createBody();
    broken.push(CREATED);
    const opening = open(broken.body);
    await Bun.sleep(1);
    broken.reset();
    expect(await opening).toMatchObject({ kind: "failed", failure: { class: "reset" } });
    const empty = createBody();
    empty.end();
    expect(await open(empty.body)).toMatchObject({ kind: "failed", failure: { class: "reset" } });
  });

  test("fails when the first event is larger than allowed", async () => {
    const { body, push } = createBody();
    push(delta("x".repeat(20_000)));
    expect(await open(body)).toMatchObject({ kind: "failed", failure: { class: "bad_answer" } });
  });

  test("fails when a chat says that it is done before it said anything", async () => {
    const { body, push } = createBody();
    push(DONE);
    expect(await open(body, { reader: chat() })).toMatchObject({
      kind: "failed",
      failure: { class: "server" },
    });
  });

  test("with content and an error in one chunk is a stream that broke, not a failure to hide", async () => {
    const { body, push } = createBody();
    push(CREATED + delta("a") + failure("server_error"));
    const stream = await opened(body);
    expect(await shown(stream.pull())).toEqual({
      kind: "broken",
      bytes: CREATED + delta("a"),
      class: "server",
    });
  });

  test("stops holding back at its deadline", async () => {
    const { body, push } = createBody();
    push(CREATED);
    const stream = await opened(body, { holdMs: 1 });
    expect(await shown(stream.pull())).toEqual({ kind: "bytes", bytes: CREATED });
    const next = shown(stream.pull());
    push(delta("a"));
    expect(await next).toEqual({ kind: "bytes", bytes: delta("a") });
  });

  test("at its deadline has nothing if nothing came, and what comes later is heard", async () => {
    const { body, push } = createBody();
    const stream = await opened(body, { holdMs: 1 });
    const next = shown(stream.pull());
    push(CREATED);
    expect(await next).toEqual({ kind: "bytes", bytes: CREATED });
  });

  test("past its deadline an error is a stream that broke", async () => {
    const { body, push } = createBody();
    push(CREATED);
    const stream = await opened(body, { holdMs: 1 });
    await stream.pull();
    push(failure("server_is_overloaded"));
    expect(await shown(stream.pull())).toEqual({ kind: "broken", bytes: "", class: "overloaded" });
  });
});

describe("pulling", () => {
  async function begun(change: Partial<UpstreamStreamOptions> = {}) {
    const upstream = createBody();
    upstream.push(change.reader ? chatChunk({ delta: { content: "a" } }) : delta("a"));
    const stream = await opened(upstream.body, change);
    await stream.pull();
    return { ...upstream, stream };
  }

  test("never brings nothing: comments and dropped events are read past", async () => {
    const { stream, push } = await begun();
    push(": ping\n\n", "data: nope\n\n", "event: x\n\n", delta("b"));
    expect(await shown(stream.pull())).toEqual({ kind: "bytes", bytes: delta("b") });
  });

  test("brings the end with one [DONE] after it", async () => {
    const { stream, push } = await begun();
    push(delta("b") + COMPLETED + DONE);
    expect(await shown(stream.pull())).toEqual({
      kind: "end",
      bytes: delta("b"),
      terminal: COMPLETED + DONE,
    });
  });

  test("brings a chat's [DONE] once", async () => {
    const { stream, push } = await begun({ reader: chat() });
    push(DONE);
    expect(await shown(stream.pull())).toEqual({ kind: "end", bytes: "", terminal: DONE });
  });

  test("adds the [DONE] that a chat forgot, once every choice had its reason", async () => {
    const { stream, push, end } = await begun({ reader: chat() });
    push(chatChunk({ finish_reason: "stop" }));
    end();
    expect((await stream.pull()).kind).toBe("bytes");
    expect(await shown(stream.pull())).toEqual({ kind: "end", bytes: "", terminal: DONE });
  });

  test("does so even if the connection broke after that", async () => {
    const { stream, push, reset } = await begun({ reader: chat() });
    push(chatChunk({ finish_reason: "stop" }));
    await stream.pull();
    reset();
    expect(await shown(stream.pull())).toEqual({ kind: "end", bytes: "", terminal: DONE });
  });

  test("brings a break when the stream ends too early", async () => {
    const early = await begun();
    early.end();
    expect(await shown(early.stream.pull())).toEqual({ kind: "broken", bytes: "", class: "reset" });
    const missing = await begun({ reader: chat(2) });
    missing.push(chatChunk({ finish_reason: "stop" }));
    missing.end();
    await missing.stream.pull();
    expect(await shown(missing.stream.pull())).toEqual({ kind: "broken", bytes: "", class: "reset" });
  });

  test("brings a break when the connection does", async () => {
    const { stream, reset } = await begun();
    reset();
    expect(await shown(stream.pull())).toEqual({ kind: "broken", bytes: "", class: "reset" });
  });

  test("brings what came before an event that is larger than allowed", async () => {
    const { stream, push, state } = await begun();
    push(delta("b") + delta("x".repeat(20_000)));
    expect(await shown(stream.pull())).toEqual({ kind: "broken", bytes: delta("b"), class: "bad_answer" });
    expect(state.cancelled).toBe(true);
  });

  test("twice at once brings the same to both", async () => {
    const { stream, push } = await begun();
    const [first, second] = [stream.pull(), stream.pull()];
    push(delta("b"));
    expect(await first).toBe(await second);
    push(delta("c"));
    expect(await shown(stream.pull())).toEqual({ kind: "bytes", bytes: delta("c") });
  });
});

describe("aborting", () => {
  test("ends a pull under way with the reason given, and lets the upstream go", async () => {
    const { body, push, state } = createBody();
    let aborts = 0;
    push(delta("a"));
    const stream = await opened(body, { abort: () => void aborts++ });
    await stream.pull();
    const pulling = shown(stream.pull());
    stream.abort(failed("timeout", "first"));
    stream.abort(failed("reset", "second"));
    expect(await pulling).toEqual({ kind: "broken", bytes: "", class: "timeout" });
    expect(aborts).toBeGreaterThan(0);
    expect(state.cancelled).toBe(true);
  });

  test("ends the next pull if none is under way", async () => {
    const { body, push } = createBody();
    push(delta("a"));
    const stream = await opened(body);
    await stream.pull();
    stream.abort(failed("timeout", "r"));
    expect((await stream.pull()).kind).toBe("broken");
  });
});

describe("signs of life", () => {
  test("are data events; comments are none", async () => {
    let nowMs = 0;
    const { body, push } = createBody();
    push(delta("a"));
    const stream = await opened(body, { monotonicMs: () => nowMs });
    await stream.pull();
    expect(stream.lastDataMs()).toBe(0);
    const pulling = stream.pull();
    nowMs = 500;
    push(": ping\n\n");
    await Bun.sleep(1);
    expect(stream.lastDataMs()).toBe(0);
    push("data: nope\n\n");
    await Bun.sleep(1);
    expect(stream.lastDataMs()).toBe(500);
    nowMs = 900;
    push(delta("b"));
    await pulling;
    expect(stream.lastDataMs()).toBe(900);
  });
});

describe("after the terminal event", () => {
  test("the rest is read to its end, so that the connection can be used again", async () => {
    const texts = [delta("a"), COMPLETED, DONE, ": bye\n\n"];
    const ended = Promise.withResolvers<void>();
    const body = new ReadableStream<Uint8Array>(
      {
        pull(to) {
          const next = texts.shift();
          if (next !== undefined) return to.enqueue(utf8.encode(next));
          to.close();
          ended.resolve();
        },
      },
      { highWaterMark: 0 },
    );
    const stream = await opened(body);
    await stream.pull();
    expect(texts).toHaveLength(3);
    expect((await stream.pull()).kind).toBe("end");
    await ended.promise;
  });

  test("an upstream that goes on and on is let go", async () => {
    const { body, push, state } = createBody();
    push(COMPLETED);
    const stream = await opened(body);
    await stream.pull();
    for (let i = 0; i < 40; i++) push(delta("more"));
    await Bun.sleep(5);
    expect(state.cancelled).toBe(true);
  });
});
