import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { errorStatus, UPSTREAM_CODES } from "../errors.ts";
import type { Audience, UpstreamError } from "../protocols/shared/upstream-error.ts";
import { classifyError } from "./classify-error.ts";
import {
  clientError,
  FAILURE_CLASSES,
  type FailureClass,
  interruptedError,
  mayFailOver,
  readRetryHint,
  refineFailure,
  upstreamFailure,
} from "./failure.ts";

const error = (change: Partial<UpstreamError> = {}): UpstreamError => ({
  code: null,
  type: null,
  param: null,
  message: "m",
  ...change,
});

const AUDIENCE: Audience = {
  publicModel: "fast",
  upstreamModel: "gpt-6-eu-0419",
  account: null,
  mentions: (word) => '{"messages":[{"content":"hi","id":"call_9"}]}'.includes(word),
};

describe("the failure class of an upstream error", () => {
  const invalid = { type: "invalid_request_error" };
  test.each<[status: number, error: Partial<UpstreamError> | null, FailureClass]>([
    [400, invalid, "rejected"],
    [400, { code: "context_length_exceeded" }, "rejected"],
    [400, null, "rejected"],
    [413, null, "rejected"],
    [415, null, "rejected"],
    [422, invalid, "rejected"],
    [404, { ...invalid, message: "Item with id 'rs_1' not found." }, "not_here"],
    [404, { message: 'model "gpt-6-eu-0419" not found, try pulling it first' }, "not_here"],
    [401, { code: "invalid_api_key" }, "credential"],
    [401, null, "credential"],
    [403, { code: "unsupported_country_region_territory" }, "credential"],
    [402, { message: "Insufficient Balance" }, "quota"],
    [429, { code: "insufficient_quota" }, "quota"],
    [429, { type: "insufficient_quota" }, "quota"],
    [429, { code: "credit_balance_exhausted" }, "quota"],
    [400, { code: "billing_hard_limit_reached" }, "quota"],
    [404, { code: "model_not_found" }, "model_missing"],
    [400, { code: "model_not_found" }, "model_missing"],
    [403, { code: "model_not_found" }, "model_missing"],
    [404, { code: "DeploymentNotFound" }, "model_missing"],
    [404, null, "model_missing"],
    [405, null, "model_missing"],
    [429, { code: "rate_limit_exceeded" }, "rate_limited"],
    [429, { type: "tokens" }, "rate_limited"],
    [429, { type: "usage_limit_reached" }, "rate_limited"],
    [429, null, "rate_limited"],
    [408, null, "timeout"],
    [504, null, "timeout"],
    [503, null, "overloaded"],
    [529, { type: "overloaded_error" }, "overloaded"],
    [500, { code: "server_is_overloaded" }, "overloaded"],
    [500, null, "server"],
    [502, null, "server"],
    [520, null, "server"],
  ])("%i %j is %s", (status, upstreamError, kind) => {
    const failure = classifyError(status, upstreamError && error(upstreamError), 7);
    expect(failure).toEqual({
      class: kind,
      status,
      reason: `status ${status}`,
      error: upstreamError && error(upstreamError),
      retryAfterMs: 7,
    });
  });

  test.each<[Partial<UpstreamError> | null, FailureClass]>([
    [{ code: "context_length_exceeded" }, "rejected"],
    [{ code: "invalid_prompt" }, "rejected"],
    [{ code: "invalid_image_url" }, "rejected"],
    [{ type: "invalid_request_error" }, "rejected"],
    [{ code: "rate_limit_exceeded" }, "rate_limited"],
    [{ type: "usage_limit_reached" }, "rate_limited"],
    [{ code: "insufficient_quota" }, "quota"],
    [{ code: "server_is_overloaded" }, "overloaded"],
    [{ type: "overloaded_error" }, "overloaded"],
    [{ code: "slow_down" }, "overloaded"],
    [{ code: "server_error" }, "server"],
    [{ code: "something_new" }, "server"],
    [{}, "server"],
    [{ code: "400" }, "rejected"],
    [{ code: "404" }, "not_here"],
    [{ code: "429" }, "rate_limited"],
    [{ code: "502" }, "server"],
  ])("inside a stream, %j is %s", (upstreamError, kind) => {
    expect(classifyError(200, upstreamError && error(upstreamError), null).class).toBe(kind);
  });

  test("allows another account, except if every account would fail in the same way", () => {
    const final: readonly FailureClass[] = ["rejected", "too_large", "unstreamed"];
    for (const kind of FAILURE_CLASSES)
      expect(mayFailOver(upstreamFailure(kind, "r"))).toBe(!final.includes(kind));
  });
});

