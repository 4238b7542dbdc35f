import { describe, expect, test } from "bun:test";
import { createParser } from "eventsource-parser";
import fc from "fast-check";
import { joinParts, wholeBytesPart } from "../../base/parts.ts";
import { ApiError } from "../../errors.ts";
import type { StreamReader } from "../shared/stream.ts";
import type { UpstreamError } from "../shared/upstream-error.ts";
import { type ChatReaderOptions, openChatReader } from "./chat-stream.ts";

const utf8 = new TextEncoder();
const ASKED = { hidesUsage: false };

function open(options: Partial<ChatReaderOptions> = {}): StreamReader {
  return openChatReader({ publicModel: "fast", hidesUsage: true, choices: 1, depthMax: 32, ...options });
}

interface Heard {
  /** The data of every event that is sent to the client. */
  data: string[];
  phases: string[];
  failed: UpstreamError | null;
}

/** Feeds events (without their blank line) to a reader, up to the first that ends the stream. */
function play(reader: StreamReader, blocks: readonly string[]): Heard {
  const heard: Heard = { data: [], phases: [], failed: null };
  const parser = createParser({ onEvent: ({ data }) => void heard.data.push(data) });
  for (const block of blocks) {
    const bytes = utf8.encode(`${block}\n\n`);
    const end = bytes.length - 2;
    const verdict = reader.read(bytes, 0, end);
    heard.phases.push(verdict.phase);
    if (verdict.phase === "failed") {
      heard.failed = verdict.error;
      break;
    }
    if (verdict.phase === "dropped") continue;
    parser.feed(new TextDecoder().decode(joinParts(verdict.replacement ?? [wholeBytesPart(bytes)])));
    if (verdict.phase === "terminal") break;
  }
  return heard;
}

const block = (json: unknown) => `data: ${JSON.stringify(json)}`;
const chunk = (change: Record<string, unknown> = {}) => ({
  id: "chatcmpl-1",
  object: "chat.completion.chunk",
  created: 1,
  model: "gpt-6-eu",
  choices: [{ index: 0, delta: { content: "hi" }, finish_reason: null }],
  ...change,
});
const role = chunk({
  choices: [{ index: 0, delta: { role: "assistant", content: "" }, finish_reason: null }],
});
const finish = (index = 0, reason = "stop") =>
  chunk({ choices: [{ index, delta: {}, finish_reason: reason }] });
const USAGE = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 };
const usageChunk = chunk({ choices: [], usage: USAGE });
const DONE = "data: [DONE]";

function jsonHeard(reader: StreamReader, chunks: readonly unknown[]): unknown[] {
  return play(reader, chunks.map(block)).data.map((text) => JSON.parse(text));
}

describe("an error within a chunk", () => {
  const error = {
    code: "overloaded",
    message: "org-secret is over capacity",
    metadata: { raw: "up-3.internal" },
  };
  const told = { code: "overloaded", message: "The model failed to respond." };

  test("of a choice is reduced to its code", () => {
    const failing = chunk({
      choices: [{ index: 0, delta: { content: "x" }, finish_reason: "error", error }],
    });
    const [first, second] = jsonHeard(open(), [chunk(), failing]);
    expect(first).toMatchObject({ choices: [{ delta: { content: "hi" } }] });
    expect(second).toMatchObject({ model: "fast", choices: [{ delta: { content: "x" }, error: told }] });
  });

  test.each([
    { x_groq: { error: "org-secret" }, ...chunk() },
    { choices: [{ index: 0, delta: { content: "x" }, error }], model: "gpt-6-eu" },
  ])("is redacted in every chunk that begins with it", (failing) => {
    const heard = jsonHeard(open(), [chunk(), failing, failing, failing]);
    expect(heard).toHaveLength(4);
    expect(JSON.stringify(heard)).not.toContain("org-secret");
  });

  test("of Groq is replaced by a message of the gateway, also next to usage", () => {
    const x_groq = { id: "req_1", error: "org-secret is over capacity" };
    const heard = jsonHeard(open(ASKED), [chunk(), { ...finish(), usage: USAGE, x_groq }]);
    expect(JSON.stringify(heard)).not.toContain("org-secret");
    expect(heard[1]).toMatchObject({ x_groq: { id: "req_1", error: "The model failed to respond." } });
    const { data } = play(
      open(ASKED),
      [chunk(), { ...finish(), usage: USAGE, x_groq }].map(block).concat(DONE),
    );
    expect(data.join()).not.toContain("org-secret");
    expect(data).toHaveLength(4);
  });
});

