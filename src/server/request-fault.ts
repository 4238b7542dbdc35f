/** The error for a client whose request could not be parsed. */

import { ApiError } from "../errors.ts";
import type { RequestFault } from "../net/http-server/request-head.ts";

export function requestFaultError({ kind, reason }: RequestFault): ApiError {
  switch (kind) {
    case "malformed":
      return new ApiError("invalid_request", `The request is not valid HTTP/1.1: ${reason}.`);
    case "head_too_large":
      return new ApiError(
        "request_header_fields_too_large",
        `The request headers are too large: ${reason}. Send fewer or shorter headers.`,
      );
    case "version":
      return new ApiError("http_version_not_supported", `The request cannot be parsed: ${reason}.`);
    case "expectation":
      return new ApiError("expectation_failed", `The Expect header is not supported: ${reason}.`);
    case "late":
      return new ApiError("request_timeout", `The request arrived too slowly: ${reason}.`);
  }
}
