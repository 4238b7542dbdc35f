/** Numbers in the arguments and results of tools that a double cannot hold: ids of 64 bits, exact decimals. */

import { describe, expect, test } from "bun:test";
import { parseLossless } from "../../json/lossless.ts";
import { lookUpCodec } from "../codecs.ts";
import { clientTarget, hubRequest, NO_TOOL_NAMES, writeTarget } from "./codec.test-support.ts";
import { DIALECT_LOSSES } from "./declared-losses.test-support.ts";
import type { Dialect } from "./hub-request.ts";
import { type Json, readObject } from "./json-values.ts";

const LONG = "9223372036854775807";
const ARGUMENTS = `{"id":${LONG},"price":0.12345678901234567}`;
const DIALECTS: readonly Dialect[] = ["chat", "responses", "messages", "gemini"];
const PAIRS = DIALECTS.flatMap((from) =>
  DIALECTS.filter((to) => to !== from).map((to): [Dialect, Dialect] => [from, to]),
);

/** The numbers as they stand in JSON, or in a JSON text inside of it. */
function expectLongNumbers(written: string): void {
  expect(written).toMatch(new RegExp(`id\\\\?":${LONG}\\b`));
  expect(written).toContain("0.12345678901234567");
}

/** A conversation with a call, and its result as an object, in the form of each dialect. */
const REQUESTS: Readonly<Record<Dialect, string>> = {
  chat: `{"messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"look_up","arguments":${JSON.stringify(ARGUMENTS)}}}]},{"role":"tool","tool_call_id":"c1","content":"ok"}]}`,
  responses: `{"input":[{"role":"user","content":"hi"},{"type":"function_call","call_id":"c1","name":"look_up","arguments":${JSON.stringify(ARGUMENTS)}},{"type":"function_call_output","call_id":"c1","output":"ok"}]}`,
  messages: `{"max_tokens":9,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"look_up","input":${ARGUMENTS}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"ok"}]}]}`,
  gemini: `{"contents":[{"role":"user","parts":[{"text":"hi"}]},{"role":"model","parts":[{"functionCall":{"name":"look_up","args":${ARGUMENTS}}}]},{"role":"user","parts":[{"functionResponse":{"name":"look_up","response":{"output":{"id":${LONG}}}}}]}]}`,
};

/** A whole response with a call. */
const RESPONSES: Readonly<Record<Dialect, string>> = {
  chat: `{"choices":[{"message":{"tool_calls":[{"id":"c1","function":{"name":"look_up","arguments":${JSON.stringify(ARGUMENTS)}}}]},"finish_reason":"tool_calls"}]}`,
  responses: `{"status":"completed","output":[{"type":"function_call","call_id":"c1","name":"look_up","arguments":${JSON.stringify(ARGUMENTS)}}]}`,
  messages: `{"content":[{"type":"tool_use","id":"c1","name":"look_up","input":${ARGUMENTS}}],"stop_reason":"tool_use"}`,
  gemini: `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"look_up","args":${ARGUMENTS}}}]},"finishReason":"STOP"}]}`,
};

/** The same as events. Those of Chat and Responses are whole responses, too: upstreams may send them. */
const STREAMS: Readonly<Record<Dialect, readonly string[]>> = {
  chat: [RESPONSES.chat.replace('"message"', '"delta"'), "[DONE]"],
  responses: [`{"type":"response.completed","response":${RESPONSES.responses}}`],
  messages: [
    '{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c1","name":"look_up","input":{}}}',
    `{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":${JSON.stringify(ARGUMENTS)}}}`,
    '{"type":"content_block_stop","index":0}',
    '{"type":"message_stop"}',
  ],
  gemini: [RESPONSES.gemini],
};

function parse(text: string): Json {
  return readObject(parseLossless(text)) ?? {};
}

describe.each(PAIRS)("from %s to %s, long numbers survive", (from, to) => {
  const losses = DIALECT_LOSSES.map(([, one]) => one).find(({ codec }) => codec.dialect === to);

  test("in the calls of a request", () => {
    const options = { publicModel: "public", stream: false };
    const request = lookUpCodec(from).readRequest(parse(REQUESTS[from]), options);
    const target = writeTarget(losses === undefined ? {} : { profile: losses.profile });
    expectLongNumbers(JSON.stringify(lookUpCodec(to).writeRequest(request, target).body));
  });

  test("in the calls of a whole response", () => {
    const response = lookUpCodec(from).readResponse(parse(RESPONSES[from]), NO_TOOL_NAMES);
    if (response === null) throw new Error("not a response");
    const client = clientTarget(hubRequest(to));
    expectLongNumbers(JSON.stringify(lookUpCodec(to).writeResponse(response, client)));
  });

  test("in the calls of a stream", () => {
    const reader = lookUpCodec(from).openStreamReader(NO_TOOL_NAMES);
    const writer = lookUpCodec(to).openStreamWriter(clientTarget(hubRequest(to)));
    const events = [...STREAMS[from].flatMap((data) => reader.read(data, null)), ...reader.close()];
    expectLongNumbers(events.map((event) => writer.write(event)).join(""));
  });
});

test("a result that is an object keeps its numbers as text", () => {
  const options = { publicModel: "public", stream: false };
  const request = lookUpCodec("gemini").readRequest(parse(REQUESTS.gemini), options);
  const output = request.items.find(({ kind }) => kind === "call_output");
  expect(output).toMatchObject({ parts: [{ text: `{"id":${LONG}}` }] });
});

test("limits in the schema of a tool keep their digits", () => {
  const schema = `{"type":"object","properties":{"id":{"type":"integer","maximum":${LONG}}}}`;
  const request = lookUpCodec("chat").readRequest(
    parse(
      `{"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"a","parameters":${schema}}}]}`,
    ),
    { publicModel: "public", stream: false },
  );
  for (const [, { codec, profile }] of DIALECT_LOSSES)
    expect(JSON.stringify(codec.writeRequest(request, writeTarget({ profile })).body)).toContain(
      `"maximum":${LONG}`,
    );
});