describe("the model name", () => {
  test("is the public model in every chunk", () => {
    const heard = jsonHeard(open(), [role, chunk(), chunk(), chunk({ id: "other" }), finish()]);
    expect(heard).toHaveLength(5);
    for (const json of heard) expect(json).toHaveProperty("model", "fast");
  });

  test("is replaced in place, and nothing else changes", () => {
    const text = '{"id":"x", "model" : "gpt-6-eu","n":1.50,"choices":[{"delta":{"content":"\\u00e9"}}]}';
    const { data } = play(open(), [`data: ${text}`, `data:${text}`]);
    expect(data).toEqual([text.replace("gpt-6-eu", "fast"), text.replace("gpt-6-eu", "fast")]);
  });

  test("is replaced if the upstream sends an empty one, or another one mid-stream", () => {
    const heard = jsonHeard(open(), [chunk({ model: "" }), chunk(), chunk({ model: "gpt-6-us" }), chunk()]);
    for (const json of heard) expect(json).toHaveProperty("model", "fast");
  });

  test("is not added if there is none", () => {
    const { model: _, ...nameless } = chunk();
    expect(jsonHeard(open(), [nameless, nameless])).toEqual([nameless, nameless]);
  });

  test("is unchanged within the text", () => {
    const said = chunk({ choices: [{ index: 0, delta: { content: '"model":"gpt-6-eu"' } }] });
    expect(jsonHeard(open(), [said, said])).toEqual([
      { ...said, model: "fast" },
      { ...said, model: "fast" },
    ]);
  });
});

describe("usage that the client did not request", () => {
  test("is read from the usage chunk, which is not sent to the client", () => {
    const reader = open();
    expect(jsonHeard(reader, [role, chunk(), finish(), usageChunk])).toHaveLength(3);
    expect(reader.usage).toMatchObject({ inputTokens: 3, outputTokens: 4 });
  });

  test("leaves no `usage:null` in any chunk", () => {
    const quiet = { ...chunk(), usage: null };
    const spaced = JSON.stringify(quiet).replace('"usage":null', '"usage": null');
    const { data } = play(open(), [block(quiet), block(quiet), `data: ${spaced}`]);
    expect(data).toHaveLength(3);
    for (const text of data) expect(JSON.parse(text)).toEqual({ ...chunk(), model: "fast" });
  });

  test("stays in a chunk with choices, where the vendor sends it unasked", () => {
    const reader = open();
    const both = { ...finish(), usage: USAGE };
    expect(jsonHeard(reader, [chunk(), both, usageChunk])).toEqual([
      { ...chunk(), model: "fast" },
      { ...both, model: "fast" },
    ]);
    expect(reader.usage).toMatchObject({ inputTokens: 3, outputTokens: 4 });
  });

  test("is removed if it comes before the model", () => {
    const early = { usage: null, ...chunk() };
    for (const json of jsonHeard(open(), [early, early, early])) expect(json).not.toHaveProperty("usage");
  });

  test("is the last one reported", () => {
    const reader = open();
    const growing = [1, 2, 3].map((count) => ({
      ...chunk(),
      usage: { ...USAGE, completion_tokens: count, total_tokens: USAGE.prompt_tokens + count },
    }));
    jsonHeard(reader, growing);
    expect(reader.usage?.outputTokens).toBe(3);
    jsonHeard(reader, [{ ...chunk(), usage: {} }]);
    expect(reader.usage?.outputTokens).toBe(3);
  });

  test("is early until all finish reasons arrived, and if more content followed", () => {
    const early = { ...chunk(), usage: { prompt_tokens: 3, completion_tokens: 0 } };
    const reader = open();
    jsonHeard(reader, [early]);
    expect(reader.usage).toMatchObject({ outputTokens: 0, isEarly: true });
    jsonHeard(reader, [chunk(), finish()]);
    expect(reader.usage).toMatchObject({ outputTokens: 0, isEarly: true });
    jsonHeard(reader, [usageChunk]);
    expect(reader.usage).toMatchObject({ outputTokens: 4, isEarly: false });
  });

  test("is read from a final error, with or without an event name, and is not early", () => {
    for (const name of ["", "event: error\n"]) {
      const reader = open();
      jsonHeard(reader, [role, chunk()]);
      play(reader, [name + block({ error: { message: "m" }, usage: USAGE })]);
      expect(reader.usage).toMatchObject({ inputTokens: 3, outputTokens: 4, isEarly: false });
    }
  });

  test("may be an explicit 0", () => {
    const reader = open();
    jsonHeard(reader, [chunk(), chunk({ choices: [], usage: { prompt_tokens: 0, completion_tokens: 0 } })]);
    expect(reader.usage).toMatchObject({ inputTokens: 0, outputTokens: 0 });
  });
});

