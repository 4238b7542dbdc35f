/**
 * The part of JSON Schema that the API's schemas use. Apart from the code that makes schemas with zod: the editor's chunk
 * needs no zod.
 */

export interface JsonSchema {
  readonly type?: string | readonly string[] | undefined;
  readonly description?: string | undefined;
  readonly properties?: Readonly<Record<string, JsonSchema>> | undefined;
  readonly required?: readonly string[] | undefined;
  readonly items?: JsonSchema | undefined;
  readonly anyOf?: readonly JsonSchema[] | undefined;
  readonly enum?: readonly unknown[] | undefined;
  readonly const?: unknown | undefined;
  readonly examples?: readonly unknown[] | undefined;
  readonly format?: string | undefined;
  /** `false`: other members are rejected. A schema: what other members must be. */
  readonly additionalProperties?: boolean | JsonSchema | undefined;
  readonly minimum?: number | undefined;
  readonly maximum?: number | undefined;
  readonly minLength?: number | undefined;
  readonly minItems?: number | undefined;
  readonly maxItems?: number | undefined;
  readonly pattern?: string | undefined;
}

/** Null means "omitted" and is not shown as a choice. */
export function listChoices(schema: JsonSchema): JsonSchema[] {
  if (schema.anyOf !== undefined) return schema.anyOf.flatMap(listChoices);
  const types = typeof schema.type === "string" ? [schema.type] : (schema.type ?? []);
  if (types.length === 0) return [schema];
  return types.filter((type) => type !== "null").map((type) => ({ ...schema, type }));
}

export function listValues(schema: JsonSchema): string[] {
  return listChoices(schema).flatMap(({ enum: values, const: only, type }) => {
    if (values !== undefined) return values.map(String);
    if (only !== undefined) return [String(only)];
    return type === "boolean" ? ["true", "false"] : [];
  });
}

/** The schema at a path of the body; null if the schema does not describe it. */
export function schemaAt(schema: JsonSchema, path: readonly string[]): JsonSchema | null {
  const [step, ...rest] = path;
  if (step === undefined) return schema;
  for (const choice of listChoices(schema)) {
    const next = /^\d+$/.test(step) ? choice.items : choice.properties?.[step];
    if (next === undefined) continue;
    const found = schemaAt(next, rest);
    if (found !== null) return found;
  }
  return null;
}
