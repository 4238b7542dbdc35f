/** The errors of Anthropic's API, by status and type, and those of a stream, whose status is 200. */

import { describe, expect, test } from "bun:test";
import { readUpstreamError } from "../protocols/shared/upstream-error.ts";
import { classifyError } from "./classify-error.ts";
import { clientError, type FailureClass } from "./failure.ts";

function fail(status: number, type: string, message = "m", details: object = {}) {
  return classifyError(
    status,
    readUpstreamError({ type: "error", error: { type, message, ...details } }),
    null,
  );
}

const spendLimit = { details: { error_code: "enforced_spend_limit_reached" } };
const rampLimit = { details: { error_code: "ramp_limit_exceeded" } };

describe("the failure class of an error of Anthropic", () => {
  test.each<[status: number, type: string, message: string, details: object, FailureClass]>([
    [400, "invalid_request_error", "max_tokens: Field required", {}, "rejected"],
    [400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum", {}, "rejected"],
    [400, "invalid_request_error", "Your credit balance is too low to access the API.", {}, "quota"],
    [400, "invalid_request_error", "You have reached your specified API usage limits.", {}, "quota"],
    [401, "authentication_error", "invalid x-api-key", {}, "credential"],
    [402, "billing_error", "m", {}, "quota"],
    [403, "permission_error", "m", {}, "credential"],
    [404, "not_found_error", "model: claude-gone", {}, "model_missing"],
    [404, "not_found_error", "File not found", {}, "not_here"],
    [409, "conflict_error", "m", {}, "server"],
    [413, "request_too_large", "Request exceeds the maximum size", {}, "rejected"],
    [429, "rate_limit_error", "m", {}, "rate_limited"],
    [429, "rate_limit_error", "m", spendLimit, "quota"],
    [429, "rate_limit_error", "m", rampLimit, "rate_limited"],
    [500, "api_error", "m", {}, "server"],
    [504, "timeout_error", "m", {}, "timeout"],
    [529, "overloaded_error", "Overloaded", {}, "overloaded"],
  ])("%i %s %j %j is %s", (status, type, message, details, expected) => {
    expect(fail(status, type, message, details).class).toBe(expected);
  });

  test.each<[type: string, details: object, FailureClass]>([
    ["overloaded_error", {}, "overloaded"],
    ["rate_limit_error", {}, "rate_limited"],
    ["rate_limit_error", rampLimit, "rate_limited"],
    ["rate_limit_error", spendLimit, "quota"],
    ["api_error", {}, "server"],
    ["invalid_request_error", {}, "rejected"],
  ])("inside a stream, %s %j is %s", (type, details, expected) => {
    expect(fail(200, type, "m", details).class).toBe(expected);
  });
});

test.each([
  [400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum", "context_length_exceeded"],
  [413, "request_too_large", "Request exceeds the maximum size", "request_too_large"],
  [400, "invalid_request_error", "max_tokens: Field required", "invalid_request"],
])("%i %s %j is %s for the client", (status, type, message, code) => {
  const audience = { publicModel: "fast", upstreamModel: "claude", account: null, mentions: () => true };
  expect(clientError(fail(status, type, message), audience).code as string).toBe(code);
});
