/** Reads values of pushed JSON. Names of attributes have no case (RFC 7643, section 2.1). */

import { limits } from "../config/limits/product-limits.ts";
import { ScimError } from "./scim-error.ts";

/** A JSON object, by the names of its members in lower case. */
export type JsonMembers = Map<string, unknown>;

export function readMembers(value: unknown, what: string): JsonMembers {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new ScimError("invalidValue", `${what}: must be an object.`);
  return new Map(Object.entries(value).map(([name, member]) => [name.toLowerCase(), member]));
}

/** Null for null, an empty text and nothing. */
export function readOptionalText(value: unknown, what: string): string | null {
  if (value === undefined || value === null || value === "") return null;
  const { valueCharsMax } = limits.scim;
  if (typeof value !== "string") throw new ScimError("invalidValue", `${what}: must be text.`);
  if (value.length > valueCharsMax)
    throw new ScimError("invalidValue", `${what}: is longer than ${valueCharsMax} characters.`);
  return value;
}

export function readRequiredText(value: unknown, what: string): string {
  const found = readOptionalText(value, what);
  if (found === null) throw new ScimError("invalidValue", `${what}: is required.`);
  return found;
}

/** Microsoft Entra sends "True" and "False". Null for nothing. */
export function readFlag(value: unknown, what: string): boolean | null {
  if (value === undefined || value === null) return null;
  const text = typeof value === "string" ? value.toLowerCase() : value;
  if (text === true || text === "true") return true;
  if (text === false || text === "false") return false;
  throw new ScimError("invalidValue", `${what}: must be true or false.`);
}

/** One value counts as a list of one. */
export function readList(value: unknown, what: string, countMax: number): readonly unknown[] {
  if (value === undefined || value === null) return [];
  const list: readonly unknown[] = Array.isArray(value) ? value : [value];
  if (list.length > countMax)
    throw new ScimError("tooMany", `${what}: has more than ${countMax} values. Send fewer in one request.`);
  return list;
}

/** Microsoft Entra may send the value of an attribute as a list of one object: `[{ "value": "False" }]`. */
export function unwrapValue(value: unknown): unknown {
  if (!Array.isArray(value) || value.length !== 1) return value;
  const [only]: readonly unknown[] = value;
  return typeof only === "object" && only !== null && !Array.isArray(only)
    ? readMembers(only, "value").get("value")
    : only;
}
