import { expect, test } from "bun:test";
import { wholeBytesPart } from "../../base/parts.ts";
import { responseBounds } from "../../count-limits.ts";
import { findEventFault, PARSED_EVENT, parseWithin, SCANNED_EVENT } from "./event-bounds.ts";

const { eventValuesMax, eventParsedBytesMax, scannedEventValuesMax, scannedEventBytesMax } = responseBounds;
const values = (count: number) => `[${"0,".repeat(count - 1)}0]`;
const part = (text: string) => wholeBytesPart(Buffer.from(text));

test.each([
  ["JSON values in one event", eventValuesMax, PARSED_EVENT, values],
  ["bytes of JSON in one event", eventParsedBytesMax, PARSED_EVENT, (n: number) => " ".repeat(n)],
  ["bytes of JSON in one event", scannedEventBytesMax, SCANNED_EVENT, (n: number) => " ".repeat(n)],
  ["JSON values in one event", scannedEventValuesMax, SCANNED_EVENT, values],
] as const)("an event has bounded %s (%d)", (what, max, bounds, build) => {
  const find = (count: number) => findEventFault(part(build(count)), bounds);
  expect(find(max)).toBeNull();
  expect(find(max + 1)).toEqual({ max, what });
});

test("a long plain string has any length and contains no values", () => {
  const event = part(`{"a":"${"[{,".repeat(scannedEventBytesMax)}"}`);
  for (const bounds of [PARSED_EVENT, SCANNED_EVENT]) expect(findEventFault(event, bounds)).toBeNull();
});

test("a long name counts, because it is decoded", () => {
  const event = (length: number) => part(`{"${"a".repeat(length)}" : 1}`);
  expect(findEventFault(event(eventParsedBytesMax - 16), PARSED_EVENT)).toBeNull();
  const what = "bytes of JSON in one event";
  expect(findEventFault(event(eventParsedBytesMax), PARSED_EVENT)).toEqual({
    max: eventParsedBytesMax,
    what,
  });
});

test("a part of an event is parsed if it is within the bounds", () => {
  expect(parseWithin(part('{"a":1}'))).toEqual({ a: 1 });
  expect(parseWithin(part(values(eventValuesMax + 1)))).toBeNull();
});
