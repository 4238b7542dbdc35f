/** The error about one field of a form, whose message begins with the name of the field. */

import { type ApiError, type ApiErrorCode, paramError } from "../../errors.ts";

export function fieldError(field: string, code: ApiErrorCode, message: string): ApiError {
  return paramError(field, code, `${field}: ${message}`);
}
