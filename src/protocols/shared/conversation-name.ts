/**
 * Identifies the conversation of a request, so that it stays on one account and its prompt cache. An id sent by the
 * client takes precedence; otherwise a continued conversation is recognized by its beginning.
 */

import { firstElements } from "../../json/array.ts";
import type { JsonField } from "../../json/scan.ts";
import type { HeaderReader } from "../../net/wire/http-fields.ts";

export const SESSION_HEADERS = [
  "x-claude-code-session-id",
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
 * A hash of the first two messages. Returns null for a conversation that only begins: many have the same beginning, and
 * sending all of them to one account would not help.
 */
export function readConversationStart(bytes: Uint8Array, messages: JsonField | undefined): string | null {
  if (messages?.kind !== "array") return null;
  const [first, second, third] = firstElements(bytes, messages, 3);
  if (!first || !second || !third) return null;
  return Bun.hash(bytes.subarray(first.start, second.end)).toString(36);
}
