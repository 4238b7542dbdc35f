/** Frames of `application/vnd.amazon.eventstream`. */

import { expect, test } from "bun:test";
import { crc32 } from "node:zlib";
import { encodeEventFrame } from "../../../simulator/cloud/encode-event-frame.ts";
import { partBytes, wholeBytesPart } from "../../base/parts.ts";
import { type EventFrame, type EventFrameFault, FrameSplitter } from "./event-frames.ts";

const FRAME_BYTES_MAX = 1024;
const HEADERS_MAX = 12;

function split(pieces: readonly Uint8Array[]): { frames: EventFrame[]; fault: EventFrameFault | null } {
  const splitter = new FrameSplitter({ frameBytesMax: FRAME_BYTES_MAX, headersMax: HEADERS_MAX });
  const frames: EventFrame[] = [];
  let fault: EventFrameFault | null = null;
  for (const piece of pieces) fault = splitter.push(wholeBytesPart(piece), (frame) => frames.push(frame));
  return { frames, fault };
}

const NAMES = [":message-type", ":event-type", ":exception-type"];

const STREAM = Buffer.concat([
  encodeEventFrame({ ":message-type": "event", ":event-type": "chunk" }, '{"bytes":"e30="}'),
  encodeEventFrame({}, ""),
  encodeEventFrame(
    { ":message-type": "exception", ":exception-type": "throttlingException" },
    "é".repeat(40),
  ),
]);

function describeFrames(frames: readonly EventFrame[]): unknown[] {
  return frames.map(({ headers, payload }) => [
    NAMES.flatMap((name) => headers.get(name) ?? []),
    Buffer.from(partBytes(payload)).toString(),
  ]);
}

test("a stream yields the same frames, wherever it is cut", () => {
  const whole = describeFrames(split([STREAM]).frames);
  expect(whole).toEqual([
    [["event", "chunk"], '{"bytes":"e30="}'],
    [[], ""],
    [["exception", "throttlingException"], "é".repeat(40)],
  ]);
  for (let first = 0; first <= STREAM.length; first++) {
    for (const gap of [1, 7, 12, 40]) {
      const second = Math.min(STREAM.length, first + gap);
      const pieces = [STREAM.subarray(0, first), STREAM.subarray(first, second), STREAM.subarray(second)];
      expect(describeFrames(split(pieces).frames)).toEqual(whole);
    }
  }
});

test("a stream that arrives byte by byte yields the same frames", () => {
  const pieces = Array.from(STREAM, (byte) => Uint8Array.of(byte));
  expect(describeFrames(split(pieces).frames)).toEqual(describeFrames(split([STREAM]).frames));
});

test("a flipped bit anywhere in a frame is a fault, and no frame follows it", () => {
  const frame = encodeEventFrame({ ":event-type": "chunk" }, "payload");
  for (let at = 0; at < frame.length; at++) {
    const broken = Buffer.concat([frame, frame]);
    broken[at] = (broken[at] ?? 0) ^ 0x10;
    const { frames, fault } = split([broken]);
    expect(frames).toEqual([]);
    expect(fault).toBe("corrupt");
  }
});

test("a frame over the limit is a fault before its payload arrives", () => {
  const frame = encodeEventFrame({ ":event-type": "chunk" }, "x".repeat(FRAME_BYTES_MAX));
  expect(split([frame.subarray(0, 12)])).toEqual({ frames: [], fault: "too_large" });
  expect(split([encodeEventFrame({}, "x".repeat(FRAME_BYTES_MAX - 16))]).fault).toBeNull();
});

test("headers of every type are skipped, and a header beyond its end is a fault", () => {
  const values = [[0], [1], [2, 9], [3, 0, 9], [4, 0, 0, 0, 9], [5, ...Array(8).fill(9)], [6, 0, 2, 9, 9]];
  const wide = [
    [8, ...Array(8).fill(9)],
    [9, ...Array(16).fill(9)],
    [7, 0, 2, 0x6f, 0x6b],
  ];
  const list = [...values, ...wide].map((value) => Buffer.from([1, 0x61, ...value]));
  expect(split([rawFrame(Buffer.concat(list))]).frames[0]?.headers.get("a")).toBe("ok");
  expect(split([rawFrame(Buffer.from([1, 0x61, 7, 0, 9, 0x6f]))]).fault).toBe("corrupt");
  expect(split([rawFrame(Buffer.from([1, 0x61, 10]))]).fault).toBe("corrupt");
});

test("a header is found by its whole name, and the last of several counts", () => {
  const frame = rawFrame(Buffer.concat([header("a", "1"), header("ab", "2"), header("a", "é")]));
  const { headers } = split([frame]).frames[0] ?? {};
  expect(["a", "ab", "abc", "b", ""].map((name) => headers?.get(name))).toEqual([
    "é",
    "2",
    undefined,
    undefined,
    undefined,
  ]);
});

test("a frame has a bounded number of headers", () => {
  const build = (count: number) => rawFrame(Buffer.concat(Array(count).fill(header("a", ""))));
  expect(split([build(HEADERS_MAX)])).toMatchObject({ frames: [{}], fault: null });
  expect(split([build(HEADERS_MAX + 1)])).toEqual({ frames: [], fault: "corrupt" });
});

function header(name: string, value: string): Buffer {
  const [nameBytes, valueBytes] = [Buffer.from(name), Buffer.from(value)];
  return Buffer.concat([
    Buffer.from([nameBytes.length]),
    nameBytes,
    Buffer.from([7, 0, valueBytes.length]),
    valueBytes,
  ]);
}

/** A frame with valid checksums around any header bytes. */
function rawFrame(headers: Buffer): Buffer {
  const frame = Buffer.alloc(16 + headers.length);
  frame.writeUInt32BE(frame.length, 0);
  frame.writeUInt32BE(headers.length, 4);
  frame.writeUInt32BE(crc32(frame.subarray(0, 8)), 8);
  headers.copy(frame, 12);
  frame.writeUInt32BE(crc32(frame.subarray(0, -4)), frame.length - 4);
  return frame;
}