describe("usage that the client requested", () => {
  test("is sent in its own chunk, with `usage:null` in the others", () => {
    const quiet = { ...chunk(), usage: null };
    const last = { ...finish(), usage: null };
    const reader = open(ASKED);
    expect(jsonHeard(reader, [quiet, last, usageChunk])).toEqual([
      { ...quiet, model: "fast" },
      { ...last, model: "fast" },
      { ...usageChunk, model: "fast" },
    ]);
    expect(reader.usage).toMatchObject({ inputTokens: 3, outputTokens: 4 });
  });

  const both = { ...finish(), usage: USAGE };
  const quiet = { ...finish(), usage: null, model: "fast" };
  const told = (usage: object) => ({ ...finish(), choices: [], usage, model: "fast" });
  const readData = (reader: StreamReader, blocks: readonly string[]) =>
    play(reader, blocks).data.map((data) => (data === "[DONE]" ? data : JSON.parse(data)));

  test("is sent in its own chunk before the end if it arrived with a choice", () => {
    const reader = open(ASKED);
    expect(readData(reader, [block(chunk()), block(both), DONE])).toEqual([
      { ...chunk(), model: "fast" },
      quiet,
      told(USAGE),
      "[DONE]",
    ]);
    expect(reader.usage).toMatchObject({ inputTokens: 3, outputTokens: 4, isEarly: false });
  });

  test("is sent once, with the last counts, if it arrived with every chunk", () => {
    const growing = [1, 2].map((count) =>
      block({
        ...both,
        usage: { ...USAGE, completion_tokens: count, total_tokens: USAGE.prompt_tokens + count },
      }),
    );
    expect(readData(open(ASKED), [...growing, block(chunk()), block(both), DONE])).toEqual([
      quiet,
      quiet,
      { ...chunk(), model: "fast" },
      quiet,
      told(USAGE),
      "[DONE]",
    ]);
  });

  test("is not sent twice if its own chunk follows", () => {
    expect(readData(open(ASKED), [block(chunk()), block(both), block(usageChunk), DONE])).toEqual([
      { ...chunk(), model: "fast" },
      quiet,
      { ...usageChunk, model: "fast" },
      "[DONE]",
    ]);
  });

  test("is sent last if it arrived before the response ended", () => {
    expect(readData(open(ASKED), [block(usageChunk), block(chunk()), block(finish()), DONE])).toEqual([
      { ...chunk(), model: "fast" },
      { ...finish(), model: "fast" },
      { ...usageChunk, model: "fast" },
      "[DONE]",
    ]);
  });

  test("is sent even if the upstream omits [DONE]", () => {
    const reader = open(ASKED);
    play(reader, [block(chunk()), block(both)]);
    expect(reader.isCompleteWithoutTerminal("closed")).toBe(true);
    expect(Buffer.from(reader.endMarker ?? []).toString()).toBe(`${block(told(USAGE))}\n\n${DONE}\n\n`);
  });

  test("keeps every other byte of its chunk", () => {
    const text = `{ "id":"x","big":12345678901234567890, "choices" : [{"delta":{"content":"a"}}], "usage" : {"a":1.0},"model":"up" }`;
    const { data } = play(open(ASKED), [`data: ${text}`, DONE]);
    expect(data).toEqual([
      `{ "id":"x","big":12345678901234567890, "choices" : [{"delta":{"content":"a"}}], "usage" : null,"model":"fast" }`,
      `{ "id":"x","big":12345678901234567890, "choices" : [], "usage" : {"a":1.0},"model":"fast" }`,
      "[DONE]",
    ]);
  });

  test("is not invented if the upstream reports none", () => {
    expect(readData(open(ASKED), [block(chunk()), block(finish()), DONE])).toHaveLength(3);
  });
});

