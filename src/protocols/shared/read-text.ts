/** Reads a short text from a scanned body. */

import { type JsonField, stringValue } from "../../json/scan.ts";

/** For settings and conversation names. A longer value is neither and is not decoded. */
const TEXT_BYTES_MAX = 16_384;

export function readText(bytes: Uint8Array, field: JsonField | undefined): string | null {
  if (field === undefined || field.end - field.start > TEXT_BYTES_MAX) return null;
  return stringValue(bytes, field);
}
