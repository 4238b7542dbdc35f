import { expect, test } from "bun:test";
import { createParser } from "eventsource-parser";
import { joinParts } from "../../base/parts.ts";
import { DONE, eventParts, formatEvent, KEEP_ALIVE } from "./sse-format.ts";

const utf8 = new TextEncoder();
const decoder = new TextDecoder();

test("an event has its type, its data and a blank line", () => {
  expect(decoder.decode(formatEvent("error", '{"é":1}'))).toBe('event: error\ndata: {"é":1}\n\n');
  expect(decoder.decode(formatEvent(null, utf8.encode('{"é":1}')))).toBe('data: {"é":1}\n\n');
});

test("JSON over several lines stays one event", () => {
  for (const json of ['{\n "a": 1\n}', '{\r\n "a": 1\r}']) {
    for (const data of [json, utf8.encode(json)]) {
      const seen: unknown[] = [];
      const parser = createParser({ onEvent: (event) => seen.push(JSON.parse(event.data)) });
      parser.feed(decoder.decode(formatEvent("x", data)));
      expect(seen).toEqual([{ a: 1 }]);
    }
  }
});

test("a client reads [DONE] as data and a keep-alive as a comment", () => {
  const seen: string[] = [];
  const parser = createParser({
    onEvent: (event) => seen.push(event.data),
    onComment: () => seen.push("comment"),
  });
  parser.feed(decoder.decode(KEEP_ALIVE) + decoder.decode(DONE));
  expect(seen).toEqual(["comment", "[DONE]"]);
});

test("JSON inside a larger array is written without the bytes around it", () => {
  const bytes = utf8.encode(`a\n{"b":1}\nc${"\n".repeat(1_000)}`);
  const eventText = (start: number, end: number) =>
    decoder.decode(joinParts(eventParts("x", [{ bytes, start, end }])));
  expect(eventText(2, 9)).toBe('event: x\ndata: {"b":1}\n\n');
  expect(eventParts("x", [{ bytes, start: 2, end: 9 }])).toContainEqual({ bytes, start: 2, end: 9 });
  expect(eventText(2, 11)).toBe('event: x\ndata: {"b":1} c\n\n');
});

test("a long event that is full of line breaks is written fast", () => {
  const json = utf8.encode(`[${"1,\n".repeat(2 * 1024 * 1024)}1]`);
  const runs = Array.from({ length: 4 }, () => {
    const before = process.cpuUsage();
    const bytes = formatEvent("x", json);
    const { user, system } = process.cpuUsage(before);
    expect(decoder.decode(bytes.subarray(0, 23))).toBe("event: x\ndata: [1, 1, 1");
    return (user + system) / 1_000;
  });
  // As text it took over 100 ms.
  expect(Math.min(...runs)).toBeLessThan(40);
});
