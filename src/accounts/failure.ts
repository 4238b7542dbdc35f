/** Why an attempt at an account failed, whether another account may be tried, and what the client is told at last. */

import { ApiError, type ApiErrorCode, isErrorCode, isUpstreamCode, statusOf } from "../errors.ts";
import { isPublicParam, publicMessage } from "../protocols/shared/public-message.ts";
import type { Audience, UpstreamError } from "../protocols/shared/upstream-error.ts";
import { hintInText } from "./rate-limit.ts";

export const FAILURE_CLASSES = [
  "connect", // refused, DNS, TLS, a forbidden address: the request never arrived
  "timeout",
  "reset", // the connection broke before anything was said
  "credential", // 401 or 403: the account's own key is not accepted
  "rate_limited",
  "quota",
  "overloaded",
  "server",
  "bad_answer", // 200 with something that is not an answer
  "model_missing", // the account does not have the model we map to
  "not_here", // something that the request names or asks for is not at this account
  "too_large", // more than is passed on: no other account would say less
  "unstreamed", // pictures at once where a stream was asked for: another account would have to draw them again
  "rejected", // the request itself is at fault: no other account would take it
] as const;
export type FailureClass = (typeof FAILURE_CLASSES)[number];

/** What clients can bring about by what they write: never held against an account. */
export type BlamelessFailure = "not_here" | "too_large" | "unstreamed" | "rejected";

export function isBlameless(kind: FailureClass): kind is BlamelessFailure {
  return kind === "not_here" || kind === "too_large" || kind === "unstreamed" || kind === "rejected";
}

export interface UpstreamFailure {
  class: FailureClass;
  status: number | null;
  /** For operators: a short reason that holds nothing the upstream wrote. */
  reason: string;
  error: UpstreamError | null;
  retryAfterMs: number | null;
}

export function upstreamFailure(
  kind: FailureClass,
  reason: string,
  status: number | null = null,
): UpstreamFailure {
  return { class: kind, status, reason, error: null, retryAfterMs: null };
}

/**
 * A failure status, or an error that came inside a successful one. What `Retry-After` says counts before the words of
 * the error, and those before the counters in other headers, which may tell when all of a limit is free again.
 */
export function classifyError(
  status: number,
  error: UpstreamError | null,
  saidMs: number | null,
  countedMs: number | null = null,
): UpstreamFailure {
  const kind = classOf(status, error);
  const worded =
    error === null || !COMES_BACK.has(kind) ? null : (error.resetsInMs ?? hintInText(error.message));
  return {
    class: kind,
    status,
    reason: `status ${status}`,
    error,
    retryAfterMs: saidMs ?? worded ?? countedMs,
  };
}

/** The classes of failure that pass by themselves at a time the upstream may know. */
const COMES_BACK: ReadonlySet<FailureClass> = new Set(["rate_limited", "quota", "overloaded"]);

/** When to come back; an error may name the moment rather than the time until then. */
export function readRetryHint({ retryAfterMs, error }: UpstreamFailure, nowMs: number): number | null {
  if (retryAfterMs !== null) return retryAfterMs;
  return error?.resetsAtMs === undefined ? null : Math.max(0, error.resetsAtMs - nowMs);
}

function classOf(sent: number, error: UpstreamError | null): FailureClass {
  const code = codeOf(error);
  // Inside a stream some upstreams give the status that they could not send any more as the code.
  const status = sent < 400 && /^[45]\d\d$/.test(code) ? Number(code) : sent;
  if (status === 402 || QUOTA.has(code)) return "quota";
  // A 403 that names the model says nothing about the others that the credential opens.
  if (MODEL_MISSING.has(code) || (status === 404 && namesModel(error))) return "model_missing";
  if (status === 404) return "not_here";
  // Clients do not choose the method, and the API accepts it: so the address is wrong.
  if (status === 405) return "model_missing";
  // Whatever status it comes with: a policy that refuses what a client wrote is no fault of the credential.
  if (isUpstreamCode(code)) return "rejected";
  if (status === 401 || status === 403) return "credential";
  if (status === 429 || RATE_LIMITED.has(code)) return "rate_limited";
  if (status === 408 || status === 504) return "timeout";
  if (status === 503 || status === 529 || OVERLOADED.has(code)) return "overloaded";
  if (status >= 500 || (status < 400 && !isClientFault(error))) return "server";
  return "rejected";
}

/**
 * A 404 that is no error of the API comes from an address that is not the API's; some servers name the model only in
 * their first words. Anywhere else a message may repeat what a client wrote, and clients must not be able to have an
 * account left alone.
 */
function namesModel(error: UpstreamError | null): boolean {
  if (error === null) return true;
  return (error.param === null || error.param === "model") && /^the model\b/i.test(error.message);
}

/**
 * What a plain request asks for is there or not by the address and the model alone. Decided by what the request holds,
 * for the same reason: the words of the error say what a client wants them to say.
 */
export function refineFailure(request: { isPlain(): boolean }, failure: UpstreamFailure): UpstreamFailure {
  return failure.class === "not_here" && request.isPlain() ? { ...failure, class: "model_missing" } : failure;
}

function codeOf(error: UpstreamError | null): string {
  return error?.code ?? error?.type ?? "";
}

/** Inside a stream that began well the status tells nothing: the error has to blame the request itself. */
function isClientFault(error: UpstreamError | null): boolean {
  return [error?.code, error?.type].some(
    (name) =>
      name != null && (name === "invalid_request_error" || (isErrorCode(name) && statusOf(name) === 400)),
  );
}

