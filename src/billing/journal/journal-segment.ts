/**
 * Reads the bytes of one journal segment and verifies the checksum at the end of each line. Reading stops at the
 * first invalid line, because the content after it cannot be trusted.
 */

/** Separates the JSON of a line from its checksum. The JSON contains this byte only as an escape inside strings. */
export const CHECKSUM_MARK = 0x09;
export const CHECKSUM_DIGITS = 8;

const LINE_END = 0x0a;

interface SegmentText {
  lines: string[];
  /** 1 if the process died while it wrote a line. That write was never acknowledged. */
  torn: 0 | 1;
  /** Where the content was damaged after it was written; null if it is intact. */
  damage: SegmentDamage | null;
}

export interface SegmentDamage {
  /** The number of the first invalid line, from 1. */
  line: number;
  /** Bytes from that line to the end of the written content. */
  bytesLost: number;
}

export function checksum(bytes: Uint8Array): number {
  return Bun.hash.xxHash32(bytes);
}

export function readSegment(bytes: Buffer): SegmentText {
  const lines: string[] = [];
  let start = 0;
  for (;;) {
    const end = bytes.indexOf(LINE_END, start);
    if (end === -1 || !isWhole(bytes, start, end)) break;
    lines.push(bytes.toString("utf8", start, end - CHECKSUM_DIGITS - 1));
    start = end + 1;
  }
  const last = lastNonZero(bytes);
  if (last < start) return { lines, torn: 0, damage: null };
  const damage = isDamaged(bytes, start) ? { line: lines.length + 1, bytesLost: last + 1 - start } : null;
  return { lines, torn: damage === null ? 1 : 0, damage };
}

/**
 * A process that dies leaves zeros in place of the missing bytes of its last line, and nothing after that line. A
 * line without zeros and with a wrong checksum, or a valid line after a gap, is damage.
 */
function isDamaged(bytes: Buffer, start: number): boolean {
  const firstEnd = bytes.indexOf(LINE_END, start);
  const firstZero = bytes.indexOf(0, start);
  if (firstEnd !== -1 && (firstZero === -1 || firstEnd < firstZero)) return true;
  for (let end = firstEnd; end !== -1; end = bytes.indexOf(LINE_END, end + 1)) {
    const before = Math.max(bytes.lastIndexOf(LINE_END, end - 1), bytes.lastIndexOf(0, end - 1));
    if (before >= start && isWhole(bytes, before + 1, end)) return true;
  }
  return false;
}

/** `end` is the position of the line end. */
function isWhole(bytes: Buffer, start: number, end: number): boolean {
  const sumAt = end - CHECKSUM_DIGITS;
  if (sumAt - 1 < start || bytes[sumAt - 1] !== CHECKSUM_MARK) return false;
  const sum = Number.parseInt(bytes.toString("latin1", sumAt, end), 16);
  return sum === checksum(bytes.subarray(start, sumAt - 1));
}

function lastNonZero(bytes: Buffer): number {
  for (let at = bytes.length - 1; at >= 0; at--) if (bytes[at] !== 0) return at;
  return -1;
}
