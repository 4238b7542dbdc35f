/** The parameters `attributes` and `excludedAttributes` (RFC 7644, section 3.9). */

import { limits } from "../config/limits/product-limits.ts";
import { ScimError } from "./scim-error.ts";

export type Resource = Readonly<Record<string, unknown>>;

/** Names in lower case, with their sub-attributes: `emails.value`. */
export type Projection =
  | { readonly kind: "default" }
  | { readonly kind: "only" | "without"; readonly names: ReadonlySet<string> };

export function readProjection(query: { attributes?: unknown; excludedAttributes?: unknown }): Projection {
  const only = readNames(query.attributes);
  const without = readNames(query.excludedAttributes);
  if (only.size > 0) return { kind: "only", names: only };
  return without.size > 0 ? { kind: "without", names: without } : { kind: "default" };
}

/** Whether the attribute is part of the response. */
export function includes(projection: Projection, name: string): boolean {
  if (projection.kind === "default") return true;
  if (projection.kind === "without") return !projection.names.has(name);
  return projection.names.has(name) || [...projection.names].some((one) => one.startsWith(`${name}.`));
}

/** `id` and `schemas` are always returned. */
export function project(resource: Resource, projection: Projection): Resource {
  if (projection.kind === "default") return resource;
  const { kind, names } = projection;
  return Object.fromEntries(
    Object.entries(resource).flatMap(([name, value]): [string, unknown][] => {
      const folded = name.toLowerCase();
      if (folded === "id" || folded === "schemas") return [[name, value]];
      if (names.has(folded)) return kind === "only" ? [[name, value]] : [];
      const hasParts = [...names].some((one) => one.startsWith(`${folded}.`));
      if (!hasParts) return kind === "only" ? [] : [[name, value]];
      return [[name, projectParts(value, (part) => names.has(`${folded}.${part}`) === (kind === "only"))]];
    }),
  );
}

function projectParts(value: unknown, isKept: (part: string) => boolean): unknown {
  if (Array.isArray(value)) return value.map((one) => projectParts(one, isKept));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).filter(([part]) => isKept(part.toLowerCase())));
}

const SCHEMA = /^urn:ietf:params:scim:schemas:core:2\.0:(?:user|group):/;

function readNames(value: unknown): ReadonlySet<string> {
  if (value === undefined) return new Set();
  if (typeof value !== "string")
    throw new ScimError("invalidValue", "attributes: must be one list of names.");
  const { filterCharsMax, attributesMax } = limits.scim;
  const names = value.length > filterCharsMax ? null : value.split(",", attributesMax + 1);
  if (names === null || names.length > attributesMax)
    throw new ScimError("tooMany", `attributes: have more than ${attributesMax} names.`);
  return new Set(
    names.map((name) => name.trim().toLowerCase().replace(SCHEMA, "")).filter((name) => name !== ""),
  );
}
