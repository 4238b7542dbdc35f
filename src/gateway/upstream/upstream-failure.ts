/** Classifies an upstream error, from an HTTP status or from a WebSocket message, as an `UpstreamFailure`. */

import { classifyError } from "../../accounts/classify-error.ts";
import { type UpstreamFailure, upstreamFailure } from "../../accounts/failure.ts";
import { readExhaustedReset } from "../../accounts/rate-limit.ts";
import { retryAfterMs } from "../../accounts/retry-hint.ts";
import { parseJson } from "../../json/parse.ts";
import type { ResponseHeaders } from "../../net/http-client/contract.ts";
import {
  readExceptionError,
  readRejection,
  readUpstreamError,
} from "../../protocols/shared/upstream-error.ts";

/** `body` is null if it exceeded its limit. */
export function failureByStatus(
  status: number,
  headers: ResponseHeaders,
  body: Uint8Array | null,
  nowMs: number,
): UpstreamFailure {
  return status < 400
    ? upstreamFailure("bad_answer", `status ${status}`, status)
    : classifyResponse(status, headers, body, nowMs);
}

/** A message may have no status. Then only its text classifies the failure. `message` is null if it exceeded its limit. */
export function failureByMessage(
  status: number | null,
  headers: ResponseHeaders,
  message: Uint8Array | null,
  nowMs: number,
): UpstreamFailure {
  return classifyResponse(status ?? 200, headers, message, nowMs);
}

function classifyResponse(
  status: number,
  headers: ResponseHeaders,
  body: Uint8Array | null,
  nowMs: number,
): UpstreamFailure {
  const json = body === null ? null : parseJson(body);
  // A 404 in another format than the API's comes from a URL that is not the API.
  const error =
    readExceptionError(headers.get("x-amzn-errortype"), json) ??
    (status === 404 ? readUpstreamError(json) : readRejection(json));
  return classifyError(status, error, retryAfterMs(headers, nowMs), readExhaustedReset(headers));
}
