/** A reusable buffer for one journal line: its JSON, its checksum and the line end. */

import type { JournalLine } from "./append-file.ts";
import { CHECKSUM_DIGITS, CHECKSUM_MARK, checksum } from "./journal-segment.ts";

const LINE_END = 0x0a;
/** Maximum number of UTF-8 bytes per UTF-16 unit. */
const UTF8_BYTES_MAX = 3;
/** The mark, the checksum and the line end. */
const SUFFIX_BYTES = CHECKSUM_DIGITS + 2;

export class LineBuffer implements JournalLine {
  /** Contains the line in its first `length` bytes. */
  bytes = Buffer.allocUnsafeSlow(4_096);
  length = 0;

  /** Replaces the content. JSON escapes control characters, so the mark and the line end are unique in the line. */
  setLine(json: string): void {
    this.#makeRoom(json.length * UTF8_BYTES_MAX + SUFFIX_BYTES);
    const { bytes } = this;
    const jsonEnd = bytes.write(json, 0);
    const sum = checksum(bytes.subarray(0, jsonEnd));
    bytes[jsonEnd] = CHECKSUM_MARK;
    const sumEnd = jsonEnd + 1 + bytes.write(sum.toString(16).padStart(CHECKSUM_DIGITS, "0"), jsonEnd + 1);
    bytes[sumEnd] = LINE_END;
    this.length = sumEnd + 1;
  }

  #makeRoom(bytes: number): void {
    if (bytes > this.bytes.length) this.bytes = Buffer.allocUnsafeSlow(2 * bytes);
  }
}
