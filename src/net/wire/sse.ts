/**
 * Splits an upstream's byte stream into blocks of server-sent events, and parses one block. A block within one chunk
 * is passed on in place; only a block that spans chunks is copied.
 */

import { NO_BYTES, writeBytes } from "../../base/bytes.ts";
import { hasByte, type Part, partsLength, wholeBytesPart } from "../../base/parts.ts";

export type SseBlockKind = "event" | "comment";

/**
 * `bytes[end]` and `bytes[end + 1]` are always LF, so `subarray(start, end + 2)` can be forwarded unchanged. The
 * splitter never writes to the array again.
 */
type OnSseBlock = (bytes: Uint8Array, start: number, end: number, kind: SseBlockKind) => void;

interface SseEvent {
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
/** Copying more into a larger array would take several milliseconds of the turn in which the block may end. */
const COPIED_CARRY_BYTES_MAX = 1024 * 1024;

/** A stream may begin with a byte order mark. After a block over the limit, nothing more is emitted. */
type SplitterPhase = "byte_order_mark" | "blocks" | "overflowed";

interface SseLimits {
  readonly eventBytesMax: number;
  /** Of one event: each line costs as much as many bytes. */
  readonly eventLinesMax: number;
}

/** A byte order mark is not part of the first block. It may arrive in several chunks. */
export class SseSplitter {
  readonly #eventBytesMax: number;
  readonly #eventLinesMax: number;
  #phase: SplitterPhase = "byte_order_mark";
  #markBytes = 0;
  /**
   * The unfinished block, in an array that grows by doubling, so that many small pieces cost linear time. A long block
   * gets an array for the longest one at once: memory that is not written is not used.
   */
  #carry = NO_BYTES;
  #carriedBytes = 0;
  /** The last chunk ended in CR: a following LF belongs to it. */
  #isAfterCr = false;

  constructor({ eventBytesMax, eventLinesMax }: SseLimits) {
    this.#eventBytesMax = eventBytesMax;
    this.#eventLinesMax = eventLinesMax;
  }

  /** Returns false once a block exceeded the limit. No blocks are emitted from then on. */
  push(chunk: Part, onBlock: OnSseBlock): boolean {
    switch (this.#phase) {
      case "blocks":
        return this.#split(
          this.#isAfterCr || hasByte(chunk, CR) ? this.#normalizeLineEnds(chunk) : chunk,
          onBlock,
        );
      case "byte_order_mark":
        return this.#skipByteOrderMark(chunk, onBlock);
      case "overflowed":
        return false;
    }
  }

  /** Returns the number of bytes of an unfinished block: 0 after a clean end. */
  end(): number {
    return this.#phase === "byte_order_mark" ? this.#markBytes : this.#carriedBytes;
  }

  #skipByteOrderMark(chunk: Part, onBlock: OnSseBlock): boolean {
    const { bytes, start, end } = chunk;
    const bytesBefore = this.#markBytes;
    let at = start;
    while (at < end && this.#markBytes < 3 && bytes[at] === BYTE_ORDER_MARK[this.#markBytes]) {
      at++;
      this.#markBytes++;
    }
    if (this.#markBytes < 3 && at === end) return true;
    this.#phase = "blocks";
    if (this.#markBytes === 3) return this.push({ bytes, start: at, end }, onBlock);
    // Earlier chunks began like a mark, but it was none: those bytes belong to the first block.
    if (bytesBefore > 0) this.push({ bytes: BYTE_ORDER_MARK, start: 0, end: bytesBefore }, onBlock);
    return this.push(chunk, onBlock);
  }

  #normalizeLineEnds({ bytes, start, end }: Part): Part {
    const lines = new Uint8Array(end - start);
    let isAfterCr = this.#isAfterCr;
    let length = 0;
    for (let at = start; at < end; at++) {
      const c = bytes[at] ?? 0;
      if (c !== LF || !isAfterCr) lines[length++] = c === CR ? LF : c;
      isAfterCr = c === CR;
    }
    this.#isAfterCr = isAfterCr;
    return { bytes: lines, start: 0, end: length };
  }

