/** The error for a field that appears twice: parsers differ in which of two they keep. */

import { type ApiError, paramError } from "../../errors.ts";

export function repeatedError(param: string): ApiError {
  return paramError(
    param,
    "duplicate_parameter",
    `The field \`${param}\` appears more than once. Send it once.`,
  );
}
