/**
 * Splits an upstream's byte stream into blocks of server-sent events, and parses one block. A block within one chunk
 * is passed on in place; only a block that spans chunks is copied.
 */

import { writeBytes } from "./bytes.ts";
import { hasByte, type Part, partsLength, wholeBytesPart } from "./parts.ts";

export type SseBlockKind = "event" | "comment";

/**
 * `bytes[end]` and `bytes[end + 1]` are always LF, so `subarray(start, end + 2)` can be forwarded unchanged. The
 * splitter never writes to the array again.
 */
export type OnSseBlock = (bytes: Uint8Array, start: number, end: number, kind: SseBlockKind) => void;

export interface SseSplitter {
  /** Returns false once a block exceeded the limit. No blocks are emitted from then on. */
  push(chunk: Part, onBlock: OnSseBlock): boolean;
  /** Returns the number of bytes of an unfinished block: 0 after a clean end. */
  end(): number;
}

export interface SseEvent {
  /** The `event` field; null when absent or empty. */
  type: Part | null;
  /** Null when the block has no `data` line. Several lines are joined by LF in a separate array. */
  data: Part | null;
}

const LF = 0x0a;
const CR = 0x0d;
const COLON = 0x3a;
const SPACE = 0x20;
const BYTE_ORDER_MARK = Uint8Array.of(0xef, 0xbb, 0xbf);
const CARRY_BYTES_MIN = 1024;
const NOTHING = new Uint8Array(0);

export function openSseSplitter(opts: { eventBytesMax: number }): SseSplitter {
  const { eventBytesMax } = opts;
  /** The unfinished block, in an array that grows by doubling, so that many small pieces cost linear time. */
  let carry = NOTHING;
  let carried = 0;
  let bomMatched = 0;
  let bomDecided = false;
  /** The last chunk ended in CR: a following LF belongs to it. */
  let afterCr = false;
  let overflowed = false;

  function push(chunk: Part, onBlock: OnSseBlock): boolean {
    if (overflowed) return false;
    if (!bomDecided) return pushFirst(chunk, onBlock);
    return split(afterCr || hasByte(chunk, CR) ? normalizeLineEnds(chunk) : chunk, onBlock);
  }

  function pushFirst(chunk: Part, onBlock: OnSseBlock): boolean {
    const { bytes, start, end } = chunk;
    const matchedBefore = bomMatched;
    let at = start;
    while (at < end && bomMatched < 3 && bytes[at] === BYTE_ORDER_MARK[bomMatched]) {
      at++;
      bomMatched++;
    }
    if (bomMatched < 3 && at === end) return true;
    bomDecided = true;
    if (bomMatched === 3) return push({ bytes, start: at, end }, onBlock);
    if (matchedBefore > 0) push({ bytes: BYTE_ORDER_MARK, start: 0, end: matchedBefore }, onBlock);
    return push(chunk, onBlock);
  }

  function normalizeLineEnds({ bytes, start, end }: Part): Part {
    const lines = new Uint8Array(end - start);
    let length = 0;
    for (let at = start; at < end; at++) {
      const c = bytes[at] ?? 0;
      if (c !== LF || !afterCr) lines[length++] = c === CR ? LF : c;
      afterCr = c === CR;
    }
    return { bytes: lines, start: 0, end: length };
  }

  function split({ bytes: chunk, start, end: chunkEnd }: Part, onBlock: OnSseBlock): boolean {
    let at = start;
    if (at === chunkEnd) return true;
    if (carried > 0) {
      const splitBlankLine = carry[carried - 1] === LF && chunk[at] === LF;
      at = splitBlankLine ? at + 1 : afterBlankLine(chunk, at, chunkEnd);
      if (at < 0) return carryOver(chunk, start, chunkEnd);
      if (carried + at - start - 2 > eventBytesMax) return overflow();
      append(chunk, start, at);
      const bytes = carry;
      const end = carried - 2;
      carry = NOTHING;
      carried = 0;
      onBlock(bytes, 0, end, classifyBlock(bytes, 0, end));
    }
    for (;;) {
      while (at < chunkEnd && chunk[at] === LF) at++;
      if (at === chunkEnd) return true;
      const next = afterBlankLine(chunk, at, chunkEnd);
      if (next < 0) return carryOver(chunk, at, chunkEnd);
      const end = next - 2;
      if (end - at > eventBytesMax) return overflow();
      onBlock(chunk, at, end, classifyBlock(chunk, at, end));
      at = next;
    }
  }

  function carryOver(chunk: Uint8Array, start: number, end: number): boolean {
    // A trailing LF may be the end of the block's last line, which does not count.
    const counted = chunk[end - 1] === LF ? end - 1 : end;
    if (carried + counted - start > eventBytesMax) return overflow();
    append(chunk, start, end);
    return true;
  }

  function append(chunk: Uint8Array, start: number, end: number): void {
    const length = carried + end - start;
    if (length > carry.length) {
      const grown = new Uint8Array(Math.max(CARRY_BYTES_MIN, 2 * length));
      writeBytes(grown, 0, carry, 0, carried);
      carry = grown;
    }
    carried = writeBytes(carry, carried, chunk, start, end);
  }

  function overflow(): boolean {
    overflowed = true;
    carry = NOTHING;
    carried = 0;
    return false;
  }

  return { push, end: () => (bomDecided ? carried : bomMatched) };
}

