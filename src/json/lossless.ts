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
const SAFE_EXPONENT_DIGITS_MAX = 2;

/** Throws if the text is not JSON. */
export function parseLossless(text: string): unknown {
  const value: unknown = JSON.parse(text);
  return LONG_NUMBER.test(text) ? new LongNumbers(text, value).restore() : value;
}

/** Returns null if the text is not JSON. */
export function tryParseLossless(text: string): unknown {
  try {
    return parseLossless(text);
  } catch {
    return null;
  }
}

/** The nearest double of a number that was kept as text; null for all other values. */
export function readLongNumber(value: unknown): number | null {
  return JSON.isRawJSON(value) ? Number(value.rawJSON) : null;
}

const QUOTE = 0x22;
const PLUS = 0x2b;
const COMMA = 0x2c;
const MINUS = 0x2d;
const DOT = 0x2e;
const DIGIT_0 = 0x30;
const DIGIT_9 = 0x39;
const ARRAY_OPEN = 0x5b;
const BACKSLASH = 0x5c;
const ARRAY_CLOSE = 0x5d;
const OBJECT_OPEN = 0x7b;
const OBJECT_CLOSE = 0x7d;

/** A container that is open at the position of the search. */
interface OpenContainer {
  readonly isArray: boolean;
  /** The index of the current element of an array. */
  index: number;
  /** The name of the current member of an object, with its quotes. */
  nameStart: number;
  nameEnd: number;
  /** The parsed container. Undefined until a number in it is restored; null if the parser has another value there. */
  value: Container | null | undefined;
}

type Container = Record<string | number, unknown>;

/**
 * Puts the text of long numbers into a parsed value. The text is searched once for numbers outside of strings, and only
 * the members that hold one are touched: a parser that calls back for every value takes twenty times as long.
 */
class LongNumbers {
  readonly #text: string;
  readonly #open: OpenContainer[] = [];
  /** The whole value, as the only element of an array. */
  readonly #root: [unknown];

  /** `value` is the parsed text. */
  constructor(text: string, value: unknown) {
    this.#text = text;
    this.#root = [value];
    this.#open.push({ isArray: true, index: 0, nameStart: 0, nameEnd: 0, value: asContainer(this.#root) });
  }

  restore(): unknown {
    const text = this.#text;
    for (let at = 0; at < text.length; ) {
      const c = text.charCodeAt(at);
      if (c === QUOTE) at = this.#passString(at);
      else if (c === MINUS || (c >= DIGIT_0 && c <= DIGIT_9)) at = this.#passNumber(at);
      else {
        this.#passPunctuation(c);
        at++;
      }
    }
    return this.#root[0];
  }

  #passString(open: number): number {
    const text = this.#text;
    let at = open + 1;
    for (let c = text.charCodeAt(at); c !== QUOTE; c = text.charCodeAt(at)) at += c === BACKSLASH ? 2 : 1;
    at++;
    const container = this.#open.at(-1);
    // Of a string value nothing is needed, and the next member has a name again.
    if (container !== undefined) {
      container.nameStart = open;
      container.nameEnd = at;
    }
    return at;
  }

  #passNumber(start: number): number {
    const text = this.#text;
    let at = start + 1;
    /** Where the digits of the exponent begin; 0 without one. */
    let exponentAt = 0;
    for (; at < text.length; at++) {
      const c = text.charCodeAt(at);
      if ((c >= DIGIT_0 && c <= DIGIT_9) || c === DOT) continue;
      const isExponent = c === 0x65 || c === 0x45;
      if (!isExponent && c !== PLUS && c !== MINUS) break;
      exponentAt = at + 1;
    }
    const isShort = at - start <= SAFE_CHARS_MAX;
    // With few digits only a large exponent is too much for a double.
    if (isShort && (exponentAt === 0 || at - exponentAt <= SAFE_EXPONENT_DIGITS_MAX)) return at;
    const source = text.slice(start, at);
    if (!isShort || isLostInDouble(source)) this.#restoreNumber(source);
    return at;
  }

  #passPunctuation(c: number): void {
    if (c === OBJECT_OPEN || c === ARRAY_OPEN) {
      const isArray = c === ARRAY_OPEN;
      this.#open.push({ isArray, index: 0, nameStart: 0, nameEnd: 0, value: undefined });
    } else if (c === OBJECT_CLOSE || c === ARRAY_CLOSE) this.#open.pop();
    else if (c === COMMA) {
      const container = this.#open.at(-1);
      if (container !== undefined) container.index++;
    }
  }

  /** A member that occurs twice has the last of its values: one that is another number is not changed. */
  #restoreNumber(source: string): void {
    const value = Number(source);
    const container = this.#findContainer();
    const place = this.#open.at(-1);
    if (container === null || place === undefined) return;
    const key = this.#readKey(place);
    const parsed = container[key];
    const parsedNumber = JSON.isRawJSON(parsed) ? Number(parsed.rawJSON) : parsed;
    if (Object.is(parsedNumber, value))
      container[key] = String(value) === source ? value : JSON.rawJSON(source);
  }

  /** The parsed container of the current position. Each one is looked up once, from the one around it. */
  #findContainer(): Container | null {
    let known = this.#open.length - 1;
    while (this.#open[known]?.value === undefined) known--;
    for (let at = known + 1; at < this.#open.length; at++) {
      const [outer, inner] = [this.#open[at - 1], this.#open[at]];
      if (outer === undefined || inner === undefined) return null;
      const value = outer.value == null ? null : outer.value[this.#readKey(outer)];
      inner.value = Array.isArray(value) === inner.isArray ? asContainer(value) : null;
    }
    return this.#open.at(-1)?.value ?? null;
  }

  #readKey({ isArray, index, nameStart, nameEnd }: OpenContainer): string | number {
    return isArray ? index : String(JSON.parse(this.#text.slice(nameStart, nameEnd)));
  }
}

/** Whether a short number becomes infinite or 0. */
function isLostInDouble(source: string): boolean {
  const value = Number(source);
  return !Number.isFinite(value) || (value === 0 && /[1-9]/.test(source.slice(0, source.search(/[eE]/))));
}

function asContainer(value: unknown): Container | null {
  return typeof value === "object" && value !== null ? (value as Container) : null;
}
