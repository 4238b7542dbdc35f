/** Errors for requests that cannot be translated without changing their meaning. */

import { type ApiError, paramError } from "../../errors.ts";

/** `advice` is a sentence about what to do instead. */
export function unsupportedField(param: string, advice: string): ApiError {
  return paramError(
    param,
    "unsupported_parameter",
    `\`${param}\` is not supported for this model, because its upstream has another interface. ${advice}`,
  );
}
