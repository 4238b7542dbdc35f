/** Suggestions at the caret: the members that an object lacks, or the values of a member. */

import { type CaretPlace, placeOfCaret } from "./caret.ts";
import { type JsonSchema, listChoices, listValues, schemaAt } from "./json-schema.ts";

export interface Suggestion {
  readonly label: string;
  readonly about: string;
}

export interface Completion {
  readonly place: CaretPlace;
  readonly suggestions: readonly Suggestion[];
}

const SUGGESTIONS_MAX = 100;

export function complete(
  text: string,
  caret: number,
  schema: JsonSchema,
  models: readonly string[],
): Completion | null {
  const place = placeOfCaret(text, caret);
  if (place === null) return null;
  const found = place.at === "name" ? names(schema, place) : values(schema, place, models);
  const typed = place.typed.toLowerCase();
  const suggestions = found
    .filter(({ label }) => label.toLowerCase().startsWith(typed) && label !== place.typed)
    .slice(0, SUGGESTIONS_MAX);
  return suggestions.length === 0 ? null : { place, suggestions };
}

function names(schema: JsonSchema, { path, taken }: CaretPlace): Suggestion[] {
  const object = schemaAt(schema, path);
  if (object === null) return [];
  const fields = listChoices(object).flatMap(({ properties = {} }) => Object.entries(properties));
  const seen = new Set(taken);
  return fields.flatMap(([label, { description = "" }]) => {
    if (seen.has(label)) return [];
    seen.add(label);
    return [{ label, about: description }];
  });
}

function values(schema: JsonSchema, { path }: CaretPlace, models: readonly string[]): Suggestion[] {
  if (path.length === 1 && path[0] === "model") return models.map((label) => ({ label, about: "" }));
  const field = schemaAt(schema, path);
  return field === null ? [] : listValues(field).map((label) => ({ label, about: "" }));
}

/** The text that replaces the typed part: a name with its colon, or a value as JSON. */
export function formatInsertion(
  text: string,
  { place }: Completion,
  { label }: Suggestion,
  schema: JsonSchema,
): string {
  if (place.at === "name") return `"${label}"${/^\s*:/.test(text.slice(place.to)) ? "" : ": "}`;
  const isBoolean = listChoices(schemaAt(schema, place.path) ?? {}).some(({ type }) => type === "boolean");
  return isBoolean ? label : JSON.stringify(label);
}
