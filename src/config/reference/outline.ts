/** The schema of gateway.yaml as plain data: every field with its description, default and allowed values. */

import { z } from "zod";
import { readDescription, type SchemaField } from "../schema/basic-values.ts";
import { RULE_MESSAGES } from "../schema/rule.ts";

export interface OutlineField {
  name: string;
  /** In Markdown. */
  description: string;
  whenOmitted: DefaultRule;
  value: OutlineValue;
  /** Rules about this field that belong to the map that contains it. */
  mapRules: readonly string[];
  /** In Markdown: constraints besides the rules. */
  constraints: string | null;
}

export type DefaultRule =
  | { kind: "rejected" }
  /** The value in the syntax of the file, with an explanation where one is needed. */
  | { kind: "value"; value: unknown; words: string | null }
  | { kind: "words"; words: string };

/** Rules are ends of the sentence "must be …", as in error messages of the validator. */
export type OutlineValue = { rules: readonly string[] } & (
  | { kind: "map"; fields: readonly OutlineField[]; heading: string | null }
  | { kind: "list"; of: OutlineValue }
  | { kind: "names"; names: OutlineValue; of: OutlineValue }
  | { kind: "words"; words: readonly string[] }
  | { kind: "switch" }
  /** `word` may be written instead of a number. */
  | { kind: "number"; min: number; max: number; word?: string }
  | { kind: "text" }
);

export function buildOutline(schema: z.core.$ZodType): readonly OutlineField[] {
  const value = outlineValue(schema, "gateway.yaml");
  if (value.kind !== "map") throw new Error("The root of the schema is not a map of fields.");
  return value.fields;
}

function outlineField(
  name: string,
  field: SchemaField,
  within: readonly string[],
  place: string,
): OutlineField {
  const { schema, ...rest } = unwrapSchema(field.is);
  const value = outlineValue(schema, place);
  return {
    name,
    description: field.means,
    whenOmitted: describeDefault(rest, field.leftOut ?? null, place),
    value,
    mapRules: within.filter((rule) => !value.rules.includes(rule)),
    constraints: field.also ?? null,
  };
}

interface UnwrappedSchema {
  schema: z.core.$ZodType;
  isOptional: boolean;
  /** Undefined if the schema has none. */
  defaultValue: unknown;
}

function unwrapSchema(schema: z.core.$ZodType): UnwrappedSchema {
  if (schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault) {
    return { schema: schema.unwrap(), isOptional: true, defaultValue: schema.def.defaultValue };
  }
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodExactOptional) {
    return { schema: schema.unwrap(), isOptional: true, defaultValue: undefined };
  }
  return { schema, isOptional: false, defaultValue: undefined };
}

function describeDefault(
  { isOptional, defaultValue: byDefault }: Omit<UnwrappedSchema, "schema">,
  words: string | null,
  place: string,
): DefaultRule {
  if (byDefault !== undefined) return { kind: "value", value: byDefault, words };
  if (isOptional && words !== null) return { kind: "words", words };
  if (isOptional) throw new Error(`${place} is optional, but has no default and no leftOut text.`);
  if (words !== null) throw new Error(`${place} is required, but has a leftOut text.`);
  return { kind: "rejected" };
}

function outlineValue(schema: z.core.$ZodType, place: string): OutlineValue {
  // A transformed value is written in its input form, unless the transformation only normalizes it.
  if (schema instanceof z.ZodPipe) {
    return outlineValue(schema.in instanceof z.ZodTransform ? schema.out : schema.in, place);
  }
  if (schema instanceof z.ZodEnum) return { kind: "words", words: schema.options.map(String), rules: [] };
  const checks = readChecks(schema, place);
  const rulesAbout = (name: string | null) =>
    checks.filter(({ field }) => field === name).map(({ rule }) => rule);
  const rules = [...new Set([typeRule(schema), ...rulesAbout(null)])];
  if (schema instanceof z.ZodObject) {
    const description = readDescription(schema);
    if (description === null) throw new Error(`The fields of ${place} are not described.`);
    const fields = Object.entries(description.fields).map(([name, field]) =>
      outlineField(name, field, rulesAbout(name), `${place}: ${name}`),
    );
    return { kind: "map", fields, heading: description.heading, rules };
  }
  if (schema instanceof z.ZodArray) return { kind: "list", of: outlineValue(schema.element, place), rules };
  if (schema instanceof z.ZodRecord) {
    return {
      kind: "names",
      names: outlineValue(schema.keyType, place),
      of: outlineValue(schema.valueType, place),
      rules,
    };
  }
  if (schema instanceof z.ZodBoolean) return { kind: "switch", rules };
  if (schema instanceof z.ZodString) return { kind: "text", rules };
  if (schema instanceof z.ZodNumber) {
    const { minValue, maxValue } = schema;
    if (minValue === null || maxValue === null) throw new Error(`${place} is a number without bounds.`);
    return { kind: "number", min: minValue, max: maxValue, rules };
  }
  if (schema instanceof z.ZodUnion) return outlineUnion(schema, place, rules);
  throw new Error(`${place} has an unsupported schema type: ${schema._zod.def.type}.`);
}

/** The one union that the file has: a word or a number. */
function outlineUnion(schema: z.ZodUnion, place: string, rules: readonly string[]): OutlineValue {
  const [word, number] = schema.options;
  const value = number === undefined ? null : outlineValue(number, place);
  if (!(word instanceof z.ZodLiteral) || value?.kind !== "number")
    throw new Error(`${place} is a union of something else than a word and a number.`);
  return { ...value, word: String(word.value), rules };
}

/** Takes the rule from the validator: `undefined` is invalid for every unwrapped schema. */
function typeRule(schema: z.core.$ZodType): string {
  const [issue] = z.core.safeParse(schema, undefined, RULE_MESSAGES).error?.issues ?? [];
  if (issue === undefined)
    throw new Error(`The schema ${schema._zod.def.type} accepts undefined, so it has no error text.`);
  return issue.message;
}

interface Check {
  rule: string;
  /** The field that the rule is about, or null if it is about the whole map. */
  field: PropertyKey | null;
}

function readChecks(schema: z.core.$ZodType, place: string): Check[] {
  return (schema._zod.def.checks ?? []).map((check) => {
    // The rules of the schema are constant texts and do not read the issue.
    const buildMessage = check._zod.def.error as (() => unknown) | undefined;
    const rule = buildMessage?.();
    if (typeof rule !== "string") throw new Error(`${place} has a rule without an error text.`);
    const path = check instanceof z.core.$ZodCustom ? check._zod.def.path : undefined;
    return { rule, field: path?.[0] ?? null };
  });
}
