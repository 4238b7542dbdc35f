/** Failures of attempts: whether another account may be tried, and the error for the client. */

import {
  ApiError,
  type ApiErrorCode,
  errorStatus,
  isErrorCode,
  isUpstreamCode,
  paramError,
} from "../errors.ts";
import { isPublicPath, publicMessage } from "../protocols/shared/public-message.ts";
import type { Audience, UpstreamError } from "../protocols/shared/upstream-error.ts";
import type { TokenUsage } from "../protocols/shared/usage.ts";

export const FAILURE_CLASSES = [
  "connect", // refused, DNS, TLS, a forbidden address: the request never arrived
  "timeout",
  "reset", // the connection broke before any content
  "credential", // 401 or 403: the account's own key is not accepted
  "rate_limited",
  "quota",
  "overloaded",
  "server",
  "bad_answer", // 200 with a body that is not a response
  "model_missing", // the account does not have the upstream model
  "not_here", // something that the request names or requires does not exist at this account
  "too_large", // more than the gateway passes on: another account's response would be as large
  "out_of_bounds", // a response with more elements than the gateway passes on
  "unstreamed", // whole images where a stream was requested: another account would have to generate them again
  "rejected", // the request itself is invalid: no other account would accept it
] as const;
export type FailureClass = (typeof FAILURE_CLASSES)[number];

/** Failures that clients can cause by what they send. They never affect the health of an account. */
export const BLAMELESS_FAILURES = [
  "not_here",
  "too_large",
  "out_of_bounds",
  "unstreamed",
  "rejected",
] as const satisfies readonly FailureClass[];
export type BlamelessFailure = (typeof BLAMELESS_FAILURES)[number];

const BLAMELESS: ReadonlySet<FailureClass> = new Set(BLAMELESS_FAILURES);

export function isBlameless(kind: FailureClass): kind is BlamelessFailure {
  return BLAMELESS.has(kind);
}

export interface UpstreamFailure {
  class: FailureClass;
  status: number | null;
  /** For operators: a short reason without text of the upstream. */
  reason: string;
  error: UpstreamError | null;
  retryAfterMs: number | null;
  /** The usage that the failed response reported: the account will bill it. */
  usage?: TokenUsage;
}

export function upstreamFailure(
  kind: FailureClass,
  reason: string,
  status: number | null = null,
): UpstreamFailure {
  return { class: kind, status, reason, error: null, retryAfterMs: null };
}

/** Returns the time until a retry makes sense. An error may contain a point in time instead of a duration. */
export function readRetryHint({ retryAfterMs, error }: UpstreamFailure, nowMs: number): number | null {
  if (retryAfterMs !== null) return retryAfterMs;
  return error?.resetsAtMs === undefined ? null : Math.max(0, error.resetsAtMs - nowMs);
}

/**
 * For a plain request, only the URL and the model decide whether the target exists. The decision uses the request
 * instead of the error text, because a client can influence the text.
 */
export function refineFailure(request: { isPlain(): boolean }, failure: UpstreamFailure): UpstreamFailure {
  return failure.class === "not_here" && request.isPlain() ? { ...failure, class: "model_missing" } : failure;
}

export function errorCode(error: UpstreamError | null): string {
  return error?.code ?? error?.type ?? "";
}

/** Whether another account may succeed. */
export function mayFailOver(failure: UpstreamFailure): boolean {
  return failure.class === "not_here" || failure.class === "out_of_bounds" || !isBlameless(failure.class);
}

const RETRY_AFTER_SECONDS_MAX = 60;

export function clientError(failure: UpstreamFailure, audience: Audience): ApiError {
  switch (failure.class) {
    case "rejected":
    case "not_here":
      return rejectedError(failure, audience);
    case "too_large":
      return new ApiError(
        "response_too_large",
        "The response exceeds the maximum size of this gateway. Request less (fewer inputs, fewer or smaller images), or send the request without `stream`.",
        // A retry would return a response of the same size.
        { headers: { "x-should-retry": "false" } },
      );
    case "out_of_bounds":
      return new ApiError(
        "upstream_error",
        `The upstream of the model \`${audience.publicModel}\` sent a response that this gateway does not pass on. ${failure.error?.isOutOfBounds ? failure.error.message : ""} Request less, or use another model.`,
        { headers: { "x-should-retry": "false" } },
      );
    case "unstreamed":
      return paramError(
        "stream",
        "unsupported_parameter",
        `The model \`${audience.publicModel}\` does not support streaming of images. Remove \`stream\`.`,
      );
    case "rate_limited":
      return new ApiError(
        "rate_limit_exceeded",
        `The model \`${audience.publicModel}\` is rate limited by its upstream. Try again after the time in Retry-After.`,
        { headers: { "retry-after": retryAfter(failure.retryAfterMs) } },
      );
    case "overloaded":
      return new ApiError(
        "server_is_overloaded",
        "Selected model is at capacity. Try again shortly or choose another model.",
      );
    case "timeout":
      return new ApiError(
        "upstream_timeout",
        `The model \`${audience.publicModel}\` did not respond in time. Try again, with a shorter request or with streaming.`,
      );
    case "quota":
      return errorCode(failure.error) === "usage_not_included"
        ? usageNotIncluded(audience.publicModel)
        : noAvailableAccount(audience.publicModel);
    case "credential":
    case "model_missing":
      return noAvailableAccount(audience.publicModel);
    case "connect":
    case "reset":
    case "server":
    case "bad_answer":
      return new ApiError(
        "upstream_error",
        `The upstream of the model \`${audience.publicModel}\` failed before it sent a response. Try again.`,
      );
  }
}

