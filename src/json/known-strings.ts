/** Strings that come again and again, told by their bytes: to make one anew is to wait for memory that is cold. */

import type { JsonField } from "./scan.ts";

/** More are not looked through for the one that is wanted. */
const KNOWN_MAX = 16;

export interface KnownStrings {
  /** Null: it was not there lately. */
  find(bytes: Uint8Array, field: JsonField): string | null;
  add(bytes: Uint8Array, field: JsonField, value: string): void;
}

export function openKnownStrings(): KnownStrings {
  const known: { json: Uint8Array; value: string }[] = [];
  let next = 0;
  return {
    find(bytes, { start, end }) {
      for (const { json, value } of known) {
        if (json.length === end - start && isSame(bytes, start, json)) return value;
      }
      return null;
    },
    add(bytes, { start, end }, value) {
      known[next] = { json: Buffer.copyBytesFrom(bytes, start, end - start), value };
      next = (next + 1) % KNOWN_MAX;
    },
  };
}

/** Not `isAt`: of so few bytes a call into native code takes longer than to make the string. */
function isSame(bytes: Uint8Array, start: number, json: Uint8Array): boolean {
  for (let i = 0; i < json.length; i++) if (bytes[start + i] !== json[i]) return false;
  return true;
}
