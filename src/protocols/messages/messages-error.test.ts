/** Errors as Messages clients receive them: the status and the type decide whether they repeat a request. */

import { expect, test } from "bun:test";
import { ApiError, type ApiErrorCode } from "../../errors.ts";
import { messagesErrorBody, messagesErrorStatus, promptTooLong } from "./messages-error.ts";

test.each<[ApiErrorCode, status: number, type: string]>([
  ["invalid_value", 400, "invalid_request_error"],
  ["context_length_exceeded", 400, "invalid_request_error"],
  ["invalid_api_key", 401, "authentication_error"],
  ["insufficient_quota", 402, "billing_error"],
  ["model_not_found", 404, "not_found_error"],
  ["request_too_large", 413, "request_too_large"],
  ["rate_limit_exceeded", 429, "rate_limit_error"],
  ["upstream_error", 500, "api_error"],
  ["upstream_timeout", 504, "timeout_error"],
  ["server_is_overloaded", 529, "overloaded_error"],
])("%s is %i %s", (code, status, type) => {
  const error = new ApiError(code, "m");
  expect(messagesErrorStatus(error)).toBe(status);
  expect(messagesErrorBody(error, "req_1")).toMatchObject({
    type: "error",
    error: { type, code },
    request_id: "req_1",
  });
});

test.each([
  ["prompt is too long: 9 tokens > 8 maximum", "prompt is too long: 9 tokens > 8 maximum"],
  [
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9,000 tokens.",
    "prompt is too long: 9000 tokens > 8192 maximum",
  ],
  [
    "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
    "prompt is too long: 1048577 tokens > 1048576 maximum",
  ],
  ["The input does not fit.", "prompt is too long: The input does not fit."],
])("Claude Code reads both numbers of an input that is too long: %s", (message, expected) => {
  expect(promptTooLong(message)).toBe(expected);
});