/** Returns -1 when no blank line ends in these bytes. */
function afterBlankLine(bytes: Uint8Array, from: number, end: number): number {
  const last = end - 1;
  let lf = bytes.indexOf(LF, from);
  while (lf >= 0 && lf < last) {
    if (bytes[lf + 1] === LF) return lf + 2;
    lf = bytes.indexOf(LF, lf + 1);
  }
  return -1;
}

/** A block that contains only comment lines is a comment. */
function classifyBlock(bytes: Uint8Array, start: number, end: number): SseBlockKind {
  let at = start;
  while (at < end) {
    if (bytes[at] !== COLON) return "event";
    at = lineEnd(bytes, at, end) + 1;
  }
  return "comment";
}

function lineEnd(bytes: Uint8Array, from: number, end: number): number {
  const lf = bytes.indexOf(LF, from);
  return lf < 0 || lf > end ? end : lf;
}

/** Parses a block as emitted by the splitter: lines end in LF, and none is blank. */
export function readEvent(bytes: Uint8Array, start: number, end: number): SseEvent {
  let type: Part | null = null;
  let data: Part | null = null;
  let lines: Part[] | null = null;
  for (let at = start; at < end; ) {
    const to = lineEnd(bytes, at, end);
    if (isData(bytes, at, to)) {
      const line: Part = { bytes, start: valueStart(bytes, at + 4, to), end: to };
      if (data === null) data = line;
      else if (lines === null) lines = [data, line];
      else lines.push(line);
    } else if (isEvent(bytes, at, to)) {
      const from = valueStart(bytes, at + 5, to);
      type = from < to ? { bytes, start: from, end: to } : null;
    }
    at = to + 1;
  }
  return { type, data: lines === null ? data : joinLines(lines) };
}

/** Whether the line is the `data` field, with or without a value. */
function isData(bytes: Uint8Array, at: number, end: number): boolean {
  return (
    end - at >= 4 &&
    bytes[at] === 0x64 &&
    bytes[at + 1] === 0x61 &&
    bytes[at + 2] === 0x74 &&
    bytes[at + 3] === 0x61 &&
    (end - at === 4 || bytes[at + 4] === COLON)
  );
}

function isEvent(bytes: Uint8Array, at: number, end: number): boolean {
  return (
    end - at >= 5 &&
    bytes[at] === 0x65 &&
    bytes[at + 1] === 0x76 &&
    bytes[at + 2] === 0x65 &&
    bytes[at + 3] === 0x6e &&
    bytes[at + 4] === 0x74 &&
    (end - at === 5 || bytes[at + 5] === COLON)
  );
}

/** Returns the position after the colon and one space, or the end of the line when there is no colon. */
function valueStart(bytes: Uint8Array, colon: number, end: number): number {
  if (colon >= end) return end;
  return colon + 1 < end && bytes[colon + 1] === SPACE ? colon + 2 : colon + 1;
}

function joinLines(lines: readonly Part[]): Part {
  const bytes = new Uint8Array(partsLength(lines) + lines.length - 1);
  let at = 0;
  for (const line of lines) {
    if (line !== lines[0]) bytes[at++] = LF;
    at = writeBytes(bytes, at, line.bytes, line.start, line.end);
  }
  return wholeBytesPart(bytes);
}

/**
 * Whether the block is exactly one `event:` and one `data:` line in the usual format, so that it can be forwarded
 * unchanged.
 */
export function isPlain({ type, data }: SseEvent, bytes: Uint8Array, start: number, end: number): boolean {
  if (type === null || data === null || data.bytes !== bytes) return false;
  return (
    type.start === start + "event: ".length && data.start === type.end + "\ndata: ".length && data.end === end
  );
}

/** `[DONE]`: the end of OpenAI's chat streams. */
export function isDone(data: Part): boolean {
  const { bytes, start } = data;
  return (
    data.end - start === 6 &&
    bytes[start] === 0x5b &&
    bytes[start + 1] === 0x44 &&
    bytes[start + 2] === 0x4f &&
    bytes[start + 3] === 0x4e &&
    bytes[start + 4] === 0x45 &&
    bytes[start + 5] === 0x5d
  );
}
