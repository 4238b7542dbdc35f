/** Parses the JSON of a request, a response or a stored turn. */

import { tryParseLossless } from "../../json/lossless.ts";
import { decodeText } from "../../net/wire/bytes.ts";
import type { Part } from "../../net/wire/parts.ts";

/** Returns null if the bytes are not JSON. */
export function parseBody({ bytes, start, end }: Part): unknown {
  return tryParseLossless(decodeText(bytes, start, end));
}
