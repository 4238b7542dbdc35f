/**
 * Parses JSON without losing digits. A number that a double cannot hold is kept as its text, so that writing the value
 * again gives the same number: ids of 64 bits in the arguments of tools, for example.
 */

declare global {
  interface JSON {
    rawJSON(text: string): object;
    isRawJSON(value: unknown): value is { readonly rawJSON: string };
  }
}

/** A number may have more digits than a double holds. Almost no text contains one, and the search costs little. */
const LONG_NUMBER = /[\d.]{16}/;
const SAFE_CHARS_MAX = 15;

/** Throws if the text is not JSON. */
export function parseLossless(text: string): unknown {
  return LONG_NUMBER.test(text) ? JSON.parse(text, keepDigits) : JSON.parse(text);
}

/** Returns null if the text is not JSON. */
export function tryParseLossless(text: string): unknown {
  try {
    return parseLossless(text);
  } catch {
    return null;
  }
}

/** The text of a number is the source of the context. */
function keepDigits(_name: string, value: unknown, context?: { readonly source?: string }): unknown {
  const source = context?.source ?? "";
  if (typeof value !== "number" || String(value) === source) return value;
  const isShort = source.length <= SAFE_CHARS_MAX && Number.isFinite(value) && !/[eE]/.test(source);
  return isShort ? value : JSON.rawJSON(source);
}

/** The nearest double of a number that was kept as text; null for all other values. */
export function readLongNumber(value: unknown): number | null {
  return JSON.isRawJSON(value) ? Number(value.rawJSON) : null;
}
