/** Full JSON parsing, for the few places that need a value and not only its position. */

import { decodeText } from "../base/bytes.ts";

/** Returns null if the bytes are not JSON. */
export function parseJson(bytes: Uint8Array, start = 0, end = bytes.length): unknown {
  try {
    return JSON.parse(decodeText(bytes, start, end));
  } catch {
    return null;
  }
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
