/**
 * A body while a request policy is applied to it: finds the members that rules read, and collects the edits. A member
 * that a rule reads must appear once: parsers differ in which of two they keep.
 */

import { decodeText } from "../../base/bytes.ts";
import { camelCase, snakeCase } from "../../base/name-case.ts";
import { ApiError } from "../../errors.ts";
import { deriveScan, isScalar } from "../../json/edited-scan.ts";
import { type JsonMember, type JsonValue, listMembers } from "../../json/members.ts";
import { foldCase } from "../../json/name.ts";
import { detectKind, integerValue, type ObjectScan, stringValue } from "../../json/scan.ts";
import { addMember, applySplices, editMembers, replaceValue, type Splice } from "../../json/splice.ts";
import type { Interface } from "../../records/interfaces.ts";
import type { Rule } from "../../records/request-policy.ts";
import { caseVariantError } from "../shared/case-variant-error.ts";
import type { Endpoint } from "../shared/endpoint.ts";
import { repeatedError } from "../shared/repeated-error.ts";
import type { ScannedBody } from "../shared/request.ts";

/** A change that a policy made to a request. Values are short and never the text of a message. */
export interface PolicyChange {
  readonly rule: Rule;
  /** The member, as the client's dialect names it. */
  readonly param: string;
  readonly from: string | null;
  readonly to: string | null;
}

export interface ChangedBody {
  readonly bytes: Uint8Array;
  /** Null: the bytes must be scanned. */
  readonly scan: ObjectScan<string> | null;
}

/** Clients choose the types of tools, and the header names each of them. */
export const CHANGES_MAX = 32;
/** Takes the place of the member in a last change that stands for all further ones. */
export const FURTHER_CHANGES = "...";
/** Longer values are no effort, tier or type. */
const VALUE_BYTES_MAX = 256;

export class PolicyBody {
  readonly bytes: Uint8Array;
  readonly interface: Interface;
  /** Google accepts each name in camel case and in snake case, and never folds case. */
  readonly isGoogle: boolean;
  readonly changes: PolicyChange[] = [];
  readonly #body: ScannedBody;
  readonly #splices: Splice[] = [];
  /** Replaced values by their place. */
  readonly #replaced = new Map<number, string>();
  /** Edits of top-level members; null removes one. */
  readonly #edits: Record<string, Uint8Array | null> = {};
  /** All edits replace or add strings, numbers and literals. */
  #keepsValues = true;

  constructor(body: ScannedBody, endpoint: Endpoint) {
    this.#body = body;
    this.bytes = body.part.bytes;
    this.interface = endpoint.interface;
    this.isGoogle = endpoint.api.hasModelInPath;
  }

  /** A member of the body itself; null if it is absent or null. `name` is one that the reader knows. */
  member(name: string): JsonValue | null {
    const { fields } = this.#body.scan;
    const field = fields[this.#findTopLevelName(name)];
    return field === undefined || field.kind === "null" ? null : field;
  }

  /** Several names of one member at once are rejected. */
  #findTopLevelName(name: string): string {
    const { fields } = this.#body.scan;
    if (!this.isGoogle || name === snakeCase(name)) return name;
    const snake = snakeCase(name);
    if (fields[name] !== undefined && fields[snake] !== undefined) throw repeatedError(name);
    return fields[snake] === undefined ? name : snake;
  }

  /** The members of an object by name, camel case for Google. Those in `names` must not be repeated. */
  members(
    object: JsonValue,
    names: readonly string[] | "all",
    path: string,
  ): ReadonlyMap<string, JsonMember> {
    const found = new Map<string, JsonMember>();
    for (const member of listMembers(this.bytes, object)) {
      const name = this.isGoogle ? camelCase(member.name) : member.name;
      const wanted = names === "all" || names.includes(name);
      if (wanted && found.has(name)) throw repeatedError(`${path}.${name}`);
      if (!wanted && !this.isGoogle) this.#rejectVariant(name, names, path);
      found.set(name, member);
    }
    return found;
  }

