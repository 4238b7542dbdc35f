/** JSON Schema → the fields of a body, for display. */

import { z } from "zod";
import { type JsonSchema, listChoices, listValues } from "./json-schema.ts";

/** The parts of a schema that are displayed. */
const jsonSchema: z.ZodType<JsonSchema> = z.looseObject({
  type: z.union([z.string(), z.array(z.string())]).optional(),
  description: z.string().optional(),
  get properties() {
    return z.record(z.string(), jsonSchema).optional();
  },
  required: z.array(z.string()).optional(),
  get items() {
    return jsonSchema.optional();
  },
  get anyOf() {
    return z.array(jsonSchema).optional();
  },
  enum: z.array(z.unknown()).optional(),
  const: z.unknown().optional(),
  examples: z.array(z.unknown()).optional(),
  format: z.string().optional(),
  get additionalProperties() {
    return z.union([z.boolean(), jsonSchema]).optional();
  },
  minimum: z.number().optional(),
  maximum: z.number().optional(),
  minLength: z.number().optional(),
  minItems: z.number().optional(),
  maxItems: z.number().optional(),
  pattern: z.string().optional(),
});

export interface FieldView {
  readonly name: string;
  /** For example `string`, `list of objects`, `string or list`. */
  readonly type: string;
  readonly isRequired: boolean;
  readonly about: string;
  /** The allowed values, if they are a short list. */
  readonly values: readonly string[];
  readonly fields: readonly FieldView[];
}

/** The fields of the request body; empty if there is none. */
export function bodySchema(content: { readonly schema: z.ZodType } | undefined): JsonSchema {
  if (content === undefined) return {};
  const { $schema: _, ...schema } = z.toJSONSchema(content.schema, { io: "input" });
  return jsonSchema.parse(schema);
}

/** Deep enough for messages and their parts; the model's documentation describes the rest. */
const DEPTH_MAX = 3;

export function listFields(schema: JsonSchema, depth = 0): FieldView[] {
  const required = new Set(schema.required ?? []);
  return Object.entries(schema.properties ?? {}).map(([name, field]) => ({
    name,
    type: describeType(field),
    isRequired: required.has(name),
    about: field.description ?? "",
    values: listChoices(field).some(({ type }) => type === "boolean") ? [] : listValues(field),
    fields: depth + 1 >= DEPTH_MAX ? [] : innerFields(field, depth + 1),
  }));
}

function innerFields(schema: JsonSchema, depth: number): FieldView[] {
  const seen = new Map<string, FieldView>();
  for (const choice of listChoices(schema)) {
    const inner = choice.items === undefined ? [choice] : listChoices(choice.items);
    for (const field of inner.flatMap((one) => listFields(one, depth))) {
      if (!seen.has(field.name)) seen.set(field.name, field);
    }
  }
  return [...seen.values()];
}

function describeType(schema: JsonSchema): string {
  return [...new Set(listChoices(schema).map((choice) => simpleType(choice, false)))].join(" or ");
}

function describeTypes(schema: JsonSchema): string {
  return [...new Set(listChoices(schema).map((choice) => simpleType(choice, true)))].join(" or ");
}

function simpleType(
  { type, items, format, enum: values, const: only }: JsonSchema,
  several: boolean,
): string {
  const s = several ? "s" : "";
  if (format === "binary") return `file${s}`;
  if (values !== undefined || only !== undefined) return `string${s}`;
  if (type === "array") return items === undefined ? `list${s}` : `list${s} of ${describeTypes(items)}`;
  return typeof type === "string" ? `${type}${s}` : "anything";
}
