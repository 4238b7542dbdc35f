/** The problems of an OpenAPI document: violations of its schema, and unresolved references. */

import { Validator } from "@seriousme/openapi-schema-validator";

export async function openapiProblems(document: object): Promise<unknown[]> {
  const result = await new Validator().validate(structuredClone(document) as Record<string, unknown>);
  const errors: unknown = result.errors ?? [];
  const lost = referencesIn(document).filter((reference) => !resolves(document, reference));
  return [...(Array.isArray(errors) ? errors : [errors]), ...lost];
}

function referencesIn(value: unknown): string[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, one]) =>
    name === "$ref" && typeof one === "string" ? [one] : referencesIn(one),
  );
}

function resolves(document: object, reference: string): boolean {
  if (!reference.startsWith("#/")) return false;
  let at: unknown = document;
  for (const step of reference.slice(2).split("/")) {
    const name = step.replaceAll("~1", "/").replaceAll("~0", "~");
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, name)) return false;
    at = (at as Record<string, unknown>)[name];
  }
  return true;
}