describe("the error that the client receives", () => {
  test.each<[FailureClass, status: number, code: string]>([
    ["rejected", 400, "invalid_request"],
    ["not_here", 404, "not_found"],
    ["too_large", 502, "response_too_large"],
    ["unstreamed", 400, "unsupported_parameter"],
    ["rate_limited", 429, "rate_limit_exceeded"],
    ["overloaded", 503, "server_is_overloaded"],
    ["timeout", 504, "upstream_timeout"],
    ["credential", 503, "no_available_account"],
    ["quota", 503, "no_available_account"],
    ["model_missing", 503, "no_available_account"],
    ["connect", 502, "upstream_error"],
    ["reset", 502, "upstream_error"],
    ["server", 502, "upstream_error"],
    ["bad_answer", 502, "upstream_error"],
  ])("for %s is %i %s", (kind, status, code) => {
    expect(clientError(upstreamFailure(kind, "r"), AUDIENCE)).toMatchObject({ status, code });
  });

  test("never has a status that blames the client's own key", () => {
    const upstreamError = fc.option(
      fc.record({
        code: fc.option(
          fc.constantFrom("invalid_api_key", "insufficient_quota", "model_not_found", "404", "401"),
        ),
        type: fc.option(fc.constantFrom("invalid_request_error", "authentication_error")),
        param: fc.constant(null),
        message: fc.string(),
      }),
    );
    fc.assert(
      fc.property(fc.integer({ min: 200, max: 599 }), upstreamError, (status, found) => {
        const responded = clientError(classifyError(status, found, null), AUDIENCE);
        expect([401, 402, 403]).not.toContain(responded.status);
      }),
    );
  });

  test("contains the upstream's message, sanitized, only for errors of the request itself", () => {
    const secret = error({ message: "Key sk-CANARY7 of gpt-6-eu-0419 failed", param: "sk-CANARY7" });
    for (const kind of FAILURE_CLASSES) {
      const responded = clientError({ ...upstreamFailure(kind, "r"), error: secret }, AUDIENCE);
      expect(`${responded.message} ${responded.param}`).not.toContain("CANARY");
      if (kind === "rejected" || kind === "not_here")
        expect(responded.message).toBe("Key [redacted] of fast failed");
      else expect(responded.message).not.toContain("[redacted]");
    }
  });

  test("for an overload has no Retry-After, so that the user changes the model", () => {
    expect(clientError(upstreamFailure("overloaded", "r"), AUDIENCE).headers).toEqual({});
  });

  test("has a Retry-After of 1 to 60 whole seconds for every 429", () => {
    const hint = fc.option(
      fc.oneof(fc.double({ min: 0, noNaN: true }), fc.integer({ min: 0, max: 120_000 })),
    );
    fc.assert(
      fc.property(hint, (ms) => {
        const responded = clientError(classifyError(429, null, ms), AUDIENCE);
        const seconds = Number(responded.headers["retry-after"]);
        expect(responded.status).toBe(429);
        expect(Number.isInteger(seconds) && seconds >= 1 && seconds <= 60).toBe(true);
        if (ms !== null && ms <= 60_000) expect(seconds * 1000).toBeGreaterThanOrEqual(ms);
      }),
    );
  });
});

describe("a rejected request", () => {
  const responded = (status: number, upstreamError: Partial<UpstreamError> | null) =>
    clientError(classifyError(status, upstreamError && error(upstreamError), null), AUDIENCE);

  test("keeps an error code that clients act on", () => {
    for (const code of [
      "context_length_exceeded",
      "invalid_encrypted_content",
      "previous_response_not_found",
    ]) {
      expect(responded(400, { code })).toMatchObject({ status: 400, code });
    }
    expect(
      clientError(classifyError(200, error({ code: "context_length_exceeded" }), null), AUDIENCE).code,
    ).toBe("context_length_exceeded");
  });

  test("keeps error codes that only an upstream can determine, for any status", () => {
    for (const code of UPSTREAM_CODES) {
      for (const status of [200, 400, 403, 500]) {
        const { class: kind } = classifyError(status, error({ code }), null);
        expect(kind).toBe(code === "usage_not_included" ? "quota" : "rejected");
        expect(responded(status, { code })).toMatchObject({ status: errorStatus(code), code });
      }
    }
    expect(responded(200, { type: "content_filter" }).code).toBe("content_filter");
  });

  test("is sent to another account if an image is not found at this one", () => {
    const failure = classifyError(404, error({ code: "image_file_not_found" }), null);
    expect(failure.class).toBe("not_here");
    expect(clientError(failure, AUDIENCE)).toMatchObject({ status: 400, code: "image_file_not_found" });
  });

  test("for usage that is not included is not retried by clients", () => {
    const refused = responded(429, { type: "usage_not_included", message: "plan of org-CANARY" });
    expect(refused).toMatchObject({ status: 429, headers: { "x-should-retry": "false" } });
    expect(refused.message).not.toContain("CANARY");
  });

  test("gets one of our codes for a code that is unknown or ambiguous", () => {
    expect(responded(400, { code: "string_above_max_length" }).code).toBe("invalid_request");
    expect(responded(400, { code: "server_error" }).code).toBe("invalid_request");
    expect(responded(400, { code: "toString" }).code).toBe("invalid_request");
    expect(responded(413, null)).toMatchObject({ status: 413, code: "request_too_large" });
    expect(responded(415, null)).toMatchObject({ status: 415, code: "unsupported_media_type" });
    expect(responded(404, { type: "invalid_request_error" })).toMatchObject({
      status: 404,
      code: "not_found",
    });
  });

  test.each([
    "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.",
    "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
    "the request exceeds the available context size. try increasing it",
  ])("is context_length_exceeded if only the message mentions it: %s", (message) => {
    expect(responded(400, { code: "400", type: "BadRequestError", message }).code).toBe(
      "context_length_exceeded",
    );
  });

  test("names the parameter if the client sent it or the API has it", () => {
    expect(responded(400, { param: "messages[0].content" }).param).toBe("messages[0].content");
    expect(responded(400, { param: "prompt" }).param).toBe("prompt");
    expect(responded(400, { param: "messages[0].secret_field" }).param).toBeNull();
    expect(responded(400, { param: "call_9 org-x" }).param).toBeNull();
    expect(responded(400, { param: null }).param).toBeNull();
  });

  test("has a message even if the upstream sent none", () => {
    expect(responded(400, null).message).toBe("The upstream rejected the request as invalid.");
    expect(responded(400, { message: "" }).message).toBe("The upstream rejected the request as invalid.");
  });
});

