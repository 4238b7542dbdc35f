/**
 * Takes the long strings out of a long JSON body before it is parsed, and puts them back into the body that is written
 * from it. Long bodies consist of base64 media, which no dialect changes: parsing and writing them would hold the event
 * loop for as long as they are.
 */

import { ApiError } from "../../errors.ts";
import { tryParseLossless } from "../../json/lossless.ts";
import { decodeText } from "../../net/wire/bytes.ts";
import { nextTurn } from "../../net/wire/next-turn.ts";
import { type Part, wholeBytesPart } from "../../net/wire/parts.ts";

/** The strings that were taken out, by the token in their place. */
export type LongStrings = ReadonlyMap<string, Uint8Array>;

export const NO_LONG_STRINGS: LongStrings = new Map();

export interface ShortenedBody {
  readonly json: string;
  readonly strings: LongStrings;
}

const LONG_BYTES_MIN = 16 * 1024;
/** What precedes the data of a data URL stays in place: the codecs read it. */
const HEAD_BYTES_MAX = 128;
/** What remains is parsed at once. It is text of a conversation, and no context window holds more. */
const PARSED_BYTES_MAX = 4 * 1024 * 1024;
const STRINGS_MAX = 200_000;
const STRINGS_PER_TURN = 20_000;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const TOKEN = /gwlong_[0-9a-f]{32}_\d+_/;

/** `nonce` is unguessable, so that a client cannot write a token itself: 32 hexadecimal digits. */
export async function takeLongStrings({ bytes, start, end }: Part, nonce: string): Promise<ShortenedBody> {
  const strings = new Map<string, Uint8Array>();
  let json = "";
  let from = start;
  let count = 0;
  for (let open = bytes.indexOf(QUOTE, start); open !== -1 && open < end; ) {
    const close = findClose(bytes, open + 1);
    if (close - open > LONG_BYTES_MIN && bytes.subarray(open, close).indexOf(BACKSLASH) === -1) {
      const dataStart = skipHead(bytes, open + 1);
      const token = `gwlong_${nonce}_${strings.size}_`;
      strings.set(token, bytes.subarray(dataStart, close));
      json += decodeText(bytes, from, dataStart) + token;
      from = close;
    }
    if (++count > STRINGS_MAX) throw tooComplexError();
    if (count % STRINGS_PER_TURN === 0) await nextTurn();
    open = bytes.indexOf(QUOTE, close + 1);
  }
  if (json.length + end - from > PARSED_BYTES_MAX) throw tooComplexError();
  return { json: json + decodeText(bytes, from, end), strings };
}

/** A longer body is parsed without its long strings. */
const PARSED_AT_ONCE_BYTES_MAX = 256 * 1024;

/** Parses a body; a long one without its long strings, so that no body holds the event loop. */
export async function parseLongBody(
  body: Part,
  randomBytes: (count: number) => Uint8Array,
): Promise<{ readonly json: unknown; readonly strings: LongStrings }> {
  const { bytes, start, end } = body;
  if (end - start <= PARSED_AT_ONCE_BYTES_MAX)
    return { json: tryParseLossless(decodeText(bytes, start, end)), strings: NO_LONG_STRINGS };
  const nonce = Buffer.from(randomBytes(16)).toString("hex");
  const { json, strings } = await takeLongStrings(body, nonce);
  await nextTurn();
  return { json: tryParseLossless(json), strings };
}

/** Returns the position of the closing quote. */
function findClose(bytes: Uint8Array, from: number): number {
  for (let at = bytes.indexOf(QUOTE, from); at !== -1; at = bytes.indexOf(QUOTE, at + 1)) {
    let slashes = 0;
    while (bytes[at - 1 - slashes] === BACKSLASH) slashes++;
    if (slashes % 2 === 0) return at;
  }
  return bytes.length;
}

/** The start of the data after `data:image/png;base64,`, or of the string. */
function skipHead(bytes: Uint8Array, start: number): number {
  const comma = bytes.subarray(start, start + HEAD_BYTES_MAX).indexOf(COMMA);
  return comma === -1 ? start : start + comma + 1;
}

/** The written JSON with the long strings in their places, none of which is copied. */
export function putLongStrings(json: string, strings: LongStrings): Part[] {
  if (strings.size === 0) return [wholeBytesPart(Buffer.from(json))];
  const parts: Part[] = [];
  let rest = json;
  for (let match = TOKEN.exec(rest); match !== null; match = TOKEN.exec(rest)) {
    const [token] = match;
    const bytes = strings.get(token);
    parts.push(wholeBytesPart(Buffer.from(rest.slice(0, match.index) + (bytes === undefined ? token : ""))));
    if (bytes !== undefined) parts.push(wholeBytesPart(bytes));
    rest = rest.slice(match.index + token.length);
  }
  parts.push(wholeBytesPart(Buffer.from(rest)));
  return parts.filter(({ end }) => end > 0);
}

/** Copies of the strings, for a conversation that outlives the body. */
export function copyLongStrings(strings: LongStrings): LongStrings {
  if (strings.size === 0) return NO_LONG_STRINGS;
  return new Map([...strings].map(([token, bytes]) => [token, Buffer.from(bytes)]));
}

function tooComplexError(): ApiError {
  return new ApiError(
    "request_too_large",
    "The request contains more than 4 MiB of text, or more than 200,000 strings. This model's upstream has another interface, so the request must be translated, and media alone may be larger. Shorten the conversation.",
  );
}
