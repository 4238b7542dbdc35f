import { describe, expect, test } from "bun:test";
import { createParser, type EventSourceMessage } from "eventsource-parser";
import { joinParts, wholeBytesPart } from "../../base/parts.ts";
import { ApiError, type ApiErrorCode, UPSTREAM_CODES } from "../../errors.ts";
import type { EventVerdict, StreamReader } from "../shared/stream.ts";
import { openResponsesReader } from "./responses-stream.ts";

const utf8 = new TextEncoder();
const decoder = new TextDecoder();

function open(): StreamReader {
  return openResponsesReader({ publicModel: "fast", depthMax: 32, nowMs: () => 1_790_000_000_500 });
}

function read(reader: StreamReader, block: string): EventVerdict {
  const bytes = utf8.encode(`${block}\n\n`);
  return reader.read(bytes, 0, bytes.length - 2);
}

/** An event as OpenAI writes it. */
const block = (type: string, rest: Record<string, unknown> = {}) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...rest })}`;

const response = (change: Record<string, unknown> = {}) => ({
  id: "resp_1",
  object: "response",
  created_at: 5,
  status: "in_progress",
  model: "gpt-6-eu",
  output: [],
  usage: null,
  error: null,
  ...change,
});

function heard(bytes: Uint8Array): EventSourceMessage[] {
  const events: EventSourceMessage[] = [];
  createParser({ onEvent: (event) => void events.push(event) }).feed(decoder.decode(bytes));
  return events;
}

/** What the client receives for one event: the event, or the name of the verdict. */
function told(reader: StreamReader, text: string): { event: string | undefined; json: unknown } | string {
  const verdict = read(reader, text);
  if (verdict.phase === "dropped" || verdict.phase === "failed") return verdict.phase;
  const [event, ...more] = heard(
    joinParts(verdict.replacement ?? [wholeBytesPart(utf8.encode(`${text}\n\n`))]),
  );
  expect(more).toEqual([]);
  return { event: event?.event, json: JSON.parse(event?.data ?? "null") };
}

test.each(["response.completed", "response.in_progress", "response.done"])(
  "a response with an error is a failure even in a %s event",
  (type) => {
    const verdict = read(
      open(),
      block(type, { response: response({ error: { code: "c", message: "org-1" } }) }),
    );
    expect(verdict).toMatchObject({ phase: "failed", error: { code: "c", message: "org-1" } });
  },
);

const USAGE = { input_tokens: 3, output_tokens: 4, total_tokens: 7 };

describe("the previous response id", () => {
  const readPrevious = (change: object, previousResponseId: string | null) => {
    const reader = openResponsesReader({
      publicModel: "fast",
      previousResponseId,
      depthMax: 32,
      nowMs: () => 0,
    });
    return told(reader, block("response.created", { response: response({ ...change }) }));
  };

  test("is inserted if the upstream got the whole conversation and does not know it", () => {
    expect(readPrevious({ previous_response_id: null }, "resp_0")).toMatchObject({
      json: { response: { previous_response_id: "resp_0", model: "fast" } },
    });
  });

  test("is unchanged if the upstream knows it, or if there is none", () => {
    expect(readPrevious({ previous_response_id: "resp_up" }, "resp_0")).toMatchObject({
      json: { response: { previous_response_id: "resp_up" } },
    });
    expect(readPrevious({ previous_response_id: null }, null)).toMatchObject({
      json: { response: { previous_response_id: null } },
    });
  });
});

test("upstream headers are removed from any position of an event", () => {
  const headers = { "openai-organization": "org-1" };
  const reader = open();
  for (const type of ["response.created", "response.in_progress", "response.completed"]) {
    for (const rest of [
      { headers, response: response() },
      { response: response(), headers },
      { response: response({ headers }), sequence_number: 3 },
    ]) {
      const { headers: _, ...expected } = rest as { headers?: object };
      expect(told(reader, block(type, rest))).toEqual({
        event: type,
        json: { ...JSON.parse(JSON.stringify({ type, ...expected })), response: response({ model: "fast" }) },
      });
    }
  }
  expect(told(reader, block("response.queue", { headers, note: 1 }))).toEqual({
    event: "response.queue",
    json: { type: "response.queue", note: 1 },
  });
  const [failed] = heard(reader.failure(new ApiError("server_error", "Broken."), "req_1"));
  expect(failed?.data).not.toContain("org-1");
});

describe("event fields other than content", () => {
  const DELTA = "response.output_text.delta";

  test.each(["response.done", "response.compaction.compacting", "response.steer.accepted", DELTA])(
    "the response in %s has the public model and no headers",
    (type) => {
      const rest = { sequence_number: 4, response: response({ headers: { "openai-model": "gpt-6-eu" } }) };
      expect(told(open(), block(type, rest))).toEqual({
        event: type,
        json: { type, sequence_number: 4, response: response({ model: "fast" }) },
      });
    },
  );

  test("a top-level model is replaced by the public model, a nested one is not", () => {
    const item = { type: "image_generation_call", model: "gpt-image-2" };
    const named = (change: object) => told(open(), block("response.something.new", { item, ...change }));
    expect(named({ model: "gpt-6-eu" })).toMatchObject({ json: { model: "fast", item } });
    expect(named({})).toMatchObject({ json: { item } });
  });

  test("headers are removed from each of several events that arrive together", () => {
    const events = [{ delta: "a" }, { delta: "b", headers: { "x-codex-plan": "pro" } }, { delta: "c" }];
    const bytes = utf8.encode(events.map((event) => `${block(DELTA, event)}\n\n`).join(""));
    const reader = open();
    const verdicts = events.map((_, i) => {
      const start = i === 0 ? 0 : Buffer.from(bytes).indexOf(`"${"abc"[i]}"`);
      const from = Buffer.from(bytes).lastIndexOf("event:", start === 0 ? 0 : start);
      return reader.read(bytes, from, Buffer.from(bytes).indexOf("\n\n", from));
    });
    expect(verdicts[0]).toEqual({ phase: "content", replacement: null });
    expect(verdicts[2]).toEqual({ phase: "content", replacement: null });
    const [changed] = verdicts.slice(1);
    const parts = changed?.phase === "content" ? (changed.replacement ?? []) : [];
    expect(heard(joinParts(parts))).toMatchObject([
      { event: DELTA, data: JSON.stringify({ type: DELTA, delta: "b" }) },
    ]);
  });

  test("a text about models and headers passes byte for byte", () => {
    const text = block(DELTA, { delta: '{"model":"x","headers":{}}', sequence_number: 3 });
    expect(read(open(), text)).toEqual({ phase: "content", replacement: null });
  });

  test("a private event is dropped under another event name as well", () => {
    const json = JSON.stringify({ type: "codex.rate_limits", plan_type: "pro" });
    expect(told(open(), `event: response.output_item.added\ndata: ${json}`)).toBe("dropped");
  });

  test("the type field determines the event name, at any position", () => {
    const json = { delta: "hi", type: "response.refusal.delta", sequence_number: 3 };
    expect(told(open(), `event: ${DELTA}\ndata: ${JSON.stringify(json)}`)).toEqual({
      event: json.type,
      json,
    });
    const last = `event: ${DELTA}\ndata: {"delta":"hi","type":"${DELTA}"}`;
    expect(read(open(), last)).toEqual({ phase: "content", replacement: null });
    const between = `event: ${DELTA}\ndata: {"delta":"hi", "type": "${DELTA}", "n": 1}`;
    expect(read(open(), between)).toEqual({ phase: "content", replacement: null });
  });
});

test("usage is read at the end only, because some upstreams start with zeros", () => {
  const reader = open();
  const zeros = { input_tokens: 0, output_tokens: 0, total_tokens: 0 };
  read(reader, block("response.created", { response: response({ usage: zeros }) }));
  read(reader, block("response.in_progress", { response: response({ usage: zeros }) }));
  expect(reader.usage).toBeNull();
  read(reader, block("response.failed", { response: response({ status: "failed", usage: USAGE }) }));
  expect(reader.usage).toMatchObject({ inputTokens: 3, outputTokens: 4 });
});

describe("lifecycle events", () => {
  test.each([
    ["response.created", "lifecycle"],
    ["response.queued", "lifecycle"],
    ["response.in_progress", "lifecycle"],
    ["response.completed", "terminal"],
    ["response.incomplete", "terminal"],
    ["response.cancelled", "terminal"],
  ] as const)("%s has the public model", (type, phase) => {
    const reader = open();
    const event = { type, sequence_number: 0, response: response() };
    expect(told(reader, block(type, event))).toEqual({
      event: type,
      json: { ...event, response: response({ model: "fast" }) },
    });
    expect(read(reader, block(type, event)).phase).toBe(phase);
  });

  test("only the model of the response is replaced", () => {
    const tools = [{ type: "x", model: "gpt-6-eu" }];
    const text = block("response.created", { model: "gpt-6-eu", response: { tools, model: "gpt-6-eu" } });
    expect(told(open(), text)).toMatchObject({
      json: { model: "gpt-6-eu", response: { tools, model: "fast" } },
    });
  });

  test("every other byte is unchanged", () => {
    const data =
      '{"type":"response.created", "n":12345678901234567890,"response":{ "a":1.0,"model":"gpt-6-eu" } }';
    const verdict = read(open(), `event: response.created\ndata: ${data}`);
    expect(
      verdict.phase === "lifecycle" && verdict.replacement && decoder.decode(joinParts(verdict.replacement)),
    ).toBe(`event: response.created\ndata: ${data.replace("gpt-6-eu", "fast")}\n\n`);
  });

  test("in several data lines stay one event", () => {
    const json = { type: "response.created", response: response() };
    const lines = JSON.stringify(json, null, 1)
      .split("\n")
      .map((line) => `data: ${line}`);
    expect(told(open(), lines.join("\n"))).toEqual({
      event: "response.created",
      json: { ...json, response: response({ model: "fast" }) },
    });
  });

  test("in several data lines are sent as one line", () => {
    const verdict = read(open(), 'data: {"type":"response.output_text.delta",\ndata: "delta":"x"}');
    const parts = verdict.phase === "content" ? (verdict.replacement ?? []) : [];
    expect(decoder.decode(joinParts(parts))).toBe(
      'event: response.output_text.delta\ndata: {"type":"response.output_text.delta", "delta":"x"}\n\n',
    );
  });

  test("the first one contains the response id", () => {
    const reader = open();
    expect(reader.responseId).toBeNull();
    read(reader, block("response.created", { response: response() }));
    expect(reader.responseId).toBe("resp_1");
  });

  test("the last one determines the outcome", () => {
    for (const [type, outcome] of [
      ["response.completed", "completed"],
      ["response.incomplete", "incomplete"],
      ["response.cancelled", "cancelled"],
    ] as const) {
      const reader = open();
      expect(reader.outcome).toBe("failed");
      read(reader, block(type, { response: response() }));
      expect(reader.outcome).toBe(outcome);
    }
  });

  test.each(["response.completed", "response.incomplete", "response.cancelled", "response.failed"])(
    "usage is read from %s",
    (type) => {
      const reader = open();
      read(reader, block("response.created", { response: response() }));
      expect(reader.usage).toBeNull();
      read(reader, block(type, { response: response({ usage: USAGE, error: { code: "c" } }) }));
      expect(reader.usage).toMatchObject({ inputTokens: 3, outputTokens: 4 });
    },
  );
});

describe("content events", () => {
  test.each([
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.reasoning_summary_text.delta",
    "response.function_call_arguments.delta",
    "response.refusal.delta",
    "response.audio.delta",
    "response.mcp_call.failed",
    "response.something.new",
  ])("%s passes byte for byte", (type) => {
    const text = `event: ${type}\ndata: {"type":"${type}", "delta":"gpt-6-eu","n":1.0}`;
    expect(read(open(), text)).toEqual({ phase: "content", replacement: null });
  });

  test("a missing event line is added", () => {
    const json = { type: "response.output_text.delta", delta: "hi", sequence_number: 3 };
    expect(told(open(), `data: ${JSON.stringify(json)}`)).toEqual({ event: json.type, json });
  });

  test("a wrong event name is corrected", () => {
    const json = { type: "response.output_text.delta", delta: "hi" };
    expect(told(open(), `event: message\ndata: ${JSON.stringify(json)}`)).toEqual({ event: json.type, json });
  });

  test("lifecycle events get a missing event line as well", () => {
    const json = { type: "response.completed", response: response({ model: "fast" }) };
    expect(told(open(), `data: ${JSON.stringify(json)}`)).toEqual({ event: json.type, json });
  });

  test("an inherited property name is treated as any other type", () => {
    expect(told(open(), block("constructor"))).toBe("dropped");
    expect(read(open(), block("response.constructor"))).toEqual({ phase: "content", replacement: null });
  });
});

describe("dropped events", () => {
  test("[DONE], which the gateway sends itself", () => {
    expect(told(open(), "data: [DONE]")).toBe("dropped");
  });

  test("an event without data", () => {
    expect(told(open(), "event: response.created")).toBe("dropped");
    expect(told(open(), "event: response.output_text.delta")).toBe("dropped");
  });

  test.each([
    "data: {",
    "data: nope",
    "data: {}",
    'data: {"type":7}',
    "event: error\ndata: nope",
    'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"hal',
  ])("an invalid event, which is counted: %j", (bad) => {
    const reader = open();
    expect(told(reader, bad)).toBe("dropped");
    expect(reader.badEvents).toBe(1);
  });

  describe.each([
    "codex.rate_limits",
    "codex.response.metadata",
    "responsesapi.websocket_timing",
    "realtime.some_event_of_theirs",
    "response.metadata",
    "keepalive",
  ])("%s, a private event of the upstream", (type) => {
    const json = JSON.stringify({ type, sequence_number: 9, plan_type: "pro" });

    test.each([
      ["as usual", block(type, { sequence_number: 9, plan_type: "pro" })],
      ["without its event line", `data: ${json}`],
      ["under another event name", `event: response.created\ndata: ${json}`],
      ["next to other lines", `id: 7\nevent: ${type}\ndata: ${json}`],
    ])("%s", (_, text) => {
      const reader = open();
      read(reader, block("response.output_text.done", { sequence_number: 3 }));
      expect(told(reader, text)).toBe("dropped");
      // The event is ignored: it is not counted as bad and takes no sequence number of the client's stream.
      expect([reader.badEvents, reader.isEnding()]).toEqual([0, true]);
      const [failed] = heard(reader.failure(new ApiError("server_error", "Broken."), "req_1"));
      expect(JSON.parse(failed?.data ?? "")).toMatchObject({ sequence_number: 4 });
    });
  });

  test("a type that would break out of its line", () => {
    const reader = open();
    expect(told(reader, `data: ${JSON.stringify({ type: "x\n\ndata: {}" })}`)).toBe("dropped");
    expect(reader.badEvents).toBe(1);
  });
});

describe("failures", () => {
  test("response.failed is a failure with the response's error", () => {
    const text = block("response.failed", {
      response: response({ status: "failed", error: { code: "server_is_overloaded", message: "m" } }),
    });
    expect(read(open(), text)).toEqual({
      phase: "failed",
      error: { code: "server_is_overloaded", type: null, param: null, message: "m" },
    });
  });

  test("an error event is a failure, with top-level or nested fields", () => {
    expect(read(open(), block("error", { code: "c", message: "m", param: null }))).toMatchObject({
      phase: "failed",
      error: { code: "c", message: "m" },
    });
    expect(read(open(), block("error", { error: { code: "c", message: "m" } }))).toMatchObject({
      phase: "failed",
      error: { code: "c", message: "m" },
    });
  });

  test("a failure without a reason is a server error", () => {
    expect(read(open(), block("response.failed", { response: response() }))).toEqual({
      phase: "failed",
      error: { code: "server_error", type: null, param: null, message: "" },
    });
  });

  test("a stream is ending after an event that closes an item, until another one begins", () => {
    const reader = open();
    const endings = ["output_text.delta", "output_text.done", "output_item.done", "output_item.added"].map(
      (type) => {
        read(reader, block(`response.${type}`));
        return reader.isEnding();
      },
    );
    expect(endings).toEqual([false, true, true, false]);
    // As sent by an upstream without `event:` lines.
    read(reader, `data: ${JSON.stringify({ type: "response.output_item.done" })}`);
    expect(reader.isEnding()).toBe(true);
  });

  test("a stream without a terminal event is never complete", () => {
    const reader = open();
    read(reader, block("response.output_text.delta", { delta: "hi" }));
    expect(reader.isCompleteWithoutTerminal("closed")).toBe(false);
  });
});

/** Required by the Open Responses schema. */
const KEYS = [
  "id",
  "object",
  "created_at",
  "completed_at",
  "status",
  "incomplete_details",
  "model",
  "previous_response_id",
  "instructions",
  "output",
  "error",
  "tools",
  "tool_choice",
  "truncation",
  "parallel_tool_calls",
  "text",
  "top_p",
  "presence_penalty",
  "frequency_penalty",
  "top_logprobs",
  "temperature",
  "reasoning",
  "usage",
  "max_output_tokens",
  "max_tool_calls",
  "store",
  "background",
  "service_tier",
  "metadata",
  "safety_identifier",
  "prompt_cache_key",
];

describe("the failure that the gateway writes", () => {
  const error = new ApiError("upstream_error", "It broke.");

  function failure(reader: StreamReader) {
    const events = heard(reader.failure(error, "req_0199"));
    expect(events.at(-1)).toMatchObject({ event: undefined, data: "[DONE]" });
    return events.slice(0, -1).map(({ event, data }) => {
      const json = JSON.parse(data);
      expect(json.type).toBe(event);
      expect(Object.keys(json.response)).toEqual(expect.arrayContaining(KEYS));
      return json;
    });
  }

  test("is exactly one response.failed with the whole response, then [DONE]", () => {
    const reader = open();
    read(reader, block("response.created", { sequence_number: 0, response: response({ tools: [1] }) }));
    const [failed, ...more] = failure(reader);
    expect(more).toEqual([]);
    expect(failed).toMatchObject({
      type: "response.failed",
      sequence_number: 1,
      response: {
        id: "resp_1",
        created_at: 5,
        model: "fast",
        status: "failed",
        tools: [1],
        error: { code: "server_error", message: "It broke." },
      },
    });
  });

  test("has the sequence number after the last event sent to the client", () => {
    const reader = open();
    read(reader, block("response.created", { sequence_number: 0, response: response() }));
    read(reader, block("response.output_text.delta", { delta: "x", sequence_number: 41 }));
    expect(failure(reader)[0].sequence_number).toBe(42);
    read(reader, `data: ${JSON.stringify({ type: "response.output_text.delta", sequence_number: 42 })}`);
    expect(failure(reader)[0].sequence_number).toBe(43);
  });

  test("replaces the upstream's failure, including its sequence number", () => {
    const reader = open();
    read(reader, block("response.output_text.delta", { delta: "x", sequence_number: 4 }));
    const theirs = response({ error: { code: "c", message: "org-CANARY" }, usage: USAGE });
    read(reader, block("response.failed", { sequence_number: 5, response: theirs }));
    const [failed, ...more] = failure(reader);
    expect(more).toEqual([]);
    expect(failed).toMatchObject({ sequence_number: 5, response: { id: "resp_1", usage: USAGE } });
    expect(JSON.stringify(failed)).not.toContain("CANARY");
  });

  test("counts the sent events if the upstream does not number them", () => {
    const reader = open();
    read(reader, block("response.created", { response: response() }));
    read(reader, block("codex.rate_limits", { plan_type: "pro" }));
    read(reader, block("response.output_text.delta", { delta: "x" }));
    read(reader, block("response.failed", { response: response() }));
    expect(failure(reader)[0].sequence_number).toBe(2);
  });

  test("has an error code of the Responses API, or the upstream's code", () => {
    const readCode = (code: ApiErrorCode) =>
      JSON.parse(heard(open().failure(new ApiError(code, "m"), "req_1"))[1]?.data ?? "").response.error.code;
    expect(readCode("upstream_timeout")).toBe("server_error");
    for (const code of ["insufficient_quota", "rate_limit_exceeded", ...UPSTREAM_CODES] as const) {
      expect(readCode(code)).toBe(code);
    }
  });

  test("is preceded by response.created if the client has received none", () => {
    const [created, failed, ...more] = failure(open());
    expect(more).toEqual([]);
    expect(created).toMatchObject({
      type: "response.created",
      sequence_number: 0,
      response: { status: "in_progress", error: null, model: "fast", created_at: 1_790_000_000 },
    });
    expect(failed).toMatchObject({
      type: "response.failed",
      sequence_number: 1,
      response: { status: "failed" },
    });
    expect(failed.response.id).toBe(created.response.id);
    expect(failed.response.id).toMatch(/^resp_/);
  });

  test("is complete even if the upstream's response was not", () => {
    const reader = open();
    read(reader, block("response.created", { sequence_number: 0, response: { id: "resp_1" } }));
    expect(failure(reader)[0].response).toMatchObject({ id: "resp_1", model: "fast", status: "failed" });
  });
});

describe("keep-alive by data events", () => {
  test("repeats response.in_progress with the state that the client knows", () => {
    const reader = open();
    expect(reader.progressEvent()).toBeNull();
    read(reader, block("response.created", { sequence_number: 0, response: response() }));
    const [event, ...more] = heard(reader.progressEvent() ?? new Uint8Array());
    expect(more).toEqual([]);
    expect(event?.event).toBe("response.in_progress");
    expect(JSON.parse(event?.data ?? "")).toEqual({
      type: "response.in_progress",
      sequence_number: 0,
      response: response({ model: "fast" }),
    });
  });
});

test("a long state of the response is not repeated, only its id", () => {
  const reader = open();
  const long = response({ instructions: "Be brief. ".repeat(200_000) });
  read(reader, block("response.created", { sequence_number: 4, response: long }));
  const [progress] = heard(reader.progressEvent() ?? new Uint8Array());
  expect(JSON.parse(progress?.data ?? "null")).toMatchObject({
    type: "response.in_progress",
    sequence_number: 4,
    response: { id: "resp_1", model: "fast", status: "in_progress", instructions: null },
  });
  const failure = reader.failure(new ApiError("upstream_error", "It failed."), "req_1");
  expect(failure.length).toBeLessThan(4_096);
  expect(JSON.parse(heard(failure)[0]?.data ?? "null")).toMatchObject({
    type: "response.failed",
    response: { id: "resp_1", status: "failed" },
  });
});