const QUOTA = new Set([
  "insufficient_quota",
  "billing_hard_limit_reached",
  "credit_balance_exhausted",
  "usage_not_included",
]);
const RATE_LIMITED = new Set(["rate_limit_exceeded", "usage_limit_reached"]);
const MODEL_MISSING = new Set(["model_not_found", "DeploymentNotFound"]);
const OVERLOADED = new Set(["server_is_overloaded", "overloaded_error", "slow_down", "engine_overloaded"]);

/** Another account may succeed where this one failed. */
export function mayTryAnother(failure: UpstreamFailure): boolean {
  return failure.class === "not_here" || !isBlameless(failure.class);
}

const RETRY_AFTER_SECONDS_MAX = 60;

export function clientError(failure: UpstreamFailure, audience: Audience): ApiError {
  switch (failure.class) {
    case "rejected":
    case "not_here":
      return rejectedError(failure, audience);
    case "too_large":
      return new ApiError(
        "answer_too_large",
        "The answer is larger than this gateway passes on. Ask for less (fewer inputs, fewer or smaller pictures), or for a whole answer if this was a stream.",
        // Asked again, it would be as large.
        { headers: { "x-should-retry": "false" } },
      );
    case "unstreamed":
      return new ApiError(
        "unsupported_parameter",
        `The model \`${audience.publicModel}\` does not stream its pictures. Leave \`stream\` out.`,
        { param: "stream" },
      );
    case "rate_limited":
      return new ApiError(
        "rate_limit_exceeded",
        `The model \`${audience.publicModel}\` is rate-limited upstream. Wait for the time in Retry-After, then try again.`,
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
        `The model \`${audience.publicModel}\` did not answer in time. Try again; a shorter request or streaming helps.`,
      );
    case "quota":
      return codeOf(failure.error) === "usage_not_included"
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
        `The upstream of the model \`${audience.publicModel}\` failed before answering. Try again; nothing was delivered.`,
      );
  }
}

/** Which of two accounts' failures the client hears of: one that time mends, and the one that it mends sooner. */
export function moreUsefulFailure(before: ApiError | null, latest: ApiError): ApiError {
  if (before === null) return latest;
  if (isForAdministrators(latest)) return isMendedByTime(before) ? before : latest;
  if (before.code !== "rate_limit_exceeded" || latest.code !== "rate_limit_exceeded") return latest;
  return Number(before.headers["retry-after"]) < Number(latest.headers["retry-after"]) ? before : latest;
}

function isForAdministrators({ code }: ApiError): boolean {
  return code === "no_available_account" || code === "usage_not_included";
}

function isMendedByTime(error: ApiError): boolean {
  return !isForAdministrators(error) && (error.status === 429 || error.status >= 500);
}

/** Waiting does not help. */
export function noAvailableAccount(publicModel: string): ApiError {
  return new ApiError(
    "no_available_account",
    `No account can serve the model \`${publicModel}\` right now. Your administrator can see why under this request id.`,
    { headers: { "x-should-retry": "false" } },
  );
}

/** The upstream failed before, and is not called again before its next probe is due. */
export function upstreamUnavailable(publicModel: string, probeInMs: number | null): ApiError {
  const seconds = retryAfter(probeInMs);
  return new ApiError(
    "upstream_unavailable",
    `The upstream of the model \`${publicModel}\` is failing: its latest requests ended in errors, so this one was not sent. Please try again in ${seconds}s.`,
    { headers: { "retry-after": seconds } },
  );
}

/** Waiting does not help here either, and this is the code by which clients know. */
function usageNotIncluded(publicModel: string): ApiError {
  return new ApiError(
    "usage_not_included",
    `What is paid for upstream does not include the model \`${publicModel}\`. Use another model, or ask your administrator.`,
    { headers: { "x-should-retry": "false" } },
  );
}

/** The client's own mistake: it gets the upstream's reason, since only that tells what to change. */
function rejectedError(failure: UpstreamFailure, audience: Audience): ApiError {
  const { error } = failure;
  const message = error ? publicMessage(error.message, audience) : "";
  return new ApiError(
    rejectedCode(failure),
    message === "" ? "The upstream refused the request as invalid." : message,
    { param: error?.param != null && isPublicParam(error.param, audience) ? error.param : null },
  );
}

function rejectedCode({ class: kind, status, error }: UpstreamFailure): ApiErrorCode {
  const said = codeOf(error);
  if (isUpstreamCode(said)) return said;
  if (isErrorCode(said) && (statusOf(said) === 400 || statusOf(said) === 413)) return said;
  if (error !== null && CONTEXT_FULL.test(error.message)) return "context_length_exceeded";
  if (status === 413) return "request_too_large";
  if (status === 415) return "unsupported_media_type";
  if (kind === "not_here") return "not_found";
  return "invalid_request";
}

/** Of servers that have no code for it: vLLM, SGLang, llama.cpp, LiteLLM. */
const CONTEXT_FULL =
  /maximum context length|longer than the model's context length|exceeds the available context size|\bContextWindowExceededError\b/i;

/** The answer had begun: nothing can be tried again without the client noticing, and it should know that. */
export function interruptedError(failure: UpstreamFailure, audience: Audience): ApiError {
  const told = clientError(failure, audience);
  if (told.code !== "upstream_error" && told.code !== "upstream_timeout") return told;
  return new ApiError(
    told.code,
    told.code === "upstream_timeout"
      ? `The model \`${audience.publicModel}\` went silent in the middle of its answer. Ask again to get it whole.`
      : `The upstream of the model \`${audience.publicModel}\` broke off in the middle of its answer. Ask again to get it whole.`,
  );
}

/** Whole seconds from 1 to 60: what clients honour. A longer wait belongs into the message. */
export function retryAfter(ms: number | null): string {
  const seconds = Math.ceil((ms ?? 1000) / 1000);
  return String(Math.min(RETRY_AFTER_SECONDS_MAX, Math.max(1, seconds)));
}
