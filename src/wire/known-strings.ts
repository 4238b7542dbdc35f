/** Strings that come again and again, told by their bytes: to make one anew is to wait for memory that is cold. */

import { cut } from "./bytes.ts";
import type { Field } from "./json-scan.ts";

/** More are not looked through for the one that is wanted. */
const KNOWN_MAX = 16;

export interface KnownStrings {
  /** Null: it was not there lately. */
  find(bytes: Uint8Array, field: Field): string | null;
  add(bytes: Uint8Array, field: Field, value: string): void;
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
      known[next] = { json: cut(bytes, start, end).slice(), value };
      next = (next + 1) % KNOWN_MAX;
    },
  };
}

/** From behind: names that have a beginning in common are many. */
function isSame(bytes: Uint8Array, start: number, json: Uint8Array): boolean {
  for (let i = json.length - 1; i >= 0; i--) if (bytes[start + i] !== json[i]) return false;
  return true;
}
