/** Turns the reason why a body was rejected into the error for the client. */

import { ApiError } from "../../errors.ts";
import { noCapacityError } from "./body-budget.ts";
import type { BodyRejection } from "./body-rejection.ts";
import type { SpoolRejection } from "./spool.ts";

export function bodyError(rejection: BodyRejection | SpoolRejection): ApiError {
  switch (rejection.reason) {
    case "too_large":
    case "too_dense":
      return new ApiError("request_too_large", rejection.message);
    case "unsupported_encoding":
      return new ApiError("unsupported_media_type", rejection.message);
    case "bad_encoding":
    case "bad_framing":
      return new ApiError("invalid_request", rejection.message);
    case "aborted":
      return new ApiError("client_closed_request", rejection.message);
    case "idle_timeout":
      return new ApiError("request_timeout", rejection.message);
    case "no_room":
      return noCapacityError(rejection.retryAfterSeconds, rejection.of);
    case "disk":
      return new ApiError("store_unavailable", rejection.message, { headers: { "retry-after": "5" } });
    case "stopped":
      return new ApiError("invalid_request", rejection.message);
  }
}
