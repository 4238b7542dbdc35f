/** Errors as Google's clients receive them: gemini-cli prints other forms as raw JSON, and waits for the delay of `RetryInfo`. */

import { expect, test } from "bun:test";
import { ApiError, type ApiErrorCode } from "../../errors.ts";
import { googleErrorBody } from "./google-error-body.ts";

test.each<[ApiErrorCode, status: number, name: string]>([
  ["invalid_value", 400, "INVALID_ARGUMENT"],
  ["invalid_api_key", 401, "UNAUTHENTICATED"],
  ["model_not_found", 404, "NOT_FOUND"],
  ["rate_limit_exceeded", 429, "RESOURCE_EXHAUSTED"],
  ["upstream_error", 502, "INTERNAL"],
  ["server_is_overloaded", 503, "UNAVAILABLE"],
  ["upstream_timeout", 504, "DEADLINE_EXCEEDED"],
])("%s is %i %s", (code, status, name) => {
  expect(googleErrorBody(new ApiError(code, "m"), "req_1").error).toMatchObject({
    code: status,
    status: name,
    message: "m",
    details: [{ reason: code.toUpperCase(), metadata: { code, request_id: "req_1" } }],
  });
});

test("the time to wait and the invalid field are details", () => {
  const limited = new ApiError("rate_limit_exceeded", "m", { headers: { "retry-after": "2" } });
  expect(googleErrorBody(limited, "req_1").error.details).toContainEqual({
    "@type": "type.googleapis.com/google.rpc.RetryInfo",
    retryDelay: "2s",
  });
  const invalid = new ApiError("invalid_value", "m", { param: "contents[0].role" });
  expect(googleErrorBody(invalid, "req_1").error.details).toContainEqual({
    "@type": "type.googleapis.com/google.rpc.BadRequest",
    fieldViolations: [{ field: "contents[0].role", description: "m" }],
  });
});
