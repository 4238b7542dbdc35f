/**
 * Reads the top level of a JSON object as raw slices. A 200 KB prompt is skipped string by string instead of being
 * parsed, and an echoed field is returned byte for byte.
 */
export type JsonFields = ReadonlyMap<string, string>;

const QUOTE = 34;
const BACKSLASH = 92;

export function topLevelFields(text: string): JsonFields | null {
  const fields = new Map<string, string>();
  let at = skipSpace(text, 0);
  if (text.charCodeAt(at) !== 0x7b) return null;
  at = skipSpace(text, at + 1);
  if (text.charCodeAt(at) === 0x7d) return skipSpace(text, at + 1) === text.length ? fields : null;
  for (;;) {
    if (text.charCodeAt(at) !== QUOTE) return null;
    const nameEnd = skipString(text, at);
    if (nameEnd < 0) return null;
    const name = decodeString(text.slice(at, nameEnd));
    if (name === null) return null;
    at = skipSpace(text, nameEnd);
    if (text.charCodeAt(at) !== 0x3a) return null;
    at = skipSpace(text, at + 1);
    const valueEnd = skipValue(text, at);
    if (valueEnd <= at) return null;
    fields.set(name, text.slice(at, valueEnd));
    at = skipSpace(text, valueEnd);
    const next = text.charCodeAt(at);
    if (next === 0x7d) return skipSpace(text, at + 1) === text.length ? fields : null;
    if (next !== 0x2c) return null;
    at = skipSpace(text, at + 1);
  }
}

function skipSpace(text: string, from: number): number {
  let at = from;
  for (;;) {
    const code = text.charCodeAt(at);
    if (code !== 32 && code !== 10 && code !== 13 && code !== 9) return at;
    at++;
  }
}

/** Returns the position after the closing quote, or -1. `from` is the position of the opening quote. */
function skipString(text: string, from: number): number {
  let at = from + 1;
  for (;;) {
    at = text.indexOf('"', at);
    if (at < 0) return -1;
    let before = at - 1;
    while (text.charCodeAt(before) === BACKSLASH) before--;
    if ((at - before) % 2 === 1) return at + 1;
    at++;
  }
}

function skipValue(text: string, from: number): number {
  const first = text.charCodeAt(from);
  if (first === QUOTE) return skipString(text, from);
  if (first !== 0x7b && first !== 0x5b) {
    let at = from;
    while (at < text.length && !",}] \n\r\t".includes(text[at] ?? ",")) at++;
    return at;
  }
  let depth = 0;
  for (let at = from; at < text.length; ) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      at = skipString(text, at);
      if (at < 0) return -1;
      continue;
    }
    at++;
    if (code === 0x7b || code === 0x5b) depth++;
    else if (code === 0x7d || code === 0x5d) {
      depth--;
      if (depth === 0) return at;
    }
  }
  return -1;
}

function decodeString(slice: string): string | null {
  if (!slice.includes("\\")) return slice.slice(1, -1);
  const value = parseJson(slice);
  return typeof value === "string" ? value : null;
}

/** Returns `undefined` for invalid JSON, because null is a JSON value. */
export function parseJson(slice: string): unknown {
  try {
    return JSON.parse(slice);
  } catch {
    return undefined;
  }
}

export function stringField(fields: JsonFields, name: string): string | null {
  const slice = fields.get(name);
  return slice?.startsWith('"') ? decodeString(slice) : null;
}

export function intField(fields: JsonFields, name: string): number | null {
  const slice = fields.get(name);
  if (slice === undefined || !/^-?\d{1,15}$/.test(slice)) return null;
  return Number(slice);
}

export function isTrue(fields: JsonFields, name: string): boolean {
  return fields.get(name) === "true";
}

/** Returns the slice to echo, or the default for an omitted field. */
export function echoed(fields: JsonFields, name: string, defaultJson: string): string {
  const slice = fields.get(name);
  return slice === undefined || slice === "null" ? defaultJson : slice;
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
