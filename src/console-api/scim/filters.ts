/** Reads the parameter `filter` of a list. */

import { type FilterCondition, parseFilter } from "../../scim/filter.ts";
import { ScimError } from "../../scim/scim-error.ts";

export function readFilterConditions(filter: unknown): readonly FilterCondition[] {
  if (filter === undefined || filter === "") return [];
  if (typeof filter === "string") return parseFilter(filter);
  throw new ScimError("invalidFilter", "filter: must be sent once.");
}

/** The value of a condition. `earlier` is that of another condition on the same attribute. */
export function readText(earlier: string | undefined, value: FilterCondition["value"]): string {
  if (typeof value !== "string")
    throw new ScimError("invalidFilter", "filter: compare with a text in quotes.");
  if (earlier !== undefined && earlier !== value)
    throw new ScimError("invalidFilter", "filter: an attribute cannot have two values.");
  return value;
}

export function unsearchable(attribute: string): ScimError {
  return new ScimError("invalidFilter", `filter: ${attribute} cannot be searched.`);
}