  #rejectVariant(name: string, names: readonly string[], path: string): void {
    if (/^[a-z0-9_]*$/.test(name)) return;
    const folded = foldCase(name);
    if (names.includes(folded)) throw caseVariantError(`${path}.${folded}`, `in \`${path}\``);
  }

  /** The text of a string; null for anything else, and for a long one. */
  text(value: JsonValue): string | null {
    if (value.end - value.start > VALUE_BYTES_MAX) return null;
    return stringValue(this.bytes, { ...value, keyStart: value.start, values: 0 });
  }

  integer(value: JsonValue): number | null {
    return integerValue(this.bytes, { ...value, keyStart: value.start, values: 0 });
  }

  /** A value for the trace: short ones as they are written. */
  show(value: JsonValue | null): string | null {
    if (value === null) return null;
    const text =
      this.text(value) ?? decodeText(this.bytes, value.start, Math.min(value.end, value.start + 64));
    return value.kind === "object" || value.kind === "array" ? value.kind : text.slice(0, 64);
  }

  /** The same change is noted once. */
  note(rule: Rule, param: string, from: string | null, to: string | null): void {
    const isKnown = this.changes.some(
      (one) => one.rule === rule && one.param === param && one.from === from && one.to === to,
    );
    if (isKnown || this.changes.length > CHANGES_MAX) return;
    const isFurther = this.changes.length === CHANGES_MAX;
    this.changes.push(
      isFurther ? { rule, param: FURTHER_CHANGES, from: null, to: null } : { rule, param, from, to },
    );
  }

  /** Sets a top-level member to this JSON, or removes it. */
  setMember(name: string, json: string | null): void {
    const known = this.#findTopLevelName(name);
    const value = json === null ? null : Buffer.from(json);
    const present = this.#body.scan.fields[known];
    const isKept = value !== null && isScalar(detectKind(value[0])) && isScalar(present?.kind ?? "null");
    if (!isKept) this.#keepsValues = false;
    this.#edits[known] = value;
  }

  /** A top-level member was set or removed as a whole. */
  isEdited(name: string): boolean {
    return this.#edits[this.#findTopLevelName(name)] !== undefined;
  }

  /** The new value is a string, number or literal. A later replacement of the same value counts. */
  replace(value: JsonValue, json: string): void {
    if (!isScalar(value.kind)) this.#keepsValues = false;
    this.#replaced.set(value.start, json);
    const splice = replaceValue({ ...value, keyStart: value.start, values: 0 }, Buffer.from(json));
    const known = this.#splices.findIndex(({ start, end }) => start === splice.start && end === splice.end);
    if (known === -1) this.#splices.push(splice);
    else this.#splices[known] = splice;
  }

  /** The number that a rule has put in the place of this value; null if none has. */
  replacedInteger({ start }: JsonValue): number | null {
    const json = this.#replaced.get(start);
    return json === undefined ? null : Number(json);
  }

  /** Adds a member to an object inside the body. */
  insert(object: JsonValue, name: string, json: string): void {
    const empty = listMembers(this.bytes, object).length === 0;
    this.#keepsValues = false;
    this.#splices.push(addMember({ insertAt: object.start + 1, empty }, name, json));
  }

  splice(splices: readonly Splice[]): void {
    this.#keepsValues = false;
    this.#splices.push(...splices);
  }

  /** The changed body; null if nothing changes. */
  build(): ChangedBody | null {
    const { part, scan } = this.#body;
    const { bytes, start, end } = part;
    const edited = editMembers(bytes, scan, this.#edits);
    const splices = [...this.#splices, ...edited];
    if (splices.length === 0) return null;
    return {
      bytes: applySplices(bytes, splices, start, end),
      scan: this.#keepsValues ? this.#deriveScan(splices) : null,
    };
  }

  #deriveScan(splices: readonly Splice[]): ObjectScan<string> {
    const { part, scan } = this.#body;
    const added = Object.entries(this.#edits).flatMap(([name, value]) =>
      value === null || scan.fields[name] !== undefined ? [] : [[name, value] as const],
    );
    const replaced = splices.filter(({ start, end }) => start < end);
    return deriveScan(scan, { bodyStart: part.start, replaced, added });
  }
}

/** A request that a rule rejects. `limit` states the rule: "at most 200000 tokens". */
export function violation(rule: Rule, param: string, message: string): ApiError {
  return new ApiError(
    "policy_violation",
    `\`${param}\`: ${message} This is a rule of the key's request policy. Change the request, or ask your administrator.`,
    { param, rule },
  );
}