describe("an interrupted response", () => {
  test("is reported as interrupted, not as failed to start", () => {
    expect(interruptedError(upstreamFailure("reset", "r"), AUDIENCE)).toMatchObject({
      code: "upstream_error",
      message: expect.stringContaining("in the middle of the response"),
    });
    expect(interruptedError(upstreamFailure("timeout", "r"), AUDIENCE)).toMatchObject({
      code: "upstream_timeout",
      message: expect.stringContaining("stopped sending"),
    });
  });

  test("keeps a reason that the client can act on", () => {
    const failure = classifyError(
      200,
      error({ code: "context_length_exceeded", message: "Too long." }),
      null,
    );
    expect(interruptedError(failure, AUDIENCE)).toMatchObject({
      code: "context_length_exceeded",
      message: "Too long.",
    });
  });
});

describe("the retry hint of an upstream error", () => {
  const hint = (status: number, upstreamError: Partial<UpstreamError>, headerMs: number | null = null) =>
    classifyError(status, error(upstreamError), headerMs).retryAfterMs;

  test("is read from the error's fields or message if there are no headers", () => {
    expect(hint(429, { message: "Rate limit reached. Please try again in 1.5s." })).toBe(1_500);
    expect(hint(429, { resetsInMs: 7_200_000, message: "try again in 1s" })).toBe(7_200_000);
    expect(hint(200, { code: "rate_limit_exceeded", message: "Please try again in 20ms." })).toBe(20);
    expect(hint(503, { message: "Overloaded, please retry after 20 seconds" })).toBe(20_000);
  });

  test("is Retry-After, else the message, else the rate limit headers", () => {
    const words = error({ message: "try again in 1.5s" });
    expect(classifyError(429, words, 90_000, 360_000).retryAfterMs).toBe(90_000);
    expect(classifyError(429, words, null, 360_000).retryAfterMs).toBe(1_500);
    expect(classifyError(429, null, null, 360_000).retryAfterMs).toBe(360_000);
  });

  test("is not read from errors that do not pass by themselves", () => {
    expect(hint(400, { message: "try again in 5s" })).toBeNull();
    expect(hint(500, { message: "try again in 5s" })).toBeNull();
  });

  test("may be a point in time, which is converted to a duration", () => {
    const failure = classifyError(429, error({ resetsAtMs: 100_000 }), null);
    expect(readRetryHint(failure, 40_000)).toBe(60_000);
    expect(readRetryHint(failure, 140_000)).toBe(0);
    expect(readRetryHint({ ...failure, retryAfterMs: 5 }, 40_000)).toBe(5);
    expect(readRetryHint(upstreamFailure("rate_limited", "r"), 0)).toBeNull();
  });
});

describe("input of the client", () => {
  test("cannot cause a cool-down, even if a 404 quotes it", () => {
    const echoed = error({ message: "Conversation with id 'conv-model' not found.", param: "conversation" });
    expect(classifyError(404, echoed, null).class).toBe("not_here");
    expect(classifyError(404, error({ message: "The model `x` does not exist." }), null).class).toBe(
      "model_missing",
    );
  });

  test("makes a 404 count against the account only if it is plain text, which cannot be missing", () => {
    const failure = classifyError(404, error({ message: "not found" }), null);
    expect(refineFailure({ isPlain: () => false }, failure)).toBe(failure);
    expect(refineFailure({ isPlain: () => true }, failure)).toEqual({ ...failure, class: "model_missing" });
    const refused = classifyError(400, error(), null);
    expect(refineFailure({ isPlain: () => true }, refused)).toBe(refused);
  });

  test("is at fault if an error inside a stream blames it by its type or code", () => {
    const byType = error({ type: "invalid_request_error", code: "some_new_code", message: "no" });
    expect(classifyError(200, byType, null).class).toBe("rejected");
    expect(classifyError(200, error({ code: "invalid_value", message: "no" }), null).class).toBe("rejected");
    expect(classifyError(200, error({ code: "server_error", message: "no" }), null).class).toBe("server");
  });
});
