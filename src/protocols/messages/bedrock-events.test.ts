/** The frames of Amazon Bedrock as events of Messages. */

import { expect, test } from "bun:test";
import { encodeEventFrame } from "../../../simulator/cloud/encode-event-frame.ts";
import { partBytes, wholeBytesPart } from "../../base/parts.ts";
import { responseBounds } from "../../count-limits.ts";
import { BedrockEventDecoder } from "./bedrock-events.ts";

const EVENT_BYTES_MAX = 4096;

function chunk(data: string): Buffer {
  const payload = JSON.stringify({ bytes: Buffer.from(data).toString("base64"), p: "abc" });
  return encodeEventFrame({ ":message-type": "event", ":event-type": "chunk" }, payload);
}

function exception(type: string, message: string): Buffer {
  return encodeEventFrame(
    { ":message-type": "exception", ":exception-type": type },
    JSON.stringify({ message }),
  );
}

function decode(pieces: readonly Uint8Array[]): { text: string; fault: string | null } {
  const decoder = new BedrockEventDecoder({ eventBytesMax: EVENT_BYTES_MAX });
  let text = "";
  let fault: string | null = null;
  for (const piece of pieces) {
    const decoded = decoder.decode(wholeBytesPart(piece));
    if (decoded.events !== null) text += new TextDecoder().decode(partBytes(decoded.events));
    fault ??= decoded.fault;
  }
  return { text, fault };
}

const START = '{"type":"message_start","message":{"id":"msg_1","content":[]}}';
const DELTA = '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Zoë 你好"}}';
const STREAM = Buffer.concat([chunk(START), chunk(DELTA), exception("throttlingException", "Slow down.")]);
const EVENTS = `event: message_start\ndata: ${START}\n\nevent: content_block_delta\ndata: ${DELTA}\n\nevent: error\ndata: {"type":"error","error":{"type":"ThrottlingException","message":"Slow down."}}\n\n`;

test("chunks become the events they contain, byte for byte, wherever the stream is cut", () => {
  expect(decode([STREAM])).toEqual({ text: EVENTS, fault: null });
  for (let at = 0; at <= STREAM.length; at++)
    expect(decode([STREAM.subarray(0, at), STREAM.subarray(at)])).toEqual({ text: EVENTS, fault: null });
});

test("events of other types are skipped", () => {
  const initial = encodeEventFrame({ ":message-type": "event", ":event-type": "initial-response" }, "{}");
  expect(decode([initial, chunk(START)]).text).toBe(`event: message_start\ndata: ${START}\n\n`);
});

test("JSON over several lines stays one event", () => {
  expect(decode([chunk('{"type":\n"ping"}')]).text).toBe('event: ping\ndata: {"type":"ping"}\n\n');
});

test("an unmodelled error is an error event", () => {
  const headers = {
    ":message-type": "error",
    ":error-code": "InternalServerException",
    ":error-message": "Oops",
  };
  expect(decode([encodeEventFrame(headers, "")]).text).toBe(
    'event: error\ndata: {"type":"error","error":{"type":"InternalServerException","message":"Oops"}}\n\n',
  );
});

test.each([
  ["a chunk that is not JSON", encodeEventFrame({ ":message-type": "event", ":event-type": "chunk" }, "x")],
  ["a chunk whose bytes are not an event", chunk('{"delta":1}')],
  ["a chunk whose event has a name with a line break", chunk('{"type":"a\\nb"}')],
  ["a frame without a message type", encodeEventFrame({}, "{}")],
])("%s is a fault, and events before it are delivered", (_, frame) => {
  const decoded = decode([Buffer.concat([chunk(START), frame, chunk(DELTA)])]);
  expect(decoded).toEqual({ text: `event: message_start\ndata: ${START}\n\n`, fault: "corrupt" });
});

test("a frame that would take long to parse is a fault", () => {
  const values = `[${"0,".repeat(responseBounds.eventValuesMax)}0]`;
  const encode = (json: string) =>
    encodeEventFrame({ ":message-type": "event", ":event-type": "chunk" }, json);
  for (const frame of [encode(`{"bytes":"e30=","x":${values}}`), chunk(`{"type":"ping","x":${values}}`)]) {
    const decoder = new BedrockEventDecoder({ eventBytesMax: frame.length });
    expect(decoder.decode(wholeBytesPart(frame))).toEqual({ events: null, fault: "corrupt" });
  }
});

test("an event over the limit is a fault", () => {
  expect(decode([chunk(`{"type":"ping","filler":"${"x".repeat(EVENT_BYTES_MAX)}"}`)]).fault).toBe(
    "too_large",
  );
});

test("a frame of megabytes and a long message of an exception are not parsed", () => {
  const MIB = 1024 * 1024;
  const decoder = new BedrockEventDecoder({ eventBytesMax: 16 * MIB });
  const long = exception("throttlingException", "a".repeat(MIB));
  const { events } = decoder.decode(wholeBytesPart(long));
  expect(events && new TextDecoder().decode(partBytes(events))).toBe(
    'event: error\ndata: {"type":"error","error":{"type":"ThrottlingException","message":""}}\n\n',
  );
  const tooLong = chunk(`{"type":"ping","x":"${"a".repeat(4 * MIB)}"}`);
  expect(decoder.decode(wholeBytesPart(tooLong))).toEqual({ events: null, fault: "too_large" });
});
