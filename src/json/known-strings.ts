/** A cache of frequent strings by their bytes: decoding again allocates memory outside the CPU cache. */

import type { JsonField } from "./scan.ts";

/** A linear search through more entries would cost more than it saves. */
const KNOWN_MAX = 16;

interface KnownStrings {
  /** Returns null if the string is not cached. */
  find(bytes: Uint8Array, field: JsonField): string | null;
  add(bytes: Uint8Array, field: JsonField, value: string): void;
}

export function openKnownStrings(): KnownStrings {
  const entries: { json: Uint8Array; value: string }[] = [];
  let next = 0;
  return {
    find(bytes, { start, end }) {
      for (const { json, value } of entries) {
        if (json.length === end - start && isSame(bytes, start, json)) return value;
      }
      return null;
    },
    add(bytes, { start, end }, value) {
      entries[next] = { json: Buffer.copyBytesFrom(bytes, start, end - start), value };
      next = (next + 1) % KNOWN_MAX;
    },
  };
}

/** Not `isAt`: for so few bytes a call into native code takes longer than decoding the string. */
function isSame(bytes: Uint8Array, start: number, json: Uint8Array): boolean {
  for (let i = 0; i < json.length; i++) if (bytes[start + i] !== json[i]) return false;
  return true;
}
