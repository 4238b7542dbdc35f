/** Parses filters and the paths of PATCH operations (RFC 7644, sections 3.4.2.2 and 3.5.2). Pure, one pass. */

import { limits } from "../config/limits/product-limits.ts";
import { ScimError, type ScimErrorType } from "./scim-error.ts";

/** `attribute eq value`. Conditions are joined by `and`. */
export interface FilterCondition {
  /** In lower case, with its sub-attribute: `emails.value`. */
  readonly attribute: string;
  readonly value: string | number | boolean | null;
}

export interface AttributePath {
  /** In lower case; null for an attribute of an extension, which is not stored. */
  readonly attribute: string | null;
  /** Which values of a multi-valued attribute are meant; null: all. */
  readonly conditions: readonly FilterCondition[] | null;
  /** In lower case. */
  readonly sub: string | null;
}

export function parseFilter(text: string): readonly FilterCondition[] {
  const scanner = new Scanner(text, "invalidFilter");
  const conditions = scanner.readConditions("");
  scanner.expectEnd();
  return conditions;
}

export function parsePath(text: string): AttributePath {
  const scanner = new Scanner(text, "invalidPath");
  const path = scanner.readPath();
  scanner.expectEnd();
  return path;
}

const CORE_SCHEMA = /^urn:ietf:params:scim:schemas:core:2\.0:(?:user|group)$/;
const NAME_CHAR = /[\w$:.-]/;
/** Attributes of which `x eq "…"` means `x.value eq "…"`. */
const MULTI_VALUED: ReadonlySet<string> = new Set(["emails", "members", "groups"]);

class Scanner {
  readonly #text: string;
  readonly #errorType: ScimErrorType;
  #at = 0;
  #conditions = 0;

  constructor(text: string, errorType: ScimErrorType) {
    const { filterCharsMax } = limits.scim;
    this.#errorType = errorType;
    this.#text = text;
    if (text.length > filterCharsMax) throw this.#error(`is longer than ${filterCharsMax} characters`);
  }

  readConditions(prefix: string): FilterCondition[] {
    const conditions: FilterCondition[] = [];
    do conditions.push(...this.#readCondition(prefix));
    while (this.#takeWord("and"));
    return conditions;
  }

  readPath(): AttributePath {
    const { attribute, sub } = this.#readName();
    if (!this.#take("[")) return { attribute, conditions: null, sub };
    if (sub !== null) throw this.#error("has a filter after a sub-attribute");
    const conditions = this.readConditions("");
    if (!this.#take("]")) throw this.#error("lacks a closing bracket");
    return { attribute, conditions, sub: this.#take(".") ? this.#readSubName() : null };
  }

  expectEnd(): void {
    this.#skipSpaces();
    if (this.#at < this.#text.length)
      throw this.#error(
        "is not supported after its valid part. Supported: attribute eq value, joined by and",
      );
  }

  #readCondition(prefix: string): FilterCondition[] {
    if (++this.#conditions > limits.scim.filterConditionsMax) throw this.#error("has too many conditions");
    this.#skipSpaces();
    const { attribute, sub } = this.#readName();
    if (attribute === null) throw this.#error("names an attribute that cannot be searched");
    if (prefix === "" && sub === null && this.#take("[")) return this.#readValuePath(attribute);
    const name =
      sub !== null
        ? `${attribute}.${sub}`
        : prefix === "" && MULTI_VALUED.has(attribute)
          ? `${attribute}.value`
          : attribute;
    return [this.#readComparison(prefix + name)];
  }

  /** `emails[type eq "work"].value eq "…"`, `members[value eq "…"]` */
  #readValuePath(attribute: string): FilterCondition[] {
    const inner = this.readConditions(`${attribute}.`);
    if (!this.#take("]")) throw this.#error("lacks a closing bracket");
    if (!this.#take(".")) return inner;
    return [...inner, this.#readComparison(`${attribute}.${this.#readSubName()}`)];
  }

  #readComparison(attribute: string): FilterCondition {
    if (!this.#takeWord("eq")) throw this.#error("has an operator other than eq");
    this.#skipSpaces();
    return { attribute, value: this.#readValue() };
  }

  #readValue(): FilterCondition["value"] {
    const start = this.#at;
    if (this.#text[start] === '"') {
      let end = start + 1;
      while (end < this.#text.length && this.#text[end] !== '"') end += this.#text[end] === "\\" ? 2 : 1;
      this.#at = end + 1;
    } else while (/[\w.+-]/.test(this.#text[this.#at] ?? "")) this.#at++;
    const literal = this.#text.slice(start, this.#at);
    try {
      const value: unknown = JSON.parse(
        /^(?:true|false|null)$/i.test(literal) ? literal.toLowerCase() : literal,
      );
      if (value === null || ["string", "number", "boolean"].includes(typeof value))
        return value as FilterCondition["value"];
    } catch {}
    throw this.#error("has no valid value");
  }

  #readName(): { attribute: string | null; sub: string | null } {
    const start = this.#at;
    while (NAME_CHAR.test(this.#text[this.#at] ?? "")) this.#at++;
    const name = this.#text.slice(start, this.#at).toLowerCase();
    const schemaEnd = name.startsWith("urn:") ? name.lastIndexOf(":") : -1;
    if (schemaEnd !== -1 && !CORE_SCHEMA.test(name.slice(0, schemaEnd)))
      return { attribute: null, sub: null };
    const [attribute = "", sub = null, ...more] = name.slice(schemaEnd + 1).split(".");
    if (!/^[a-z$][\w$-]*$/.test(attribute) || sub === "" || more.length > 0)
      throw this.#error("has no valid attribute");
    return { attribute, sub };
  }

  #readSubName(): string {
    const { attribute, sub } = this.#readName();
    if (attribute === null || sub !== null) throw this.#error("has no valid sub-attribute");
    return attribute;
  }

  #take(char: string): boolean {
    if (this.#text[this.#at] !== char) return false;
    this.#at++;
    return true;
  }

  /** A word between spaces. Brackets may follow without one. */
  #takeWord(word: string): boolean {
    const start = this.#at;
    this.#skipSpaces();
    const end = this.#at + word.length;
    const isWord =
      this.#at > start &&
      this.#text.slice(this.#at, end).toLowerCase() === word &&
      /\s/.test(this.#text[end] ?? "");
    this.#at = isWord ? end : start;
    return isWord;
  }

  #skipSpaces(): void {
    while (/\s/.test(this.#text[this.#at] ?? "")) this.#at++;
  }

  #error(problem: string): ScimError {
    const shown = this.#text.length > 80 ? `${this.#text.slice(0, 80)}…` : this.#text;
    const what = this.#errorType === "invalidPath" ? "path" : "filter";
    return new ScimError(this.#errorType, `The ${what} ${JSON.stringify(shown)} ${problem}.`);
  }
}
