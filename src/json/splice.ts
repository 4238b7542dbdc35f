/** Replaces a few byte ranges of a body; every other byte stays as received. */

import { copyBytes, NO_BYTES, writeBytes } from "../base/bytes.ts";
import { Cache } from "../base/cache.ts";
import type { Part } from "../base/parts.ts";
import type { JsonField, ObjectScan } from "./scan.ts";
import { COMMA, LF, skipSpace } from "./walk.ts";

export interface Splice {
  start: number;
  end: number;
  insert: Uint8Array;
}

const utf8 = new TextEncoder();

/** The inserted bytes are nearly the same for every request. */
const stringBytes = new Cache<string, Uint8Array>({ name: "JSON strings as bytes", entriesMax: 4_096 });
const memberBytes = new Cache<string, Uint8Array>({ name: "JSON members as bytes", entriesMax: 4_096 });

/** Longer strings are text of requests and responses: 4,096 of them would occupy gigabytes. */
const CACHED_CHARS_MAX = 512;

const encodeString = (text: string): Uint8Array => utf8.encode(JSON.stringify(text));
/** The start of a member that is added. */
export const writeMemberName = (name: string): string => `${JSON.stringify(name)}:`;
const encodeMember = (member: string): Uint8Array => utf8.encode(member);

/** The bytes are shared: do not write to them. */
export function jsonString(text: string): Uint8Array {
  return text.length > CACHED_CHARS_MAX ? encodeString(text) : stringBytes.getOrCreate(text, encodeString);
}

export function replaceValue(field: JsonField, value: Uint8Array): Splice {
  return { start: field.start, end: field.end, insert: value };
}

/** Adds a member that the object does not have yet, before all others. */
export function addMember(
  scan: Pick<ObjectScan<never>, "insertAt" | "empty">,
  name: string,
  json: string,
): Splice {
  const member = `${writeMemberName(name)}${json}${scan.empty ? "" : ","}`;
  const insert =
    member.length > CACHED_CHARS_MAX ? encodeMember(member) : memberBytes.getOrCreate(member, encodeMember);
  return { start: scan.insertAt, end: scan.insertAt, insert };
}

/**
 * Sets members (to raw JSON) or removes them (null). A captured member is changed in place, a new one is inserted at
 * the front. All edits of one object belong in one call, because the commas depend on all of them.
 */
export function editMembers<Name extends string>(
  bytes: Uint8Array,
  scan: ObjectScan<Name>,
  edits: { readonly [name in Name]?: Uint8Array | null },
): Splice[] {
  const splices: Splice[] = [];
  const removed: JsonField[] = [];
  const added: Uint8Array[] = [];
  for (const name in edits) {
    const value = edits[name];
    const field = scan.fields[name];
    if (value === undefined) continue;
    if (field === undefined) {
      if (value !== null)
        added.push(utf8.encode(`${added.length > 0 ? "," : ""}${writeMemberName(name)}`), value);
    } else if (value === null) {
      removed.push(field);
    } else {
      splices.push(replaceValue(field, value));
    }
  }
  const emptied = removed.length > 0 && removeMembers(bytes, removed, splices);
  if (added.length > 0) {
    if (!scan.empty && !emptied) added.push(utf8.encode(","));
    splices.push({ start: scan.insertAt, end: scan.insertAt, insert: Buffer.concat(added) });
  }
  return splices;
}

/** Adjacent members are removed together, so that each comma is removed once. Returns true if no member is left. */
function removeMembers(bytes: Uint8Array, members: JsonField[], splices: Splice[]): boolean {
  members.sort((a, b) => a.keyStart - b.keyStart);
  let emptied = false;
  for (let i = 0; i < members.length; ) {
    const start = members[i]?.keyStart ?? 0;
    let end = start;
    let next = start;
    while (i < members.length && members[i]?.keyStart === next) {
      end = members[i]?.end ?? end;
      i++;
      const after = skipSpace(bytes, end, bytes.length);
      if (bytes[after] !== COMMA) {
        next = -1;
        break;
      }
      next = skipSpace(bytes, after + 1, bytes.length);
    }
    if (next >= 0) {
      splices.push({ start, end: next, insert: NO_BYTES });
      continue;
    }
    // The last member of the object: the comma to remove is before it.
    const before = lastBefore(bytes, start);
    if (bytes[before] === COMMA) splices.push({ start: before, end, insert: NO_BYTES });
    else {
      splices.push({ start, end, insert: NO_BYTES });
      emptied = true;
    }
  }
  return emptied;
}

function lastBefore(bytes: Uint8Array, start: number): number {
  let at = start - 1;
  while (bytes[at] === 0x20 || bytes[at] === LF || bytes[at] === 0x0d || bytes[at] === 0x09) at--;
  return at;
}

/** The body as parts of the old one and the inserted bytes, without copying. Splices in any order. */
export function spliceParts(
  bytes: Uint8Array,
  splices: readonly Splice[],
  first = 0,
  last = bytes.length,
): Part[] {
  const parts: Part[] = [];
  let from = first;
  for (const { start, end, insert } of sortSplices(splices, first, last)) {
    if (start > from) parts.push({ bytes, start: from, end: start });
    if (insert.length > 0) parts.push({ bytes: insert, start: 0, end: insert.length });
    from = end;
  }
  if (from < last) parts.push({ bytes, start: from, end: last });
  return parts;
}

/** Splices are mostly in order, and checking is much cheaper than sorting. */
function sortSplices(splices: readonly Splice[], first: number, last: number): readonly Splice[] {
  if (areInOrder(splices, first, last)) return splices;
  const sorted = splices.toSorted((a, b) => a.start - b.start || a.end - b.end);
  if (!areInOrder(sorted, first, last)) throw new RangeError("splices overlap or exceed the body");
  return sorted;
}

function areInOrder(splices: readonly Splice[], first: number, last: number): boolean {
  let from = first;
  for (const { start, end } of splices) {
    if (start < from || end < start || end > last) return false;
    from = end;
  }
  return true;
}

/** Without splices, returns the range itself (the same array if it is the whole array). Otherwise a new array. */
export function applySplices(
  bytes: Uint8Array,
  splices: readonly Splice[],
  start = 0,
  end = bytes.length,
): Uint8Array {
  if (splices.length === 0) return copyBytes(bytes, start, end);
  const sorted = sortSplices(splices, start, end);
  let length = end - start;
  for (const splice of sorted) length += splice.insert.length - (splice.end - splice.start);
  const changed = Buffer.allocUnsafe(length);
  let from = start;
  let to = 0;
  for (const splice of sorted) {
    to = writeBytes(changed, to, bytes, from, splice.start);
    to = writeBytes(changed, to, splice.insert);
    from = splice.end;
  }
  writeBytes(changed, to, bytes, from, end);
  return changed;
}
