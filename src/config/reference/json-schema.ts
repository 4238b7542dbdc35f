/** Builds the JSON Schema of gateway.yaml, so that an editor completes its fields, explains them and marks errors. */

import type { OutlineField, OutlineValue } from "./outline.ts";
import { allowedTexts, sentence } from "./reference.ts";

export interface JsonSchema {
  readonly [keyword: string]: unknown;
}

/** Draft 7, which editors support best. */
export function buildJsonSchema(outline: readonly OutlineField[]): JsonSchema {
  return { $schema: "http://json-schema.org/draft-07/schema#", title: "gateway.yaml", ...buildMap(outline) };
}

function buildMap(fields: readonly OutlineField[]): JsonSchema {
  const required = fields
    .filter(({ whenOmitted: leftOut }) => leftOut.kind === "rejected")
    .map(({ name }) => name);
  return {
    type: "object",
    properties: Object.fromEntries(fields.map((field) => [field.name, buildField(field)])),
    ...(required.length === 0 ? {} : { required }),
    additionalProperties: false,
  };
}

function buildField(field: OutlineField): JsonSchema {
  const { whenOmitted: leftOut, value } = field;
  return {
    description: describeField(field),
    ...buildShape(value),
    ...(leftOut.kind === "value" ? { default: leftOut.value } : {}),
  };
}

/** An editor cannot know the value of `${NAME}`: it may be a text or the digits of a number. */
const FROM_ENVIRONMENT = { type: "string", pattern: "\\$\\{" };
const DIGITS = { type: "string", pattern: "^\\d{1,15}$" };

function buildShape(value: OutlineValue): JsonSchema {
  switch (value.kind) {
    case "map":
      return buildMap(value.fields);
    case "list":
      return { type: "array", items: buildShape(value.of) };
    case "names":
      return { type: "object", additionalProperties: buildShape(value.of) };
    case "words":
      return { anyOf: [{ enum: value.words }, FROM_ENVIRONMENT] };
    case "switch":
      return { type: "boolean" };
    case "number":
      return {
        anyOf: [
          ...(value.word === undefined ? [] : [{ const: value.word }]),
          { type: "integer", minimum: value.min, maximum: value.max },
          DIGITS,
          FROM_ENVIRONMENT,
        ],
      };
    case "text":
      return { type: "string" };
  }
}

/** Editors show the allowed values of these kinds by themselves. */
const SELF_EXPLANATORY: ReadonlySet<OutlineValue["kind"]> = new Set(["map", "words", "switch"]);

function describeField(field: OutlineField): string {
  const { description: means, whenOmitted: leftOut, value } = field;
  const [ownRule, ...constraints] = allowedTexts(field);
  const allowed = SELF_EXPLANATORY.has(value.kind) ? constraints : [ownRule, ...constraints];
  const sentences = [
    sentence(means),
    ...(allowed.length === 0 ? [] : [`Allowed: ${allowed.join("; ")}.`]),
    ...(leftOut.kind === "words" ? [`Default: ${leftOut.words}.`] : []),
  ];
  return removeLinks(sentences.join(" ")).replaceAll("**", "");
}

/** Links to sections of the page have no target in an editor. */
function removeLinks(markdown: string): string {
  return markdown.replaceAll(/\[([^\]]+)\]\([^)]+\)/g, "$1");
}
