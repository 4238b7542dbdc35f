/** Checks the contents of strings, which the scanner skips. Slow: only if a body is suspected. */

import type { ScanFailure } from "./scan.ts";
import { BACKSLASH, END, QUOTE, SPACE } from "./walk.ts";

const LETTERS: ReadonlySet<number> = new Set(Buffer.from('"\\/bfnrt'));
const UNICODE = 0x75;
const HEX_DIGITS = 4;

/** Finds the first fault in a text whose structure is valid. In slices, because a long text takes many turns. */
export class StringFaultSearch {
  fault: ScanFailure | null = null;
  readonly #bytes: Uint8Array;
  #at = 0;
  #isInside = false;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  /** Checks this many more bytes. Returns true when the search is finished. */
  run(bytesMax: number): boolean {
    const bytes = this.#bytes;
    const end = Math.min(bytes.length, this.#at + bytesMax);
    let at = this.#at;
    let isInside = this.#isInside;
    for (; at < end; at++) {
      const c = bytes[at] ?? END;
      if (c === QUOTE) isInside = !isInside;
      else if (!isInside) continue;
      else if (c < SPACE) this.fault = fault(at, controlCharacter(c));
      else if (c === BACKSLASH) {
        const after = escapeEnd(bytes, at);
        if (after === null) this.fault = fault(at, "malformed escape in a string (write \\ as \\\\)");
        else at = after - 1;
      }
      if (this.fault !== null) return true;
    }
    this.#at = at;
    this.#isInside = isInside;
    return at >= bytes.length;
  }
}

function fault(offset: number, detail: string): ScanFailure {
  return { ok: false, reason: "string", offset, detail };
}

function escapeEnd(bytes: Uint8Array, at: number): number | null {
  const letter = bytes[at + 1] ?? END;
  if (LETTERS.has(letter)) return at + 2;
  if (letter !== UNICODE) return null;
  const end = at + 2 + HEX_DIGITS;
  const digits = Buffer.from(bytes.subarray(at + 2, end)).toString("latin1");
  return /^[0-9a-f]{4}$/i.test(digits) ? end : null;
}

function controlCharacter(c: number): string {
  const escaped = JSON.stringify(String.fromCharCode(c)).slice(1, -1);
  return `a control character in a string (write it as ${escaped})`;
}
