import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { joinParts, wholeBytesPart } from "../base/parts.ts";
import { RESPONSES } from "../protocols/responses/responses-endpoints.ts";
import { readJsonRequest } from "../protocols/shared/json-request.ts";
import { type CreateFrame, readClientFrame } from "./client-frame.ts";
import type { RememberedTurns } from "./lane-memory.ts";
import { extendTurns, turnBody } from "./turn-body.ts";

const LIMITS = { jsonBodyBytesMax: 100_000, jsonDepthMax: 128 };
const NO_OUTPUT = { responseId: "resp_1", outputs: [], calls: [] };

function parseFrame(fields: object, space?: number): CreateFrame {
  const json = JSON.stringify({ type: "response.create", model: "m", ...fields }, null, space);
  const frame = readClientFrame("text", Buffer.from(json), 128);
  if (frame.kind !== "create") throw new Error(`read as ${frame.kind}`);
  return frame;
}

const parsed = (bytes: Uint8Array) => JSON.parse(Buffer.from(bytes).toString());
const buildBody = (
  frame: CreateFrame,
  kept: RememberedTurns | null,
  jsonBodyBytesMax = LIMITS.jsonBodyBytesMax,
) => turnBody(frame, kept, null, { ...LIMITS, jsonBodyBytesMax });
const user = (content: string) => ({ type: "message", role: "user", content });

const text = fc.string({ unit: "binary" }).map((value) => value.toWellFormed());
const item = fc.record({
  type: fc.constant("message"),
  role: fc.constantFrom("user", "assistant"),
  content: text,
});
const turn = fc.record({
  input: fc.option(fc.oneof(text, fc.array(item, { maxLength: 3 })), { nil: undefined }),
  outputs: fc.array(item, { maxLength: 3 }),
  space: fc.constantFrom(undefined, 1),
});

test("each turn sends all items of the previous turns in order, and its own", () => {
  fc.assert(
    fc.property(fc.array(turn, { minLength: 1, maxLength: 5 }), (turns) => {
      let kept: RememberedTurns | null = null;
      const items: unknown[] = [];
      for (const [i, { input, outputs, space }] of turns.entries()) {
        const frame = parseFrame(
          { input: i === 0 ? (input ?? []) : input, previous_response_id: "resp" },
          space,
        );
        const before = items.length;
        items.push(...(typeof input === "string" ? [user(input)] : (input ?? [])));
        const body = buildBody(frame, kept);
        if (kept !== null) {
          expect(parsed(body.bytes)).toEqual({ model: "m", stream: true, input: items });
          // What is sent to an upstream that remembers the previous turns.
          const request = readJsonRequest(wholeBytesPart(body.bytes), RESPONSES, {
            depthMax: 128,
            modelNameCharsMax: 64,
          });
          const tail = body.knownPrefix && request.body.forUpstreamAfter("up", body.knownPrefix);
          expect(parsed(joinParts(tail ?? []))).toEqual({
            model: "up",
            stream: true,
            previous_response_id: `resp_${i - 1}`,
            input: items.slice(before),
          });
        }
        items.push(...outputs);
        const outputBytes = outputs.map((output) => Buffer.from(JSON.stringify(output)));
        kept = extendTurns(kept, frame, { responseId: `resp_${i}`, outputs: outputBytes, calls: [] }, 128);
      }
    }),
    { numRuns: 200 },
  );
});

test("without a stored conversation, the body is the message without its WebSocket fields", () => {
  const frame = parseFrame({
    generate: true,
    stream_id: "a",
    stream: false,
    background: false,
    previous_response_id: "resp_1",
    input: "Hi",
  });
  const { bytes, knownPrefix } = buildBody(frame, null);
  expect(parsed(bytes)).toEqual({ model: "m", stream: true, previous_response_id: "resp_1", input: "Hi" });
  expect(knownPrefix).toBeNull();
});

