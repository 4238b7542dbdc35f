/** Errors for requests that cannot be translated without changing their meaning. */

import { ApiError } from "../../errors.ts";

/** `advice` says what to do instead, as a sentence. */
export function unsupportedField(param: string, advice: string): ApiError {
  return new ApiError(
    "unsupported_parameter",
    `\`${param}\` is not supported for this model, because its upstream has another interface. ${advice}`,
    { param },
  );
}
