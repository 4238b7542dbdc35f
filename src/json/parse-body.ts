/** Parses the JSON of a request, a response or a stored turn. */

import { decodeText } from "../base/bytes.ts";
import type { Part } from "../base/parts.ts";
import { tryParseLossless } from "./lossless.ts";

/** Returns null if the bytes are not JSON. */
export function parseBody({ bytes, start, end }: Part): unknown {
  return tryParseLossless(decodeText(bytes, start, end));
}
