/** Error responses in the form of Anthropic's API. */

import type { Rejection } from "../errors.ts";
import { isRecord, parseJson } from "../json-fields.ts";

const TYPE_BY_STATUS: Readonly<Record<number, string>> = {
  400: "invalid_request_error",
  401: "authentication_error",
  402: "billing_error",
  403: "permission_error",
  404: "not_found_error",
  405: "invalid_request_error",
  413: "request_too_large",
  429: "rate_limit_error",
  503: "api_error",
  529: "overloaded_error",
};

/** Anthropic's own words for faults whose text clients and gateways read. */
const MESSAGE_BY_CODE: Readonly<Record<string, string>> = {
  context_length_exceeded: "prompt is too long: 9000 tokens > 8192 maximum",
  insufficient_quota:
    "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits.",
  invalid_api_key: "invalid x-api-key",
  model_not_found: "model: gone",
  overloaded_error: "Overloaded",
  server_error: "Internal server error",
  invalid_value: "messages.0.role: Input should be 'user' or 'assistant'",
  rate_limit_exceeded:
    "This request would exceed your organization's rate limit of 3 requests per minute. Please try again in 2s.",
};

function messagesRejection(status: number, message: string, headers: Record<string, string> = {}): Rejection {
  const type = TYPE_BY_STATUS[status] ?? "api_error";
  const body = JSON.stringify({ type: "error", error: { type, message }, request_id: "req_simulator" });
  return { kind: "rejection", status, body, headers };
}

export function invalidMessages(message: string): Rejection {
  return messagesRejection(400, message);
}

/** The same error as Anthropic's API reports it. A page of HTML and a leaking error stay as they are. */
export function asMessagesRejection(rejection: Rejection): Rejection {
  const json = parseJson(rejection.body);
  const error = isRecord(json) && json.type !== "error" ? json.error : null;
  if (!isRecord(error) || (isRecord(json) && json.account !== undefined)) return rejection;
  const code = typeof error.code === "string" ? error.code : "";
  // An account without money is reported as an invalid request.
  const status = code === "insufficient_quota" ? 400 : rejection.status;
  const message = MESSAGE_BY_CODE[code] ?? String(error.message);
  return messagesRejection(status, message, rejection.headers);
}
