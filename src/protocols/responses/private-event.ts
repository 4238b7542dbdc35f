/** Decides which events of a Responses upstream are for clients, and which are private to the gateway. */

import type { Part } from "../../base/parts.ts";
import { QUOTE } from "../../json/walk.ts";

/**
 * Events about the account's limits or the upstream's machines, or in place of headers. Clients know `error` and
 * `response.…`, and strict ones accept nothing else.
 */
export function isPrivateEvent(type: string): boolean {
  if (type === "response.metadata") return true;
  return !type.startsWith("response.") && type !== "error";
}

/** Whether the name at this offset begins with `response.`. Byte by byte, because it runs for every event. */
export function isResponseEvent(bytes: Uint8Array, at: number): boolean {
  return (
    bytes[at + 8] === 0x2e &&
    bytes[at] === 0x72 &&
    bytes[at + 1] === 0x65 &&
    bytes[at + 2] === 0x73 &&
    bytes[at + 3] === 0x70 &&
    bytes[at + 4] === 0x6f &&
    bytes[at + 5] === 0x6e &&
    bytes[at + 6] === 0x73 &&
    bytes[at + 7] === 0x65
  );
}

const TYPE_FIRST = Buffer.from('{"type":"');
const TYPE_LAST = Buffer.from(',"type":"');

/** Whether `type`, first or last, equals the `event:` line. Nearly all do, so none is parsed for it. */
export function hasDeclaredType(name: Part, data: Part): boolean {
  const length = name.end - name.start;
  const last = data.end - 1 - TYPE_LAST.length - length - 1;
  return (
    hasTypeAt(data.bytes, data.start, TYPE_FIRST, name, length) ||
    (last > data.start && hasTypeAt(data.bytes, last, TYPE_LAST, name, length))
  );
}

function hasTypeAt(bytes: Uint8Array, at: number, member: Uint8Array, name: Part, length: number): boolean {
  const from = at + member.length;
  return (
    bytes[from + length] === QUOTE &&
    isSame(bytes, at, member, 0, member.length) &&
    isSame(bytes, from, name.bytes, name.start, length)
  );
}

function isSame(a: Uint8Array, at: number, b: Uint8Array, from: number, length: number): boolean {
  for (let i = 0; i < length; i++) if (a[at + i] !== b[from + i]) return false;
  return true;
}
