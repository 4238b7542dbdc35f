/** Describes a failed scan for the client who sent the body. */

import type { ScanFailure } from "./scan.ts";
import { END, LF } from "./walk.ts";

/** Beyond this offset the position is reported as a byte offset: counting lines would take too long. */
const LOCATED_BYTES_MAX = 1024 * 1024;

/** Describes the position and the fault, with at most one byte of the body. `start` is where the scan began. */
export function describeScanError(bytes: Uint8Array, failure: ScanFailure, start = 0): string {
  if (failure.offset - start > LOCATED_BYTES_MAX) {
    return `byte ${failure.offset - start + 1}: ${failure.detail}${describeByte(bytes, failure)}`;
  }
  let line = 1;
  let column = 1;
  for (let at = start; at < failure.offset; at++) {
    const c = bytes[at] ?? END;
    if (c === LF) {
      line++;
      column = 1;
    } else if ((c & 0xc0) !== 0x80) {
      // UTF-8 continuation bytes belong to the character before them.
      column++;
    }
  }
  return `line ${line}, column ${column}: ${failure.detail}${describeByte(bytes, failure)}`;
}

function describeByte(bytes: Uint8Array, failure: ScanFailure): string {
  if (failure.reason !== "syntax" && failure.reason !== "trailing") return "";
  const c = bytes[failure.offset];
  if (c === undefined) return "";
  const printable = c > 0x20 && c < 0x7f;
  return `, found ${printable ? `'${String.fromCharCode(c)}'` : `byte 0x${c.toString(16).padStart(2, "0")}`}`;
}