describe("detection of content", () => {
  const phases = (json: unknown) => play(open(), [block(json)]).phases;
  const delta = (value: unknown) => chunk({ choices: [{ index: 0, delta: value, finish_reason: null }] });

  test.each([
    ["a role alone", delta({ role: "assistant" })],
    ["a role with empty content", role],
    ["null fields", delta({ role: "assistant", content: null, refusal: null, tool_calls: [] })],
    ["no choices yet", chunk({ choices: [], prompt_filter_results: [] })],
    ["a finish reason without text", finish()],
  ])("%s is not content", (_, json) => {
    expect(phases(json)).toEqual(["lifecycle"]);
  });

  test.each([
    ["text", delta({ content: "a" })],
    ["text with a role", delta({ role: "assistant", content: "a" })],
    ["reasoning", delta({ reasoning_content: "hm" })],
    ["a refusal", delta({ refusal: "no" })],
    ["a tool call", delta({ tool_calls: [{ index: 0, id: "c", function: { name: "f", arguments: "" } }] })],
  ])("%s is content", (_, json) => {
    expect(phases(json)).toEqual(["content"]);
  });

  test("everything after the first content is content", () => {
    expect(play(open(), [role, chunk(), role].map(block)).phases).toEqual([
      "lifecycle",
      "content",
      "content",
    ]);
  });

  test("chunks of a tool call pass with their argument fragments", () => {
    const call = (piece: unknown) => delta({ tool_calls: [{ index: 0, ...Object(piece) }] });
    const chunks = [
      role,
      call({ id: "call_1", type: "function", function: { name: "f", arguments: "" } }),
      call({ function: { arguments: '{"usage":null,"finish_reason":"' } }),
      call({ function: { arguments: '"error"}' } }),
      finish(0, "tool_calls"),
    ];
    expect(jsonHeard(open(), chunks)).toEqual(chunks.map((json) => ({ ...json, model: "fast" })));
  });
});

describe("errors instead of chunks", () => {
  test("a chunk with an error fails the stream", () => {
    const heard = play(open(), [block(chunk()), block({ error: { code: "overloaded", message: "m" } })]);
    expect(heard.failed).toEqual({ code: "overloaded", type: null, param: null, message: "m" });
  });

  test("an error in a chunk that begins like the others fails the stream", () => {
    const broken = {
      ...chunk(),
      choices: [{ index: 0, delta: { content: "" }, finish_reason: "error" }],
      error: { code: 502, message: "m" },
    };
    const heard = play(open(), [block(chunk()), block(chunk()), block(broken)]);
    expect(heard.failed).toMatchObject({ code: "502", message: "m" });
    expect(heard.data).toHaveLength(2);
  });

  test.each([
    ["has an error event name", 'event: error\ndata: {"message":"m","code":500}', "500"],
    ["has the object error", 'data: {"object":"error","message":"m","code":503}', "503"],
    ["has the type error", 'data: {"type":"error","message":"m","code":"c"}', "c"],
  ])("an error with top-level fields fails the stream if it %s", (_, text, code) => {
    const heard = play(open(), [block(chunk()), text]);
    expect(heard.failed).toMatchObject({ code, message: "m" });
  });

  test("a null error is no error", () => {
    expect(play(open(), [block({ ...chunk(), error: null })]).failed).toBeNull();
  });

  test("the word error in a text is no error", () => {
    const said = chunk({ choices: [{ index: 0, delta: { content: 'an "error": {}' } }] });
    expect(play(open(), [block(said), block(said)]).phases).toEqual(["content", "content"]);
  });
});

