/** What an upstream says when it does not answer, as a named failure: by a status, or by a message on a socket. */

import { classifyError, type UpstreamFailure, upstreamFailure } from "../../accounts/failure.ts";
import { readExhaustedReset, retryAfterMs } from "../../accounts/rate-limit.ts";
import { parseJson } from "../../json/parse.ts";
import type { AnswerHeaders } from "../../net/http-client/contract.ts";
import { readRefusal, readUpstreamError } from "../../protocols/shared/upstream-error.ts";

/** The body is null when there was more of it than is read. */
export function failureByStatus(
  status: number,
  headers: AnswerHeaders,
  body: Uint8Array | null,
  nowMs: number,
): UpstreamFailure {
  return status < 400
    ? upstreamFailure("bad_answer", `status ${status}`, status)
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
  const json = body === null ? null : parseJson(body);
  // A 404 in other words than the API's comes from an address that is not the API's.
  const error = status === 404 ? readUpstreamError(json) : readRefusal(json);
  return classifyError(status, error, retryAfterMs(headers, nowMs), readExhaustedReset(headers));
}
