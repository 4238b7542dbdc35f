/** Turns the reason why a body was rejected into the error for the client. */

import { ApiError } from "../../errors.ts";
import { noCapacityError } from "./body-budget.ts";
import type { BodyRejection } from "./body-rejection.ts";
import type { SpoolRefusal } from "./spool.ts";

export function bodyError(refusal: BodyRejection | SpoolRefusal): ApiError {
  switch (refusal.reason) {
    case "too_large":
    case "too_dense":
      return new ApiError("request_too_large", refusal.message);
    case "unsupported_encoding":
      return new ApiError("unsupported_media_type", refusal.message);
    case "bad_encoding":
    case "bad_framing":
      return new ApiError("invalid_request", refusal.message);
    case "aborted":
      return new ApiError("client_closed_request", refusal.message);
    case "idle_timeout":
      return new ApiError("request_timeout", refusal.message);
    case "no_room":
      return noCapacityError(refusal.retryAfterSeconds, refusal.of);
    case "disk":
      return new ApiError("store_unavailable", refusal.message, { headers: { "retry-after": "5" } });
    case "stopped":
      return new ApiError("invalid_request", refusal.message);
  }
}