describe("invalid events", () => {
  test.each([
    "data: {not json",
    "data: ",
    "data: [1]",
    "data: null",
    `data: ${JSON.stringify(chunk()).slice(0, -1)}`,
  ])("%s is dropped and counted, and the stream continues", (bad) => {
    const reader = open();
    const { data, phases } = play(reader, [block(chunk()), bad, block(chunk()), DONE]);
    expect(data).toHaveLength(3);
    expect(phases).toEqual(["content", "dropped", "content", "terminal"]);
    expect(reader.badEvents).toBe(1);
  });

  test("an event without data is dropped", () => {
    const reader = open();
    expect(play(reader, ["event: ping", "id: 7", "retry: 10"]).phases).toEqual([
      "dropped",
      "dropped",
      "dropped",
    ]);
    expect(reader.badEvents).toBe(0);
  });

  test("a chunk in several data lines stays one event", () => {
    const lines = JSON.stringify(chunk(), null, 1)
      .split("\n")
      .map((line) => `data: ${line}`)
      .join("\n");
    const { data } = play(open(), [lines, lines, lines]);
    expect(data.map((text) => JSON.parse(text))).toEqual(Array(3).fill({ ...chunk(), model: "fast" }));
  });
});

describe("the end of a chat stream", () => {
  test("[DONE] after content completes the stream", () => {
    const reader = open();
    const heard = play(reader, [block(chunk()), block(finish()), DONE]);
    expect(heard.phases.at(-1)).toBe("terminal");
    expect(heard.data.at(-1)).toBe("[DONE]");
    expect(reader.outcome).toBe("completed");
  });

  test("[DONE] without a finish reason completes the stream", () => {
    const reader = open();
    play(reader, [block(chunk()), DONE]);
    expect(reader.outcome).toBe("completed");
  });

  test("[DONE] without content is a failure", () => {
    expect(play(open(), [DONE]).failed).not.toBeNull();
    expect(play(open(), [block(role), DONE]).failed).not.toBeNull();
    expect(play(open(), [block(usageChunk), DONE]).failed).not.toBeNull();
  });

  test("without [DONE], the stream is complete once the choice has a finish reason", () => {
    const reader = open();
    play(reader, [block(chunk())]);
    expect(reader.isCompleteWithoutTerminal("closed")).toBe(false);
    expect(reader.outcome).toBe("failed");
    play(reader, [block(finish())]);
    expect(reader.isCompleteWithoutTerminal("closed")).toBe(true);
    expect(reader.outcome).toBe("completed");
  });

  test("all of several choices must have a finish reason", () => {
    const reader = open({ choices: 3 });
    play(reader, [finish(0), finish(0), finish(2)].map(block));
    expect([reader.isCompleteWithoutTerminal("closed"), reader.isEnding()]).toEqual([false, false]);
    play(reader, [block(finish(1))]);
    expect([reader.isCompleteWithoutTerminal("closed"), reader.isEnding()]).toEqual([true, true]);
  });

  test("several choices may finish in one chunk", () => {
    const reader = open({ choices: 2 });
    const both = chunk({
      choices: [
        { index: 0, delta: {}, finish_reason: "stop" },
        { index: 1, delta: {}, finish_reason: "length" },
      ],
    });
    play(reader, [block(chunk()), block(both)]);
    expect(reader.isCompleteWithoutTerminal("closed")).toBe(true);
  });

  test("the finish reason is found with any whitespace in the JSON", () => {
    const reader = open();
    const spaced = JSON.stringify(finish()).replaceAll('":', '" : ');
    play(reader, [block(chunk()), `data: ${spaced}`]);
    expect(reader.isCompleteWithoutTerminal("closed")).toBe(true);
  });

  test("a stream that broke off ends with one error chunk and no [DONE]", () => {
    const error = new ApiError("upstream_error", "It broke.");
    const text = new TextDecoder().decode(open().failure(error, "req_1"));
    expect(text.endsWith("\n\n")).toBe(true);
    expect(text).not.toContain("[DONE]");
    expect(JSON.parse(text.replace(/^data: /, ""))).toEqual({
      error: {
        message: "It broke.",
        type: "server_error",
        param: null,
        code: "upstream_error",
        request_id: "req_1",
      },
    });
  });

  test("a chat stream has no keep-alive event", () => {
    expect(open().progressEvent()).toBeNull();
  });
});

