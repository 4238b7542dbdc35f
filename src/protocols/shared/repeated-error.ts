/** The error for a field that appears twice: parsers differ in which of two they keep. */

import { ApiError } from "../../errors.ts";

export function repeatedError(param: string): ApiError {
  return new ApiError("duplicate_parameter", `The field \`${param}\` appears more than once. Send it once.`, {
    param,
  });
}
