import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { decodeText } from "../../base/bytes.ts";
import { wholeBytesPart } from "../../base/parts.ts";
import { readEvent, SseSplitter } from "../../net/wire/sse.ts";
import { EventText, readMessageKind, type UpstreamMessageKind } from "./event-text.ts";

interface ParsedEvents {
  kinds: UpstreamMessageKind[];
  events: { type: string | null; json: unknown }[];
}

/** Parses the event stream that these messages of one read produce. */
function parseEvents(messages: readonly string[]): ParsedEvents {
  const text = new EventText();
  // As in one read: consecutive messages with frame heads between them.
  const read = Buffer.from(messages.map((message) => `\n\r${message}`).join(""));
  let at = 0;
  const kinds = messages.map((message) => {
    const start = at + 2;
    at = start + Buffer.byteLength(message);
    return text.add(read, start, at);
  });
  const events: ParsedEvents["events"] = [];
  const splitter = new SseSplitter({ eventBytesMax: 1_000_000, eventLinesMax: 1_000 });
  splitter.push(wholeBytesPart(text.take() ?? new Uint8Array(0)), (bytes, start, end) => {
    const { type, data } = readEvent(bytes, start, end);
    events.push({
      type: type && decodeText(type.bytes, type.start, type.end),
      json: data && JSON.parse(decodeText(data.bytes, data.start, data.end)),
    });
  });
  expect(splitter.end()).toBe(0);
  expect(text.take()).toBeNull();
  return { kinds, events };
}

const DELTA = "response.output_text.delta";

test("any event is converted unchanged, for any JSON formatting and position of its type", () => {
  const type = fc.constantFrom(DELTA, "response.created", "response.output_item.done", "response.queued");
  const fields = fc.dictionary(
    fc.string().filter((name) => !["type", "headers", "response", "__proto__"].includes(name)),
    fc.jsonValue(),
  );
  const message = fc.record({ type, fields, isFirst: fc.boolean(), indent: fc.constantFrom(0, 2, "\t") });
  fc.assert(
    fc.property(fc.array(message, { minLength: 1, maxLength: 6 }), (messages) => {
      const sent = messages.map((one) =>
        one.isFirst ? { type: one.type, ...one.fields } : { ...one.fields, type: one.type },
      );
      const written = sent.map((one, i) => JSON.stringify(one, null, messages[i]?.indent));
      const { kinds, events } = parseEvents(written);
      expect(kinds).toEqual(messages.map((one) => (one.type === "response.created" ? "created" : "event")));
      expect(events).toEqual(
        written.map((text) => {
          const json = JSON.parse(text);
          return { type: json.type, json };
        }),
      );
    }),
    { numRuns: 300 },
  );
});

describe("upstream messages", () => {
  const KINDS: [type: string, kind: UpstreamMessageKind][] = [
    ["response.completed", "terminal"],
    ["response.incomplete", "terminal"],
    ["response.failed", "terminal"],
    ["response.cancelled", "terminal"],
    ["response.created", "created"],
    ["response.in_progress", "event"],
    ["response.some_new_kind.of_event", "event"],
    ["error", "error"],
    ["response.metadata", "private"],
    ["codex.rate_limits", "private"],
    ["codex.response.metadata", "private"],
    ["responsesapi.websocket_timing", "private"],
    ["keepalive", "private"],
  ];
  for (const [type, kind] of KINDS) {
    test(`${type} is classified as ${kind}, also when repeated`, () => {
      for (const text of [JSON.stringify({ type, n: 1 }), JSON.stringify({ n: 1, type }, null, 1)]) {
        const { kinds, events } = parseEvents([text, text, text]);
        expect(kinds).toEqual([kind, kind, kind]);
        expect(readMessageKind(Buffer.from(text), 0, text.length)).toBe(kind);
        expect(events).toHaveLength(kind === "error" || kind === "private" ? 0 : 3);
      }
    });
  }

  test("a longer type does not match the previous type", () => {
    const { events } = parseEvents([
      `{"type":"${DELTA}"}`,
      `{"type":"${DELTA}.more"}`,
      `{"type":"${DELTA}"}`,
    ]);
    expect(events.map(({ type }) => type)).toEqual([DELTA, `${DELTA}.more`, DELTA]);
  });

  test("a message that is not an event has no name, and the reader drops it", () => {
    const text = new EventText();
    const add = (message: string) => text.add(Buffer.from(message), 0, Buffer.byteLength(message));
    for (const message of ["[DONE]", '{"no":"type"}', '{"type":"response.x\\ny"}', '{"type":"response.cut']) {
      expect(add(message)).toBe("event");
    }
    expect(Buffer.from(text.take() ?? []).toString()).not.toContain("event:");
  });

  test("a line break in a type cannot begin another event", () => {
    const hostile = '{"type":"response.a\nevent: response.completed\ndata: {}\n\n"}';
    const text = new EventText();
    text.add(Buffer.from(hostile), 0, hostile.length);
    expect(Buffer.from(text.take() ?? []).toString()).toMatch(/^data: [^\r\n]*\n\n$/);
  });

  test("forgotten events are not emitted, and later ones are", () => {
    const text = new EventText();
    const add = (message: string) => text.add(Buffer.from(message), 0, message.length);
    add(`{"type":"${DELTA}","delta":"a"}`);
    text.clear();
    expect(text.take()).toBeNull();
    add(`{"type":"${DELTA}","delta":"b"}`);
    expect(Buffer.from(text.take() ?? []).toString()).toBe(
      `event: ${DELTA}\ndata: {"type":"${DELTA}","delta":"b"}\n\n`,
    );
  });
});

test("a read is searched for line breaks once, for any number of messages", () => {
  const messages = Array.from(
    { length: 500 },
    (_, n) => `{"type":"${n % 2 ? DELTA : `${DELTA}s`}","n":${n}}`,
  );
  const read = new Counted(Buffer.from(messages.join("")));
  const text = new EventText();
  let at = 0;
  for (const { length } of messages) {
    text.add(read, at, at + length);
    at += length;
  }
  // Once for each kind of line break.
  expect(read.searched).toBe(2 * read.length);
});

test("a read is searched once, if other messages of several frames are between its messages", () => {
  const message = `{"type":"${DELTA}"}`;
  const read = new Counted(Buffer.from(message.repeat(500)));
  const text = new EventText();
  for (let at = 0; at < read.length; at += message.length) {
    text.add(read, at, at + message.length);
    text.add(Buffer.from(message), 0, message.length);
  }
  expect(read.searched).toBe(2 * read.length);
});

/** Counts the bytes that are examined in searches. */
class Counted extends Uint8Array {
  searched = 0;

  override indexOf(byte: number, from = 0): number {
    const at = super.indexOf(byte, from);
    this.searched += (at < 0 ? this.length : at) - from;
    return at;
  }
}
