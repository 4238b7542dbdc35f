/** The error for a field that differs from a known name only in case. */

import { type ApiError, paramError } from "../../errors.ts";

/** `where` describes the position in the body. */
export function caseVariantError(field: string, where: string): ApiError {
  return paramError(
    field,
    "unknown_parameter",
    `A field differs from \`${field}\` only in upper and lower case (${where}). Some upstreams would accept it as \`${field}\`. Write the name exactly, or remove the field.`,
  );
}
