/** Streams read the same however the network cuts them, and one that breaks off is never taken for a complete one. */

import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { decodeText } from "../../base/bytes.ts";
import { wholeBytesPart } from "../../base/parts.ts";
import { readEvent, SseSplitter } from "../../net/wire/sse.ts";
import { CHAT_CODEC } from "../chat/chat-codec.ts";
import { GEMINI_CODEC } from "../gemini/gemini-codec.ts";
import { MESSAGES_CODEC } from "../messages/messages-codec.ts";
import { RESPONSES_CODEC } from "../responses/responses-codec.ts";
import { clientTarget, functionStreams, hubRequest, NO_TOOL_NAMES } from "./codec.test-support.ts";
import type { DialectCodec } from "./dialect-codec.ts";
import type { HubEvent } from "./hub-response.ts";

const DIALECTS: readonly [string, DialectCodec][] = [
  ["Chat Completions", CHAT_CODEC],
  ["Responses", RESPONSES_CODEC],
  ["Messages", MESSAGES_CODEC],
  ["Gemini", GEMINI_CODEC],
];

function writeBytes(codec: DialectCodec, events: readonly HubEvent[]): Uint8Array {
  const writer = codec.openStreamWriter(clientTarget(hubRequest(codec.dialect)));
  return new TextEncoder().encode(events.map((event) => writer.write(event)).join(""));
}

/** Reads bytes as the gateway does, cut at these places. */
function readBytes(codec: DialectCodec, bytes: Uint8Array, cuts: readonly number[]): HubEvent[] {
  const splitter = new SseSplitter({ eventBytesMax: 1_000_000, eventLinesMax: 1_000 });
  const reader = codec.openStreamReader(NO_TOOL_NAMES);
  const read: HubEvent[] = [];
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).toSorted((a, b) => a - b), bytes.length];
  places.slice(1).forEach((end, at) => {
    // Copied, because the bytes of a socket are reused.
    const chunk = wholeBytesPart(bytes.slice(places[at], end));
    splitter.push(chunk, (block, from, to) => {
      const { type, data } = readEvent(block, from, to);
      if (data === null) return;
      const name = type === null ? null : decodeText(type.bytes, type.start, type.end);
      read.push(...reader.read(decodeText(data.bytes, data.start, data.end), name));
    });
  });
  return [...read, ...reader.close()];
}

/** What the client receives in any case: texts and calls, without the borders of deltas. */
function describeContent(events: readonly HubEvent[]): unknown[] {
  return events.flatMap((event): unknown[] => {
    if (event.type === "item_start") return [event.item];
    return event.type === "delta" ? [event.text] : [];
  });
}

describe.each(DIALECTS)("%s", (_, codec) => {
  test("reads a stream the same, wherever it is cut into chunks", () => {
    fc.assert(
      fc.property(functionStreams, fc.array(fc.nat(10_000), { maxLength: 20 }), (events, cuts) => {
        const bytes = writeBytes(codec, events);
        expect(readBytes(codec, bytes, cuts)).toEqual(readBytes(codec, bytes, []));
      }),
    );
  });

  test("reads a stream the same, byte by byte", () => {
    fc.assert(
      fc.property(functionStreams, (events) => {
        const bytes = writeBytes(codec, events);
        expect(readBytes(codec, bytes, Array.from(bytes.keys()))).toEqual(readBytes(codec, bytes, []));
      }),
      { numRuns: 20 },
    );
  });

  test("ends a stream that breaks off with one error, unless all of its content has arrived", () => {
    fc.assert(
      fc.property(functionStreams, fc.nat(10_000), (events, cut) => {
        const bytes = writeBytes(codec, events);
        const whole = readBytes(codec, bytes, []);
        const read = readBytes(codec, bytes.subarray(0, cut % (bytes.length + 1)), []);
        const ends = read.filter(({ type }) => type === "end" || type === "error");
        expect(ends).toHaveLength(1);
        expect(read.at(-1)).toBe(ends[0] as HubEvent);
        const content = describeContent(read);
        if (ends[0]?.type === "end") expect(content).toEqual(describeContent(whole));
        else expect(describeContent(whole).slice(0, content.length)).toEqual(content);
      }),
    );
  });
});
