/** The refusal of a field that is known under the same name in another case. */

import { ApiError } from "../../errors.ts";

/** `where` describes the place in the body. */
export function caseVariantError(field: string, where: string): ApiError {
  return new ApiError(
    "unknown_parameter",
    `A field differs from \`${field}\` only in upper and lower case (${where}). Some upstreams would accept it as \`${field}\`. Write the name exactly, or remove the field.`,
    { param: field },
  );
}
