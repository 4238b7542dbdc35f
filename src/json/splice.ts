import { copyBytes, writeBytes } from "../net/wire/bytes.ts";
import type { Part } from "../net/wire/parts.ts";
import type { JsonField, ObjectScan } from "./scan.ts";
import { COMMA, LF, skipSpace } from "./walk.ts";

/** Changes to a few byte ranges of a body; every other byte stays as it came. */

export interface Splice {
  start: number;
  end: number;
  insert: Uint8Array;
}

const utf8 = new TextEncoder();
const NOTHING = new Uint8Array(0);

/** What is put into bodies is much the same with every request; whatever else comes by does not stay. */
type Known = Map<string, Uint8Array>;
const KNOWN_MAX = 4_096;
const knownStrings: Known = new Map();
const knownMembers: Known = new Map();

function remember(known: Known, key: string, json: string): Uint8Array {
  const made = utf8.encode(json);
  if (known.size >= KNOWN_MAX) known.clear();
  known.set(key, made);
  return made;
}

/** The bytes are shared: read them, do not write to them. */
export function jsonString(text: string): Uint8Array {
  return knownStrings.get(text) ?? remember(knownStrings, text, JSON.stringify(text));
}

export function replaceValue(field: JsonField, value: Uint8Array): Splice {
  return { start: field.start, end: field.end, insert: value };
}

/** A member that the object does not have yet, in front of all others. */
export function addMember(
  scan: Pick<ObjectScan<never>, "insertAt" | "empty">,
  name: string,
  json: string,
): Splice {
  const member = `${JSON.stringify(name)}:${json}${scan.empty ? "" : ","}`;
  const insert = knownMembers.get(member) ?? remember(knownMembers, member, member);
  return { start: scan.insertAt, end: scan.insertAt, insert };
}

/**
 * Sets members (to raw JSON) or takes them out (null). A captured member is changed where it stands, a new one
 * goes in front. All edits of one object belong in one call: commas depend on what else comes and goes.
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
        added.push(utf8.encode(`${added.length > 0 ? "," : ""}${JSON.stringify(name)}:`), value);
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

/** Neighbours leave together, so that each comma is taken once. True when no member is left. */
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
      splices.push({ start, end: next, insert: NOTHING });
      continue;
    }
    // The last of the object: the comma to take stands before it.
    const before = lastBefore(bytes, start);
    if (bytes[before] === COMMA) splices.push({ start: before, end, insert: NOTHING });
    else {
      splices.push({ start, end, insert: NOTHING });
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

/** The changed body as parts of the old one and of what goes in, none of them copied. Splices may come in any order. */
export function spliceParts(
  bytes: Uint8Array,
  splices: readonly Splice[],
  first = 0,
  last = bytes.length,
): Part[] {
  const parts: Part[] = [];
  let from = first;
  for (const { start, end, insert } of ordered(splices, first, last)) {
    if (start > from) parts.push({ bytes, start: from, end: start });
    if (insert.length > 0) parts.push({ bytes: insert, start: 0, end: insert.length });
    from = end;
  }
  if (from < last) parts.push({ bytes, start: from, end: last });
  return parts;
}

/** Mostly they come in order, and looking is much cheaper than sorting. */
function ordered(splices: readonly Splice[], first: number, last: number): readonly Splice[] {
  if (areInOrder(splices, first, last)) return splices;
  const sorted = splices.toSorted((a, b) => a.start - b.start || a.end - b.end);
  if (!areInOrder(sorted, first, last)) throw new RangeError("splices overlap or leave the body");
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

/** The same array when there is nothing to change; else one new array. */
export function applySplices(
  bytes: Uint8Array,
  splices: readonly Splice[],
  start = 0,
  end = bytes.length,
): Uint8Array {
  if (splices.length === 0) return copyBytes(bytes, start, end);
  const sorted = ordered(splices, start, end);
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
