/** What an upstream says when it does not answer, as a named failure: by a status, or by a message on a socket. */

import { readUpstreamError } from "../interfaces/upstream-error.ts";
import { classifyError, failed, type UpstreamFailure } from "../upstreams/failure.ts";
import type { AnswerHeaders } from "../upstreams/http/contract.ts";
import { resetOfUsedUp, retryAfterMs } from "../upstreams/rate-limit.ts";
import { parseJson } from "../wire/json-parse.ts";

/** The body is null when there was more of it than is read. */
export function failureByStatus(
  status: number,
  headers: AnswerHeaders,
  body: Uint8Array | null,
  nowMs: number,
): UpstreamFailure {
  return status < 400
    ? failed("bad_answer", `status ${status}`, status)
    : classified(status, headers, body, nowMs);
}

/** A message may tell no status: then its words have to do. */
export function failureByMessage(
  status: number | null,
  headers: AnswerHeaders,
  message: Uint8Array,
  nowMs: number,
): UpstreamFailure {
  return classified(status ?? 200, headers, message, nowMs);
}

function classified(
  status: number,
  headers: AnswerHeaders,
  body: Uint8Array | null,
  nowMs: number,
): UpstreamFailure {
  const error = body === null ? null : readUpstreamError(parseJson(body));
  return classifyError(status, error, retryAfterMs(headers, nowMs), resetOfUsedUp(headers));
}