/** A reference implementation that parses each chunk, without regard to speed or bytes. */
function plainReading(blocks: readonly string[], hidesUsage: boolean): unknown[] {
  const heard: unknown[] = [];
  let untold: unknown[] = [];
  let isFinished = false;
  for (const text of blocks.map((line) => line.replace(/^data: /, ""))) {
    if (text === "[DONE]") return [...heard, ...untold, "[DONE]"];
    let json: Record<string, unknown>;
    try {
      json = JSON.parse(text);
    } catch {
      continue;
    }
    if (json.error !== undefined && json.error !== null) return [...heard, "failed"];
    const choices = json.choices;
    const silent = choices === undefined || (Array.isArray(choices) && choices.length === 0);
    const counted = typeof json.usage === "object" && json.usage !== null;
    if (counted && silent && hidesUsage) continue;
    const named = typeof json.model === "string" ? { ...json, model: "fast" } : json;
    const { usage, ...rest } = named;
    if (Array.isArray(choices)) isFinished ||= choices.some((one) => typeof one.finish_reason === "string");
    if (counted && silent && !isFinished) {
      untold = [named];
      continue;
    }
    if (usage === undefined || (hidesUsage && !counted)) heard.push(rest);
    else if (!hidesUsage && counted && !silent) heard.push({ ...named, usage: null });
    else heard.push(named);
    if (counted && !hidesUsage) untold = silent ? [] : [{ ...named, choices: [] }];
  }
  return heard;
}

test("any sequence of chunks is read like by the reference implementation", () => {
  const text = fc.oneof(
    fc.string({ unit: "binary" }),
    fc.constantFrom('"usage":null}', '"error"', '"finish_reason":"stop"', '\\"model\\":', ',"usage":null}'),
  );
  const choice = fc.record(
    {
      index: fc.nat(2),
      delta: fc.oneof(
        fc.record({ content: text }),
        fc.record({ role: text, tool_calls: fc.array(fc.record({ arguments: text })) }),
      ),
      finish_reason: fc.constantFrom(null, "stop", "length"),
    },
    { requiredKeys: ["delta"] },
  );
  const usage = fc.oneof(
    fc.constantFrom(null, {}, { prompt_tokens: 1, completion_tokens: 2 }),
    fc.record({ prompt_tokens: fc.nat(), completion_tokens: fc.nat() }),
  );
  const members = fc.record(
    {
      id: fc.constantFrom("a", "b"),
      model: fc.oneof(fc.constantFrom("gpt-6-eu", "", null), text),
      choices: fc.array(choice, { maxLength: 2 }),
      usage,
      error: fc.constantFrom(null, null, null, null, null, { message: "m" }),
      extra: fc.record({ usage: text, error: text }),
    },
    { requiredKeys: ["choices"] },
  );
  const shuffled = fc.tuple(members, fc.infiniteStream(fc.nat())).map(([json, ranks]) =>
    Object.fromEntries(
      Object.entries(json)
        .map((entry) => ({ entry, rank: ranks.next().value ?? 0 }))
        .sort((a, b) => a.rank - b.rank)
        .map(({ entry }) => entry),
    ),
  );
  const usual = members.map((json) => ({ id: "a", model: "gpt-6-eu", ...json }));
  const line = fc.oneof(
    { weight: 8, arbitrary: fc.oneof(usual, shuffled).map(block) },
    {
      weight: 1,
      arbitrary: fc.constantFrom("data: {", "data: nope", 'data: {"id":"a","model":"gpt-6-eu"', DONE),
    },
  );
  fc.assert(
    fc.property(fc.array(line, { maxLength: 12 }), fc.boolean(), (lines, hidesUsage) => {
      // A first chunk with content, so that [DONE] never ends an empty response.
      const blocks = [block(chunk()), ...lines];
      const { data, failed } = play(open({ hidesUsage }), blocks);
      const heard = data.map((said) => (said === "[DONE]" ? said : JSON.parse(said)));
      expect(failed === null ? heard : [...heard, "failed"]).toEqual(plainReading(blocks, hidesUsage));
    }),
    { numRuns: 400 },
  );
});

test("a stream keeps a number and a short reason of each choice, whatever they are", () => {
  const reader = open({ choices: 2 });
  const chunk = (index: unknown, finish_reason: string) =>
    `data: ${JSON.stringify({ id: "c", model: "m", choices: [{ index, delta: { content: "a" }, finish_reason }] })}`;
  play(reader, [chunk("x".repeat(100_000), "y".repeat(100_000)), chunk(["z"], "stop")]);
  expect(reader.describe?.().finishReasons).toEqual(["y".repeat(64)]);
  expect(reader.isEnding()).toBeFalse();
  play(reader, [chunk(1, "stop")]);
  expect(reader.isEnding()).toBeTrue();
});
