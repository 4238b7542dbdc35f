/**
 * Which conversation a request belongs to, so that it can stay on one account and find its prompt cache warm.
 * Whatever the client says comes first; else a conversation that goes on is known by how it began.
 */

import { firstElements } from "../../json/array.ts";
import type { JsonField } from "../../json/scan.ts";
import type { HeaderReader } from "../../net/wire/http-fields.ts";

export const SESSION_HEADERS = [
  "session-id",
  "session_id",
  "thread-id",
  "x-session-affinity",
  "x-session-id",
] as const;

export function readSession(headers: HeaderReader): string | null {
  for (const name of SESSION_HEADERS) {
    const value = headers.get(name);
    if (value !== null && value !== "") return value;
  }
  return null;
}

/**
 * The first two messages, as a number in text. Null for a conversation that only begins: many of those begin
 * alike, and sending all of them to one account would be no use to anyone.
 */
export function readConversationStart(bytes: Uint8Array, messages: JsonField | undefined): string | null {
  if (messages?.kind !== "array") return null;
  const [first, second, third] = firstElements(bytes, messages, 3);
  if (!first || !second || !third) return null;
  return Bun.hash(bytes.subarray(first.start, second.end)).toString(36);
}
