/** Errors in the form of the Messages API: their type, their status, and the words that its clients act on. */

import type { ApiError, ApiErrorCode, TriedStep } from "../../errors.ts";

interface MessagesErrorBody {
  type: "error";
  /** `code` and `param` are the gateway's own. Clients read the type and the message. */
  error: {
    type: string;
    message: string;
    code: string;
    param: string | null;
    details?: { error_code: string };
    tried?: readonly TriedStep[];
  };
  request_id: string;
}

export function messagesErrorBody(error: ApiError, requestId: string): MessagesErrorBody {
  const message = error.code === "context_length_exceeded" ? promptTooLong(error.message) : error.message;
  const { code, param } = error;
  return {
    type: "error",
    error: {
      type: messagesErrorType(error),
      message,
      code,
      param,
      ...errorDetails(code),
      ...(error.tried === null ? {} : { tried: error.tried }),
    },
    request_id: requestId,
  };
}

/** Anthropic's SDKs send the whole conversation again on these codes, which they read in the details. */
function errorDetails(code: ApiErrorCode): { details?: { error_code: string } } {
  return code.startsWith("thread_") ? { details: { error_code: code } } : {};
}

/** Codes whose status differs from the other interfaces. */
const STATUS_BY_CODE: ReadonlyMap<ApiErrorCode, number> = new Map<ApiErrorCode, number>([
  // Clients repeat a 429. With 402 they stop and report the balance.
  ["insufficient_quota", 402],
  // The status of an upstream without capacity. Nothing else has it: clients repeat it many times.
  ["server_is_overloaded", 529],
  ["upstream_error", 500],
  ["response_too_large", 500],
]);

export function messagesErrorStatus(error: ApiError): number {
  return STATUS_BY_CODE.get(error.code) ?? error.status;
}

const TYPE_BY_STATUS: ReadonlyMap<number, string> = new Map([
  [401, "authentication_error"],
  [402, "billing_error"],
  [403, "permission_error"],
  [404, "not_found_error"],
  [409, "conflict_error"],
  [413, "request_too_large"],
  [429, "rate_limit_error"],
  [504, "timeout_error"],
  [529, "overloaded_error"],
]);

function messagesErrorType(error: ApiError): string {
  const status = messagesErrorStatus(error);
  return TYPE_BY_STATUS.get(status) ?? (status >= 500 ? "api_error" : "invalid_request_error");
}

/** Anthropic's own words for it. */
const ANTHROPIC_WORDING = /^(?:prompt is too long\b|input length and `max_tokens` exceed)/;
/** The digits are bounded: a message of digits alone would be read again from each of them. Limit first: "maximum context length is 8192 tokens … resulted in 9000 tokens". */
const LIMIT_FIRST =
  /(?:maximum context length|context length|context size|context window)[^\d]{0,40}(\d[\d,]{0,15})[^\d]+(\d[\d,]{0,15})/i;
/** Size first: "the request has 9000 tokens, which exceeds … 8192", "the input token count (9000) exceeds … (8192)". */
const SIZE_FIRST = /(\d[\d,]{0,15})[^\d]{0,20}(?:tokens?\b[^\d]*)?exceed[^\d]*(\d[\d,]{0,15})/i;

/** Claude Code reads both numbers and offers to compact the conversation. */
export function promptTooLong(message: string): string {
  if (ANTHROPIC_WORDING.test(message)) return message;
  const [, limit, size] = LIMIT_FIRST.exec(message) ?? [];
  const [, sizeFirst, limitLast] =
    limit === undefined ? (SIZE_FIRST.exec(message) ?? []) : [null, size, limit];
  const [tokens, tokensMax] = [sizeFirst, limitLast].map((text) =>
    Number(text?.replaceAll(",", "") ?? Number.NaN),
  );
  return tokens !== undefined && tokensMax !== undefined && tokens > tokensMax
    ? `prompt is too long: ${tokens} tokens > ${tokensMax} maximum`
    : `prompt is too long: ${message}`;
}
