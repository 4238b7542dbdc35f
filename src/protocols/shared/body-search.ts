/** Searches in a body that an upstream has rejected. They must not block other requests. */

import { findBytes } from "../../base/bytes.ts";
import { nextTurn } from "../../base/next-turn.ts";
import { type Part, partBytes } from "../../base/parts.ts";
import { ApiError } from "../../errors.ts";
import type { ScanFailure } from "../../json/scan.ts";
import { describeScanError } from "../../json/scan-error.ts";
import { StringFaultSearch } from "../../json/strings.ts";

/** In a longer body only both ends are searched. */
const SEARCH_BYTES_MAX = 128 * 1024;
/** How much is checked in one turn of the event loop. */
const ERROR_SEARCH_BYTES_PER_TURN = 256 * 1024;

export function mentionsWord({ bytes, start, end }: Part, word: string): boolean {
  const needle = Buffer.from(word);
  if (end - start <= SEARCH_BYTES_MAX) return findBytes(bytes, needle, start, end) !== -1;
  const half = SEARCH_BYTES_MAX / 2;
  return (
    findBytes(bytes, needle, start, start + half) !== -1 || findBytes(bytes, needle, end - half, end) !== -1
  );
}

/** The fault of a string that the scan does not check. */
export async function findStringError(part: Part): Promise<ApiError | null> {
  const bytes = partBytes(part);
  const search = new StringFaultSearch(bytes);
  while (!search.run(ERROR_SEARCH_BYTES_PER_TURN)) await nextTurn();
  const { fault } = search;
  return fault && invalidJsonError(bytes, fault, 0);
}

/** `start` is where the body begins. */
export function invalidJsonError(bytes: Uint8Array, failure: ScanFailure, start: number): ApiError {
  const where = describeScanError(bytes, failure, start);
  return new ApiError("invalid_json", `The request body is not a valid JSON object: ${where}.`);
}
