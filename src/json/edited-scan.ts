/**
 * The scan of an edited body, derived from the scan of the body before: a long body is walked once. Only for edits that
 * replace and add strings, numbers and literals, which leave the counted values as they are.
 */

import { detectKind, type JsonField, type ObjectScan, type ValueKind } from "./scan.ts";
import { type Splice, writeMemberName } from "./splice.ts";

export function isScalar(kind: ValueKind): boolean {
  return kind !== "object" && kind !== "array";
}

interface ScalarEdits<Name extends string> {
  /** The edited body starts at offset 0. */
  readonly bodyStart: number;
  /** Each replaces one value. */
  readonly replaced: readonly Splice[];
  /** Members that were added to the object itself, in their order, as `editMembers` writes them. */
  readonly added: readonly (readonly [name: Name, value: Uint8Array])[];
}

export function deriveScan<Name extends string>(
  scan: ObjectScan<Name>,
  { bodyStart, replaced, added }: ScalarEdits<Name>,
): ObjectScan<Name> {
  const fields: { [name in Name]?: JsonField } = {};
  const insertAt = scan.insertAt - bodyStart;
  let at = insertAt;
  for (const [name, value] of added) {
    // Names that a reader knows are ASCII. A comma follows each member but the last one of the object.
    const start = at + writeMemberName(name).length;
    const end = start + value.length;
    fields[name] = { keyStart: at, start, end, kind: detectKind(value[0]), values: 0 };
    at = end + 1;
  }
  const shift = at - insertAt - bodyStart - (scan.empty && added.length > 0 ? 1 : 0);
  const move = (offset: number) =>
    replaced.reduce(
      (moved, { start, end, insert }) => (end <= offset ? moved + insert.length - (end - start) : moved),
      offset + shift,
    );
  for (const name in scan.fields) {
    const field: JsonField | undefined = scan.fields[name];
    if (field === undefined) continue;
    const { keyStart, start, end, kind, values } = field;
    const own = replaced.find((splice) => splice.start === start && splice.end === end);
    fields[name] = {
      keyStart: move(keyStart),
      start: move(start),
      end: move(end),
      kind: own === undefined ? kind : detectKind(own.insert[0]),
      values,
    };
  }
  return { ...scan, fields, insertAt, empty: scan.empty && added.length === 0 };
}
