/** What the scanner leaves out: whether the contents of strings are JSON. Slow, so only whoever doubts it asks. */

import type { ScanFailure } from "./json-scan.ts";
import { BACKSLASH, END, QUOTE, SPACE } from "./json-walk.ts";

const LETTERS: ReadonlySet<number> = new Set(Buffer.from('"\\/bfnrt'));
const UNICODE = 0x75;
const HEX_DIGITS = 4;

/** The first one in a text whose structure is sound. */
export function stringFault(bytes: Uint8Array): ScanFailure | null {
  let isInside = false;
  for (let at = 0; at < bytes.length; at++) {
    const c = bytes[at] ?? END;
    if (c === QUOTE) isInside = !isInside;
    else if (!isInside) continue;
    else if (c < SPACE) return fault(at, controlCharacter(c));
    else if (c === BACKSLASH) {
      const after = escapeEnd(bytes, at);
      if (after === null) return fault(at, "malformed escape in a string (write \\ as \\\\)");
      at = after - 1;
    }
  }
  return null;
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
  const written = JSON.stringify(String.fromCharCode(c)).slice(1, -1);
  return `a control character in a string (write it as ${written})`;
}
