/** The places that can repeat: those that the schemas of the public API describe, and those that the readers read. */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { z } from "zod";
import { toJsonSchema } from "../../../src/openapi.ts";
import { isObject, listNodes } from "./grow.ts";

/** Every array, map and unbounded string of a schema, as `kind path`: `array messages[].content`. */
function listSchemaPlaces(schema: z.ZodType): Set<string> {
  const places = new Set<string>();
  const visit = (json: unknown, path: string) => {
    if (!isObject(json)) return;
    for (const list of [json.anyOf, json.oneOf, json.allOf])
      if (Array.isArray(list)) for (const branch of list) visit(branch, path);
    const isFixed = json.const !== undefined || json.enum !== undefined || json.format === "binary";
    if (json.type === "string" && !isFixed) places.add(`string ${path}`);
    if (json.type === "array") {
      places.add(`array ${path}`);
      visit(json.items, `${path}[]`);
    }
    if (isObject(json.additionalProperties) && Object.keys(json.additionalProperties).length > 0)
      places.add(`map ${path}`);
    for (const [name, member] of Object.entries(isObject(json.properties) ? json.properties : {}))
      visit(member, path === "" ? name : `${path}.${name}`);
  };
  visit(toJsonSchema(schema, { io: "output", unrepresentable: "any" }), "");
  return places;
}

/** The places of a document in the same form. */
function listSamplePlaces(json: unknown): Set<string> {
  return new Set(
    listNodes(json).flatMap(({ path, value }) => {
      const name = path.reduce<string>(
        (written, step) =>
          typeof step === "number" ? `${written}[]` : written === "" ? step : `${written}.${step}`,
        "",
      );
      if (typeof value === "string") return [`string ${name}`];
      if (Array.isArray(value)) return value.length === 0 ? [] : [`array ${name}`];
      return isObject(value) && Object.keys(value).length > 0 ? [`map ${name}`] : [];
    }),
  );
}

/** The lab adds the model to each request. The other is an id that is looked up. Both are bounded in their length. */
const BOUNDED: ReadonlySet<string> = new Set(["string model", "string previous_response_id"]);

/** The places of a schema that no document has. */
export function listMissingPlaces(schema: z.ZodType, documents: readonly unknown[]): string[] {
  const known = new Set(documents.flatMap((json) => [...listSamplePlaces(json)]));
  return [...listSchemaPlaces(schema)].filter((place) => !known.has(place) && !BOUNDED.has(place));
}

export interface ReadField {
  readonly name: string;
  readonly kind: "list" | "value" | "literal";
  readonly file: string;
}

const SOURCE = join(import.meta.dir, "../../../src/protocols");
/** `readObjects(message.tool_calls)`, `readString(member(json, "model"))` */
const FIELD_READS = /read(Array|Objects|StringMap|String|Object)\((?:\w+\(\w+, "(\w+)"\)|[^()]*?\.(\w+))\)/g;
const MEMBER_READS = /\b(?:member|objectMember)\(\w+, "(\w+)"\)/g;
const DESTRUCTURED = /\{ ([\w, :]+) \}: Json\b/g;
/** Kinds of elements, events and stops: each has its own code. */
const LITERALS = /case "([\w.]+)":|\btype === "([\w.]+)"/g;

/** The fields that the code of a folder of `src/protocols` reads by name. */
export function listReadFields(folder: string): ReadField[] {
  return readdirSync(join(SOURCE, folder))
    .filter((file) => file.endsWith(".ts") && !file.includes(".test") && !/writer|bedrock/.test(file))
    .flatMap((file) => {
      const text = readFileSync(join(SOURCE, folder, file), "utf8");
      const place = `${folder}/${file}`;
      const field = (name: string | undefined, kind: ReadField["kind"]): ReadField[] =>
        name === undefined ? [] : [{ name, kind, file: place }];
      return [
        ...[...text.matchAll(FIELD_READS)].flatMap(([, how, member, name]) =>
          field(
            member ?? name,
            how === "Array" || how === "Objects" || how === "StringMap" ? "list" : "value",
          ),
        ),
        ...[...text.matchAll(MEMBER_READS)].flatMap(([, name]) => field(name, "value")),
        ...[...text.matchAll(DESTRUCTURED)].flatMap(([, names = ""]) =>
          names.split(",").flatMap((name) => field(name.split(":")[0]?.trim(), "value")),
        ),
        ...[...text.matchAll(LITERALS)].flatMap(([, one, other]) => field(one ?? other, "literal")),
      ];
    });
}

/** What documents contain: the names of their members, those with a list or map, and their short texts. */
export class SampleContents {
  readonly #values = new Set<string>();
  readonly #lists = new Set<string>();
  readonly #literals = new Set<string>();

  constructor(documents: readonly unknown[]) {
    for (const document of documents) this.#visit("", document);
  }

  #visit(name: string, value: unknown): void {
    if (name !== "") this.#values.add(name);
    if (typeof value === "string") this.#literals.add(value);
    else if (Array.isArray(value)) {
      if (value.length > 0) this.#lists.add(name);
      for (const element of value) this.#visit("", element);
    } else if (isObject(value)) {
      if (Object.keys(value).length > 0) this.#lists.add(name);
      for (const [key, member] of Object.entries(value)) this.#visit(key, member);
    }
  }

  has({ name, kind }: ReadField): boolean {
    if (kind === "literal") return this.#literals.has(name);
    return (kind === "list" ? this.#lists : this.#values).has(name);
  }
}
