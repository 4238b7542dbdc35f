/** Explains every error code, for the page about errors, the OpenAPI document and the explorer. */

import {
  ApiError,
  type ErrorCode,
  type ErrorObject,
  errorObject,
  isErrorCode,
  isUpstreamCode,
} from "../errors.ts";
import { CONSOLE_GUIDE, type ErrorGuide } from "./console-codes.ts";
import { type Advice, UPSTREAM_GUIDE } from "./upstream-codes.ts";

export type { ErrorGuide } from "./console-codes.ts";

export const ERROR_GUIDE: Readonly<Record<ErrorCode, ErrorGuide>> = {
  invalid_json: {
    why: "the body is not a JSON object in UTF-8, or is nested deeper than 128 levels",
    todo: "correct the JSON at the line and column in the message",
    retry: "no",
    example: "The request body is not a valid JSON object: unexpected end at line 1, column 42.",
  },
  duplicate_parameter: {
    why: "a field that decides routing or metering appears twice",
    todo: "send the field once",
    retry: "no",
    example:
      "The field `model` appears more than once (line 1, column 60). Send it once, so that what is checked is what is served.",
    param: "model",
  },
  too_many_parameters: {
    why: "the query string has more than 100 parameters",
    todo: "send only the parameters of the operation",
    retry: "no",
    example: "The query has more than 100 parameters. Send only those that the operation takes.",
  },
  missing_required_parameter: {
    why: "`param` is missing",
    todo: "add the field",
    retry: "no",
    example: "Missing required parameter: `model` (an id from GET /v1/models).",
    param: "model",
  },
  invalid_type: {
    why: "`param` has the wrong type",
    todo: "correct the field as the message says",
    retry: "no",
    example: "Invalid type for `stream`: expected a boolean, got a string.",
    param: "stream",
  },
  invalid_value: {
    why: "the value of `param` is out of range or conflicts with another field (`background: true` with `store: false`); or the model supports a different interface; or `Idempotency-Key` is not 1 to 255 visible ASCII characters",
    todo: "correct the value as the message says",
    retry: "no",
    example: "`n` must be between 1 and 128.",
    param: "n",
  },
  invalid_request: {
    why: "the upstream rejected the request, or the HTTP transfer is invalid",
    todo: "correct the request as the message says",
    retry: "no",
    example: "The upstream refused the request: unsupported image.",
  },
  unsupported_parameter: {
    why: "the model or the endpoint does not support `param` (for example `background` over a WebSocket)",
    todo: "remove the field",
    retry: "no",
    example: "The model does not take `logprobs`. Leave it out.",
    param: "logprobs",
  },
  unknown_parameter: {
    why: "the model does not support `param`; or a field differs from `param` only in upper and lower case",
    todo: "remove the field, or use the exact name",
    retry: "no",
    example: "The model does not know `tempature`. Leave it out.",
    param: "tempature",
  },
  context_length_exceeded: {
    why: "the input is longer than the context window of the model",
    todo: "shorten the input",
    retry: "no",
    example: "The conversation is longer than the model's window. Shorten it.",
  },
  previous_response_not_found: {
    why: "`previous_response_id` is unknown to this key; over a WebSocket, to this connection",
    todo: "send the whole conversation",
    retry: "no",
    example: "Previous response with id 'resp_abc' not found. Send the whole conversation as input instead.",
    param: "previous_response_id",
  },
  invalid_encrypted_content: {
    why: "the input contains reasoning from another account",
    todo: "remove the reasoning items",
    retry: "no",
    example: "Reasoning in the input belongs to another account. Leave those items out.",
    param: "input",
  },
  idempotency_key_reused: {
    why: "the same `Idempotency-Key` was sent with a different request within a day",
    todo: "use a new key for each request",
    retry: "no",
    example: "This Idempotency-Key was used for another request. Make a new one for each request.",
  },
  missing_api_key: {
    why: "no key was sent",
    todo: "send a key as `Authorization: Bearer <API_KEY>`",
    retry: "no",
    example: "No API key was sent. Send it as `Authorization: Bearer <API_KEY>`.",
  },
  invalid_api_key: {
    why: "the key is incorrect, revoked or expired",
    todo: "check the key, or create a new one",
    retry: "no",
    example:
      "Incorrect API key provided: gwk_****h7Qe. It is wrong or has been revoked. Check it, or make a new one.",
  },
  interface_not_allowed: {
    why: "the key's group does not include this interface",
    todo: "use a key of another group",
    retry: "no",
    example: "This key's group does not include images. Use a key of another group.",
  },
  model_not_found: {
    why: "the model does not exist or is not published to this key",
    todo: "use an `id` from `GET /v1/models`",
    retry: "no",
    example:
      "The model `slow-chat` does not exist or you do not have access to it. GET /v1/models lists what this key can call.",
    param: "model",
  },
  request_not_found: {
    why: "`GET /v1/requests/{id}`: the key has no request with this id, or the request was rejected after the first 60 rejections of its kind in one minute, which are recorded together",
    todo: "use the `x-request-id` of a response",
    retry: "no",
    example: "No request 'req_1' was made with this key. Use the x-request-id of an answer.",
  },
  response_not_found: {
    why: "the key has no response with this id",
    todo: "check the id",
    retry: "no",
    example: "No response 'resp_1' was made with this key. Check the id.",
  },
  unknown_url: {
    why: "no endpoint has this path, or the gateway does not support this API",
    todo: "use the path in the message, or one of the endpoints it lists",
    retry: "no",
    example: "There is nothing at /v1/v1/models. Did you mean /v1/models?",
  },
  method_not_allowed: {
    why: "the path does not support this method; see the `Allow` header",
    todo: "use another method",
    retry: "no",
    example: "PUT is not allowed for this path. Allowed: GET.",
  },
  request_timeout: {
    why: "the request body stopped arriving, or arrived more slowly than 16 KiB per second",
    todo: "send the body without long pauses",
    retry: "yes",
    example: "The body stopped arriving. Send it without long pauses.",
  },
  idempotency_in_progress: {
    why: "the first request with this `Idempotency-Key` is still in flight",
    todo: "wait for `Retry-After` and send the same request again",
    retry: "later",
    example:
      "The first request with this Idempotency-Key is still under way. Send the same again in a moment.",
  },
  idempotency_answer_gone: {
    why: "the request with this `Idempotency-Key` is complete, but its response is not stored: it was a stream, too long, or interrupted",
    todo: "get the outcome with `GET /v1/requests/{id}` and the id in the message; use a new key to send the request again",
    retry: "no",
    example: "The request with this Idempotency-Key was served as req_1, and its answer is not kept.",
  },
  request_too_large: {
    why: "the body, a file or the number of files exceeds its limit, or a compressed body expands to more than 100 times its size",
    todo: "send a smaller body, or send it without Content-Encoding",
    retry: "no",
    example: "The body is larger than allowed. Send less.",
  },
  unsupported_media_type: {
    why: "Content-Type or Content-Encoding is not supported",
    todo: "send JSON, or a multipart form for image edits",
    retry: "no",
    example: "Send the body as application/json and say so in Content-Type.",
  },
  expectation_failed: {
    why: "the `Expect` header has a value other than `100-continue`",
    todo: "remove the header",
    retry: "no",
    example: "The Expect header cannot be met: only 100-continue can be expected.",
  },
  upgrade_required: {
    why: "`GET /v1/responses` requires a WebSocket upgrade; or the key's group has `websocket: false` or does not include `responses`",
    todo: "use a WebSocket client, or `POST /v1/responses`",
    retry: "no",
    example: "This path takes a WebSocket upgrade. Use POST /v1/responses.",
  },
  rate_limit_exceeded: {
    why: "a limit of the key, its user or its group is reached (the message names the limit and the reset time), or requests in flight have reserved the rest of a USD window; or all accounts for the model are busy or rate limited, and the group's queue is full or the queue time is over; or your address sent too many invalid keys; or, in the console, there were too many attempts, registrations or messages",
    todo: "wait for `Retry-After`",
    retry: "later",
    example: "The key's limit of 60 requests a minute is reached. Try again in 3 s.",
  },
  usage_limit_reached: {
    why: "a USD window of the key, its user or its group, or the quota of the user's subscription, is exhausted or too small for this request; `resets_at` (Unix seconds) and the message give the reset time",
    todo: "retry after the reset time",
    retry: "later",
    example: "The key's 5 USD for 5 hours are used up. They are free again at 14:00 UTC.",
  },
  insufficient_quota: {
    why: "the user's balance or active subscription does not cover the minimum cost of this request, requests in flight hold the required amount, the balance is in debt (the message gives the amount), or the key belongs to no user who can be charged; within a stream: the hold of the request is exhausted",
    todo: "top up the balance or ask your administrator; do not retry (`x-should-retry: false`)",
    retry: "no",
    example: "The balance does not cover this request. Top up, or ask your administrator.",
  },
  request_header_fields_too_large: {
    why: "the headers exceed 64 KiB or 128 lines",
    todo: "send fewer or shorter headers",
    retry: "no",
    example: "The headers of the request are too large: more than 65536 bytes. Send fewer or shorter ones.",
  },
  client_closed_request: {
    why: "the client closed the connection before the response (recorded, never sent)",
    todo: "",
    retry: "no",
    example: "The client closed the connection before the answer was ready.",
  },
  server_error: {
    why: "the gateway failed; within a Responses stream also: the upstream failed, timed out or was interrupted",
    todo: "retry; report the request id if the error persists",
    retry: "yes",
    example:
      "The gateway failed while handling this request. Try again; if it persists, give your administrator the request id.",
  },
  upstream_error: {
    why: "the upstream failed or closed the connection",
    todo: "retry, after `Retry-After` if the header is present",
    retry: "yes",
    example: "The upstream failed. Try again.",
  },
  answer_too_large: {
    why: "the response exceeds the maximum size: 16 MiB for one event of a stream, 128 MiB for a response that is not streamed",
    todo: "request less (fewer inputs, fewer or smaller images), or do not stream if the request was a stream",
    retry: "no",
    example:
      "The answer is larger than this gateway passes on. Ask for less (fewer inputs, fewer or smaller pictures), or for a whole answer if this was a stream.",
  },
  server_is_overloaded: {
    why: "all accounts for the model are overloaded, or rate limited for longer than a minute",
    todo: "retry later, or use another model",
    retry: "later",
    example: "Selected model is at capacity. Try another model, or later.",
  },
  no_available_account: {
    why: "no account can serve the model, because its credential, quota or model name needs an administrator; or the account that stores the response is disabled",
    todo: "contact your administrator; do not retry (`x-should-retry: false`)",
    retry: "no",
    example: "No account can serve this model at the moment. Tell your administrator.",
  },
  no_room_for_body: {
    why: "the bodies of other requests use all the memory or disk space reserved for bodies",
    todo: "wait for `Retry-After`, or send a smaller body",
    retry: "later",
    example:
      "The bodies of other requests take all the memory there is for them. Try again in 2 s, or send a smaller body.",
  },
  upstream_unavailable: {
    why: "all upstreams of the model are failing (errors, timeouts, failed connections), so the request was not sent; busy or rate limited accounts do not cause this error",
    todo: "wait for `Retry-After`, or use another model",
    retry: "later",
    example:
      "The upstream of the model `slow-chat` is failing: its latest requests ended in errors, so this one was not sent. Please try again in 5s.",
  },
  store_unavailable: {
    why: "the gateway cannot write to its database, or cannot store bodies on disk",
    todo: "wait for `Retry-After`",
    retry: "later",
    example: "The gateway cannot reach its records at the moment. Try again shortly.",
  },
  upstream_timeout: {
    why: "the upstream did not respond in time",
    todo: "retry with a shorter request or a stream",
    retry: "yes",
    example: "The model did not answer in time. Try again, with a shorter request or a stream.",
  },
  http_version_not_supported: {
    why: "the HTTP version is not supported: the gateway supports HTTP/1.1 and HTTP/1.0; a proxy in front may support others",
    todo: "use HTTP/1.1",
    retry: "no",
    example: "The request cannot be read: only HTTP/1.1 and HTTP/1.0 are spoken here.",
  },
  ...CONSOLE_GUIDE,
  invalid_stream_id: {
    why: "`stream_id` is not 1 to 256 letters, digits, dots, dashes or underscores",
    todo: "use a valid lane name",
    retry: "no",
    example: "`stream_id` must be 1 to 256 letters, digits, dots, dashes or underscores.",
    param: "stream_id",
  },
  websocket_stream_limit_reached: {
    why: "the connection already has 32 lanes",
    todo: "reuse a lane, or open another connection",
    retry: "no",
    example: "This connection has 32 lanes already. Use one of them again, or open another connection.",
    param: "stream_id",
  },
  websocket_connection_limit_reached: {
    why: "the connection is one hour old, or the gateway is restarting",
    todo: "open a new connection and send the whole conversation",
    retry: "yes",
    example:
      "Responses websocket connection limit reached (60 minutes). Create a new websocket connection to continue.",
  },
  origin_not_allowed: {
    why: "the origin of the web page may not open WebSockets",
    todo: "ask your administrator to add the origin to `server.allowed_origins`",
    retry: "no",
    example:
      "Web pages of this origin may not connect. Ask your administrator to add it to server.allowed_origins.",
  },
};

export function errorExample(code: ErrorCode): { status: number; body: { error: ErrorObject } } {
  const { example, param = null } = ERROR_GUIDE[code];
  const error = new ApiError(code, example, { param });
  const body = { error: errorObject(error, "req_0199f3c5a1b27c3e8d4f5a6b7c8d9e0f") };
  return { status: error.status, body };
}

/** Returns the advice for a code of the gateway or of an upstream. */
export function adviceOn(code: string): Advice | null {
  if (isErrorCode(code)) return ERROR_GUIDE[code];
  return isUpstreamCode(code) ? UPSTREAM_GUIDE[code] : null;
}
