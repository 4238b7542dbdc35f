/** Detects member names that differ from a known name only in case: some decoders accept them as that name. */

import { decodeText } from "../base/bytes.ts";
import { BACKSLASH } from "./walk.ts";

const UPPER_A = 0x41;
const UPPER_Z = 0x5a;

/**
 * Full Unicode case folding: `ſ` is s, the Kelvin sign is k, `ﬆ` is st. Both forms of the Turkish i count as i, because
 * Java's `equalsIgnoreCase` treats them so.
 */
export function foldCase(name: string): string {
  return name.replaceAll("\u0130", "i").toUpperCase().toLowerCase();
}

/**
 * Returns which of `names` the key between the quotes matches when its case is folded. Fast for plain lower-case names,
 * which nearly all are.
 */
export function caseVariant<Name extends string>(
  bytes: Uint8Array,
  start: number,
  end: number,
  names: ReadonlyMap<string, Name>,
): Name | undefined {
  let at = start;
  while (at < end) {
    const c = bytes[at] ?? 0;
    if (c >= 0x80 || c === BACKSLASH || (c >= UPPER_A && c <= UPPER_Z)) break;
    at++;
  }
  if (at === end) return undefined;
  const key = decodeKey(bytes, start, end);
  return key === null ? undefined : names.get(foldCase(key));
}

/** Returns null if the key is not valid JSON. */
function decodeKey(bytes: Uint8Array, start: number, end: number): string | null {
  try {
    const key: unknown = JSON.parse(`"${decodeText(bytes, start, end)}"`);
    return typeof key === "string" ? key : null;
  } catch {
    return null;
  }
}
