/**
 * The bytes of one segment of a journal, checked line by line. Each line ends with a checksum of its own. Reading ends
 * where a line cannot be trusted: later lines may depend on it.
 */

/** Between a line's JSON and its checksum. No JSON of the journal contains one outside of a string. */
export const CHECKSUM_MARK = 0x09;
export const CHECKSUM_DIGITS = 8;

const LINE_END = 0x0a;
/** What versions before there were checksums began every segment with. */
const UNCHECKED_START = '["o"]\n';

export interface SegmentText {
  lines: string[];
  /** 1 if a line was being written when the process died: its put never returned. */
  torn: 0 | 1;
  /** Where the content was damaged afterwards; null if it is whole. */
  damage: SegmentDamage | null;
}

export interface SegmentDamage {
  /** The number of the line that cannot be trusted, from 1. */
  line: number;
  /** From that line on, up to the end of what was written. */
  bytesLost: number;
}

export function checksum(bytes: Uint8Array): number {
  return Bun.hash.xxHash32(bytes);
}

export function readSegment(bytes: Buffer): SegmentText {
  if (bytes.subarray(0, UNCHECKED_START.length).toString("latin1") === UNCHECKED_START) {
    return readUnchecked(bytes);
  }
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
 * A process that dies leaves zeros where bytes of its last line are missing, and nothing behind that line. A line
 * without zeros whose checksum is wrong, or a whole line behind a gap, is damage.
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

/** `end` is that of the line's end. */
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

function readUnchecked(bytes: Buffer): SegmentText {
  const zero = bytes.indexOf(0);
  const lines = bytes.toString("utf8", 0, zero === -1 ? bytes.length : zero).split("\n");
  const rest = lines.pop() ?? "";
  return { lines, torn: rest === "" ? 0 : 1, damage: null };
}
