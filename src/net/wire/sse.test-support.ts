/** Streams of events for tests: random text, cut anywhere, and what the splitter makes of it. */

import fc from "fast-check";
import { type Part, wholeBytesPart } from "../../base/parts.ts";
import { readEvent, type SseBlockKind, SseSplitter } from "./sse.ts";

export const LARGE = { eventBytesMax: 1_000_000, eventLinesMax: 1_000 };

/** One character per byte, so that arbitrary bytes can be compared as text. */
export function latin1(text: string): Uint8Array {
  return Uint8Array.from(text, (char) => char.charCodeAt(0));
}

export function text(bytes: Uint8Array, start: number, end: number): string {
  return Buffer.from(bytes.subarray(start, end)).toString("latin1");
}

export interface Block {
  bytes: Uint8Array;
  start: number;
  end: number;
  kind: SseBlockKind;
}

export function split(chunks: Uint8Array[], opts = LARGE): { blocks: Block[]; open: boolean; left: number } {
  const splitter = new SseSplitter(opts);
  const blocks: Block[] = [];
  let open = true;
  for (const chunk of chunks) {
    open = splitter.push(wholeBytesPart(chunk), (bytes, start, end, kind) =>
      blocks.push({ bytes, start, end, kind }),
    );
  }
  return { blocks, open, left: splitter.end() };
}

export function blockTexts(...chunks: string[]): string[] {
  return split(chunks.map(latin1)).blocks.map(({ bytes, start, end, kind }) =>
    kind === "comment" ? `(${text(bytes, start, end)})` : text(bytes, start, end),
  );
}

export function event(block: string): { type: string | null; data: string | null } {
  const { type, data } = readEvent(latin1(block), 0, block.length);
  const read = (slice: Part | null) => slice && text(slice.bytes, slice.start, slice.end);
  return { type: read(type), data: read(data) };
}

export function cutAt(bytes: Uint8Array, cuts: readonly number[]): Uint8Array[] {
  const places = cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b);
  return [0, ...places].map((from, i) => bytes.slice(from, places[i] ?? bytes.length));
}

const piece = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.constantFrom("data: ", "data:", "data", "event: ", "event:", "event", ":", "id: 1"),
  },
  {
    weight: 6,
    arbitrary: fc.constantFrom("\n", "\r", "\r\n", "\n\n", "\r\n\r\n", "\r\r", "x\n\n", "\r\n\r\ndata: "),
  },
  {
    weight: 3,
    arbitrary: fc.constantFrom("x", " ", "[DONE]", '{"a":1}', "\xef\xbb\xbf", "\xef", "\xc3\xa9"),
  },
  { weight: 1, arbitrary: fc.uint8Array({ maxLength: 4 }).map((bytes) => String.fromCharCode(...bytes)) },
);
/** Text of a stream, with many line ends. */
export const streams = fc.array(piece, { maxLength: 40, size: "max" }).map((pieces) => pieces.join(""));
/** Where to cut a stream into chunks. */
export const cuts = fc.array(fc.nat(), { maxLength: 12 });
