/** A JSON schema with every place of a schema that can repeat. */

const PROPERTIES = {
  path: { type: "string", description: "A path", enum: ["a", "b"], examples: ["a"] },
  lines: { type: "array", items: { type: "integer" }, prefixItems: [{ type: "integer" }] },
  target: { $ref: "#/$defs/target" },
};

export const TOOL_SCHEMA = {
  type: "object",
  description: "The arguments",
  properties: PROPERTIES,
  required: ["path"],
  additionalProperties: false,
  patternProperties: { "^x-": { type: "string" } },
  anyOf: [
    { $ref: "#/$defs/target" },
    { type: "object", properties: { path: { type: "integer" } }, required: ["path"] },
  ],
  oneOf: [{ $ref: "#/$defs/target" }, { properties: { kind: { const: "b" } }, required: ["kind"] }],
  allOf: [{ $ref: "#/definitions/other" }, { properties: { size: { type: "number" } } }],
  $defs: { target: { type: "object", properties: { kind: { const: "a" } }, required: ["kind"] } },
  definitions: { other: { type: "object", properties: { other: { type: ["string", "null"] } } } },
};

/** Readers take a schema as it is, so the whole one is in the documents of one dialect only. */
export const SMALL_SCHEMA = {
  type: "object",
  properties: { path: { type: "string", enum: ["a"] } },
  required: ["path"],
  additionalProperties: false,
};

export const RESULT_SCHEMA = {
  type: "object",
  properties: PROPERTIES,
  required: ["path", "lines", "target"],
  additionalProperties: false,
  $defs: { target: { type: "object", properties: {}, required: [], additionalProperties: false } },
};

/** The OpenAPI subset of Gemini's older fields. */
export const OPENAPI_SCHEMA = {
  type: "OBJECT",
  nullable: true,
  properties: {
    path: { type: "STRING", description: "A path", enum: ["a"], maxLength: "9" },
    lines: { type: "ARRAY", items: { type: "INTEGER" }, minItems: "1" },
    either: { anyOf: [{ type: "STRING" }, { type: "NUMBER" }] },
  },
  propertyOrdering: ["path"],
  required: ["path"],
};