  #split({ bytes: chunk, start, end: chunkEnd }: Part, onBlock: OnSseBlock): boolean {
    if (start === chunkEnd) return true;
    let at = start;
    if (this.#carriedBytes > 0) {
      at = this.#findEndOfCarried(chunk, start, chunkEnd);
      if (at < 0) return this.#carryOver(chunk, start, chunkEnd);
      if (this.#carriedBytes + at - start - 2 > this.#eventBytesMax) return this.#overflow();
      this.#append(chunk, start, at);
      if (!this.#emitCarried(onBlock)) return false;
    }
    for (;;) {
      while (at < chunkEnd && chunk[at] === LF) at++;
      if (at === chunkEnd) return true;
      const next = afterBlankLine(chunk, at, chunkEnd);
      if (next < 0) return this.#carryOver(chunk, at, chunkEnd);
      if (!this.#emit(chunk, at, next - 2, onBlock)) return false;
      at = next;
    }
  }

  /** Returns the position after the carried block in the chunk; -1 when the block does not end in it. */
  #findEndOfCarried(chunk: Uint8Array, start: number, chunkEnd: number): number {
    const isBlankLineSplit = this.#carry[this.#carriedBytes - 1] === LF && chunk[start] === LF;
    return isBlankLineSplit ? start + 1 : afterBlankLine(chunk, start, chunkEnd);
  }

  #emitCarried(onBlock: OnSseBlock): boolean {
    // A view, because searches run to the end of an array.
    const bytes =
      this.#carry.length > COPIED_CARRY_BYTES_MAX ? this.#carry.subarray(0, this.#carriedBytes) : this.#carry;
    const end = this.#carriedBytes - 2;
    this.#dropCarried();
    return this.#emit(bytes, 0, end, onBlock);
  }

  #emit(bytes: Uint8Array, start: number, end: number, onBlock: OnSseBlock): boolean {
    if (end - start > this.#eventBytesMax || hasMoreLines(bytes, start, end, this.#eventLinesMax))
      return this.#overflow();
    onBlock(bytes, start, end, classifyBlock(bytes, start, end));
    return true;
  }

  #carryOver(chunk: Uint8Array, start: number, end: number): boolean {
    // A trailing LF may be the end of the block's last line, which does not count.
    const counted = chunk[end - 1] === LF ? end - 1 : end;
    if (this.#carriedBytes + counted - start > this.#eventBytesMax) return this.#overflow();
    this.#append(chunk, start, end);
    return true;
  }

  #append(chunk: Uint8Array, start: number, end: number): void {
    const length = this.#carriedBytes + end - start;
    if (length > this.#carry.length) {
      const grown = new Uint8Array(this.#capacityFor(length));
      writeBytes(grown, 0, this.#carry, 0, this.#carriedBytes);
      this.#carry = grown;
    }
    this.#carriedBytes = writeBytes(this.#carry, this.#carriedBytes, chunk, start, end);
  }

  #capacityFor(length: number): number {
    // With the blank line after the block.
    const longest = Math.max(length, this.#eventBytesMax + 2);
    if (length > COPIED_CARRY_BYTES_MAX) return longest;
    return Math.min(longest, Math.max(CARRY_BYTES_MIN, 2 * length));
  }

  #overflow(): false {
    this.#phase = "overflowed";
    this.#dropCarried();
    return false;
  }

  #dropCarried(): void {
    this.#carry = NO_BYTES;
    this.#carriedBytes = 0;
  }
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

function hasMoreLines(bytes: Uint8Array, start: number, end: number, linesMax: number): boolean {
  // No line is blank, so each takes two bytes.
  if (end - start < 2 * linesMax) return false;
  let lines = 1;
  for (let at = lineEnd(bytes, start, end); at < end && lines <= linesMax; at = lineEnd(bytes, at + 1, end))
    lines++;
  return lines > linesMax;
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

/** Exactly one `event:` and one `data:` line in the usual format, which is forwarded unchanged. */
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