/** Chooses which failure to report: one that waiting resolves, and of those the one resolved sooner. */
export function moreUsefulFailure(previous: ApiError | null, latest: ApiError): ApiError {
  if (previous === null) return latest;
  if (isForAdministrators(latest)) return isResolvedByWaiting(previous) ? previous : latest;
  if (previous.code !== "rate_limit_exceeded" || latest.code !== "rate_limit_exceeded") return latest;
  return Number(previous.headers["retry-after"]) < Number(latest.headers["retry-after"]) ? previous : latest;
}

function isForAdministrators({ code }: ApiError): boolean {
  return code === "no_available_account" || code === "usage_not_included";
}

function isResolvedByWaiting(error: ApiError): boolean {
  return !isForAdministrators(error) && (error.status === 429 || error.status >= 500);
}

/** Waiting does not help. */
export function noAvailableAccount(publicModel: string): ApiError {
  return new ApiError(
    "no_available_account",
    `No account can serve the model \`${publicModel}\` at the moment. Contact your administrator and include the request id.`,
    { headers: { "x-should-retry": "false" } },
  );
}

/** The upstream failed and gets no requests before its next probe is due. */
export function upstreamUnavailable(publicModel: string, probeInMs: number | null): ApiError {
  const seconds = retryAfter(probeInMs);
  return new ApiError(
    "upstream_unavailable",
    `The upstream of the model \`${publicModel}\` is failing, so this request was not sent. Please try again in ${seconds}s.`,
    { headers: { "retry-after": seconds } },
  );
}

/** Waiting does not help. Clients recognize this error code. */
function usageNotIncluded(publicModel: string): ApiError {
  return new ApiError(
    "usage_not_included",
    `The plan at the upstream does not include the model \`${publicModel}\`. Use another model, or ask your administrator.`,
    { headers: { "x-should-retry": "false" } },
  );
}

/** A mistake of the client. It receives the upstream's message, because only that explains what to change. */
function rejectedError(failure: UpstreamFailure, audience: Audience): ApiError {
  const { error } = failure;
  const message = error ? publicMessage(error.message, audience) : "";
  return new ApiError(
    rejectedCode(failure),
    message === "" ? "The upstream rejected the request as invalid." : message,
    {
      param: error?.param != null && isPublicPath(error.param, audience) ? error.param : null,
      failedGeneration: error?.failedGeneration ?? null,
    },
  );
}

function rejectedCode({ class: kind, status, error }: UpstreamFailure): ApiErrorCode {
  const upstreamCode = errorCode(error);
  if (isUpstreamCode(upstreamCode)) return upstreamCode;
  if (isErrorCode(upstreamCode) && (errorStatus(upstreamCode) === 400 || errorStatus(upstreamCode) === 413))
    return upstreamCode;
  if (upstreamCode === "thread_not_found") return upstreamCode;
  if (error !== null && CONTEXT_FULL.test(error.message)) return "context_length_exceeded";
  if (status === 413) return "request_too_large";
  if (status === 415) return "unsupported_media_type";
  if (kind === "not_here") return "not_found";
  return "invalid_request";
}

/** Messages of servers without an error code for this: Anthropic, Gemini, vLLM, SGLang, llama.cpp, LiteLLM. */
const CONTEXT_FULL =
  /^prompt is too long\b|^input is too long for requested model|^input length and `max_tokens` exceed context limit\b|input token count.{0,40}exceeds the maximum number of tokens|maximum context length|longer than the model's context length|exceeds the available context size|\bContextWindowExceededError\b/i;

/** The response had started, so a retry would be visible to the client. The message explains that. */
export function interruptedError(failure: UpstreamFailure, audience: Audience): ApiError {
  const clientFailure = clientError(failure, audience);
  const isInterruption = clientFailure.code === "upstream_error" || clientFailure.code === "upstream_timeout";
  if (!isInterruption || failure.class === "out_of_bounds") return clientFailure;
  return new ApiError(
    clientFailure.code,
    clientFailure.code === "upstream_timeout"
      ? `The model \`${audience.publicModel}\` stopped sending in the middle of the response. Send the request again.`
      : `The upstream of the model \`${audience.publicModel}\` closed the connection in the middle of the response. Send the request again.`,
  );
}

/** Whole seconds from 1 to 60, the range that clients honour. A longer wait belongs in the message. */
export function retryAfter(ms: number | null): string {
  const seconds = Math.ceil((ms ?? 1000) / 1000);
  return String(Math.min(RETRY_AFTER_SECONDS_MAX, Math.max(1, seconds)));
}