describe("a tool output", () => {
  const output = (callId: unknown, type = "function_call_output") => ({ type, call_id: callId, output: "" });
  const call = (callId: string) => ({ type: "function_call", call_id: callId, name: "f", arguments: "{}" });
  const outputBytes = { responseId: "resp_1", outputs: [], calls: ["made"] };
  const kept = extendTurns(null, parseFrame({ input: [call("asked")] }), outputBytes, 128);

  test.each([
    ["of a call that was in the input", [output("asked")]],
    ["of a call that the model made", [output("made")]],
    ["of a custom call that the model made", [output("made", "custom_tool_call_output")]],
    ["of a call in the same input", [call("new"), output("new")]],
    ["without a call id", [output(null)]],
    ["of another kind of tool", [output("elsewhere", "computer_call_output")]],
  ])("%s is accepted", (_, input) => {
    expect(parsed(buildBody(parseFrame({ input }), kept).bytes).input).toHaveLength(1 + input.length);
  });

  test.each(["function_call_output", "custom_tool_call_output"])(
    "of an unknown call is rejected: %s",
    (type) => {
      expect(() => buildBody(parseFrame({ input: [output("nobody", type)] }), kept)).toThrow("nobody");
    },
  );

  test("is not validated without a stored conversation", () => {
    expect(() => buildBody(parseFrame({ input: [output("nobody")] }), null)).not.toThrow();
  });
});

describe("a stored conversation", () => {
  const after = (kept: RememberedTurns | null, input: unknown) =>
    extendTurns(kept, parseFrame({ input }), NO_OUTPUT, 128);

  test("of many short turns consists of few pieces, and counts its true size", () => {
    let kept: RememberedTurns | null = null;
    for (let i = 0; i < 3_000; i++) kept = after(kept, [user(`Number ${i}`)]);
    const json = parsed(buildBody(parseFrame({ input: [] }), kept, 1_000_000).bytes);
    expect(json.input.map(({ content }: { content: string }) => content)).toEqual(
      Array.from({ length: 3_000 }, (_, i) => `Number ${i}`),
    );
    expect(kept?.pieces.length).toBeLessThan(10);
    expect(kept?.bytes).toBeGreaterThan(JSON.stringify(json.input).length - 2);
  });

  test("of tool calls counts more than their JSON", () => {
    const calls = Array.from({ length: 1_000 }, (_, i) => ({ type: "function_call", call_id: `c${i}` }));
    expect(after(null, calls).bytes).toBeGreaterThan(JSON.stringify(calls).length + 50_000);
  });

  test("is not changed by another lane", () => {
    const shared = after(null, [user("One")]);
    const mine = after(shared, [user("Two")]);
    expect(
      [shared, mine].map((kept) => parsed(buildBody(parseFrame({ input: [] }), kept).bytes).input.length),
    ).toEqual([1, 2]);
  });

  test("knows the calls of all its pieces", () => {
    const call = (callId: string) => ({
      type: "function_call",
      call_id: callId,
      arguments: "x".repeat(40_000),
    });
    const kept = ["a", "b", "c"].reduce<RememberedTurns | null>(
      (before, id) => after(before, [call(id)]),
      null,
    );
    expect(kept?.pieces).toHaveLength(3);
    const outputs = (...ids: string[]) => ({
      input: ids.map((callId) => ({ type: "function_call_output", call_id: callId, output: "" })),
    });
    expect(() => buildBody(parseFrame(outputs("c", "a", "b")), kept, 1_000_000)).not.toThrow();
    expect(() => buildBody(parseFrame(outputs("c", "d", "a")), kept, 1_000_000)).toThrow("'d'");
  });
});

test("a conversation that is too long for one request is rejected before it is assembled", () => {
  const kept = extendTurns(null, parseFrame({ input: "x".repeat(60_000) }), NO_OUTPUT, 128);
  expect(() => buildBody(parseFrame({ input: "x".repeat(60_000) }), kept)).toThrow("exceeds");
});
