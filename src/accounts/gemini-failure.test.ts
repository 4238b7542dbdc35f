/** Errors of Google's APIs, as accounts of kind gemini report them. */

import { describe, expect, test } from "bun:test";
import { readRejection } from "../protocols/shared/upstream-error.ts";
import { classifyError } from "./classify-error.ts";
import { clientError } from "./failure.ts";

interface GoogleError {
  readonly code: number;
  readonly status: string;
  readonly message?: string;
  readonly details?: readonly object[];
}

function classify(httpStatus: number, { message = "m", ...rest }: GoogleError) {
  const error = readRejection({ error: { message, ...rest } });
  return classifyError(httpStatus, error, null);
}

const quota = (quotaId: string) => ({
  "@type": "type.googleapis.com/google.rpc.QuotaFailure",
  violations: [{ quotaId, quotaMetric: "generativelanguage.googleapis.com/generate_content_requests" }],
});
const retryInfo = (retryDelay: string) => ({
  "@type": "type.googleapis.com/google.rpc.RetryInfo",
  retryDelay,
});
const exhausted = { code: 429, status: "RESOURCE_EXHAUSTED" };

describe("the failure class of an error of Google", () => {
  test.each([
    ["an invalid request", 400, { code: 400, status: "INVALID_ARGUMENT" }, "rejected"],
    [
      "an invalid key",
      400,
      { code: 400, status: "INVALID_ARGUMENT", details: [{ reason: "API_KEY_INVALID" }] },
      "credential",
    ],
    [
      "a region without the API",
      400,
      {
        code: 400,
        status: "FAILED_PRECONDITION",
        message: "User location is not supported for the API use.",
      },
      "credential",
    ],
    [
      "a file that is not ready",
      400,
      { code: 400, status: "FAILED_PRECONDITION", message: "The File abc is not in an ACTIVE state." },
      "rejected",
    ],
    ["no permission", 403, { code: 403, status: "PERMISSION_DENIED" }, "credential"],
    [
      "an unknown model",
      404,
      { code: 404, status: "NOT_FOUND", message: "models/gone is not found for API version v1beta." },
      "model_missing",
    ],
    [
      "a limit of a minute",
      429,
      { ...exhausted, details: [quota("RequestsPerMinutePerProject")] },
      "rate_limited",
    ],
    [
      "a limit of a day",
      429,
      { ...exhausted, details: [quota("RequestsPerDayPerProject-FreeTier")] },
      "quota",
    ],
    ["an overloaded model", 503, { code: 503, status: "UNAVAILABLE" }, "overloaded"],
    ["a deadline", 504, { code: 504, status: "DEADLINE_EXCEEDED" }, "timeout"],
    ["a fault", 500, { code: 500, status: "INTERNAL" }, "server"],
    ["an overloaded model, inside a stream", 200, { code: 503, status: "UNAVAILABLE" }, "overloaded"],
    ["a limit, inside a stream", 200, exhausted, "rate_limited"],
  ] as const)("%s", (_, status, error, expected) => {
    expect(classify(status, error).class).toBe(expected);
  });
});

test.each([
  ["2s", 2_000],
  ["0.250s", 250],
  ["37.5s", 37_500],
  ["soon", null],
])("the delay of RetryInfo %s is %p ms", (delay, ms) => {
  expect(classify(429, { ...exhausted, details: [retryInfo(delay)] }).retryAfterMs).toBe(ms);
});

test("an input that exceeds the context window gets the code that clients act on", () => {
  const failure = classify(400, {
    code: 400,
    status: "INVALID_ARGUMENT",
    message: "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).",
  });
  const audience = { publicModel: "fast", upstreamModel: "gemini", account: null, mentions: () => false };
  expect(clientError(failure, audience).code).toBe("context_length_exceeded");
});

test("the invalid field is named", () => {
  const details = [{ fieldViolations: [{ field: "contents[0].role", description: "d" }] }];
  expect(classify(400, { code: 400, status: "INVALID_ARGUMENT", details }).error?.param).toBe(
    "contents[0].role",
  );
});
