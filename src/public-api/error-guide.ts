/** Explains every error code, for the page about errors, the OpenAPI document and the explorer. */

import {
  type ErrorCode,
  type ErrorObject,
  errorObject,
  isErrorCode,
  isUpstreamCode,
  paramError,
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
    example: "The field `model` appears more than once (line 1, column 60). Send it once.",
    param: "model",
  },
  too_many_parameters: {
    why: "the query string has more than 100 parameters",
    todo: "send only the parameters of the operation",
    retry: "no",
    example: "The query has more than 100 parameters. Send only the parameters of the operation.",
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
    todo: "correct the field as described in the message",
    retry: "no",
    example: "Invalid type for `stream`: expected a boolean, got a string.",
    param: "stream",
  },
  invalid_value: {
    why: "the value of `param` is out of range, has too many elements, or conflicts with another field (`background: true` with `store: false`); or the model supports a different interface; or `Idempotency-Key` is not 1 to 255 visible ASCII characters",
    todo: "correct the value as described in the message",
    retry: "no",
    example: "`n` must be between 1 and 128.",
    param: "n",
  },
  invalid_request: {
    why: "the upstream rejected the request, or the HTTP transfer is invalid",
    todo: "correct the request as described in the message",
    retry: "no",
    example: "The upstream rejected the request as invalid.",
  },
  unsupported_parameter: {
    why: "the model or the endpoint does not support `param` (for example `background` over a WebSocket), or `param` lets the upstream choose another model (`models`, `fallbacks`)",
    todo: "remove the field",
    retry: "no",
    example: "Unsupported parameter: `logprobs` is not supported with this model.",
    param: "logprobs",
  },
  unknown_parameter: {
    why: "the model does not support `param`; or a field differs from `param` only in upper and lower case",
    todo: "remove the field, or use the exact name",
    retry: "no",
    example: "Unknown parameter: `tempature`.",
    param: "tempature",
  },
  context_length_exceeded: {
    why: "the input is longer than the context window of the model",
    todo: "shorten the input",
    retry: "no",
    example: "Your input exceeds the context window of this model. Shorten the input and try again.",
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
    example: "The encrypted content of a reasoning item could not be verified. Remove the reasoning items.",
    param: "input",
  },
  policy_violation: {
    why: "`param` breaks a rule of the key's [request policy](policies.md), or requires something that the policy denies",
    todo: "change the request as described in the message, or ask your administrator",
    retry: "no",
    example:
      "`max_tokens`: at most 16000 output tokens are allowed. This is a rule of the key's request policy. Change the request, or ask your administrator.",
  },
  idempotency_key_reused: {
    why: "the same `Idempotency-Key` was sent with a different request within a day",
    todo: "use a new key for each request",
    retry: "no",
    example:
      "This Idempotency-Key was used for the request req_1, which had different content. Use a new key for each request.",
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
      "Incorrect API key provided: gwk_****h7Qe. The key is invalid or has been revoked. Check the key, or create a new one.",
  },
  network_not_allowed: {
    why: "the request policy of the key does not allow the network of the client",
    todo: "send the request from an allowed network, or ask your administrator",
    retry: "no",
    example: "This key cannot be used from your network. Use an allowed network, or ask your administrator.",
  },
  interface_not_allowed: {
    why: "the key's group does not include this interface",
    todo: "use a key of another group",
    retry: "no",
    example:
      "This key's group does not include the images interface. Use a key of another group, or ask your administrator.",
  },
  model_not_found: {
    why: "the model does not exist or is not published to this key",
    todo: "use an `id` from `GET /v1/models`; the message suggests one that is spelled alike",
    retry: "no",
    example:
      "The model `slow-chat` does not exist or you do not have access to it. GET /v1/models lists the models of this key.",
    param: "model",
  },
  request_not_found: {
    why: "`GET /v1/requests/{id}`: the key has no request with this id, or the request was rejected after the first 60 rejections of its kind in one minute, which are recorded together",
    todo: "use the `x-request-id` of a response",
    retry: "no",
    example: "No request 'req_1' of this key exists. Use the x-request-id of a response.",
  },
  response_not_found: {
    why: "the key has no response with this id",
    todo: "check the id",
    retry: "no",
    example: "Response with id 'resp_1' not found.",
  },
  thread_not_found: {
    why: "Messages: no account of the key holds the conversation of `thread.previous_message_id`",
    todo: "send the whole conversation, as Anthropic's SDKs do by themselves",
    retry: "no",
    example:
      'No thread was found for the message \'msg_1\'. Send the whole conversation with `thread: {"type": "create"}` or without `thread`.',
    param: "thread.previous_message_id",
  },
  unknown_url: {
    why: "no endpoint has this path, or the gateway does not support this API",
    todo: "use the path in the message, or one of the endpoints it lists",
    retry: "no",
    example: "The path /v1/v1/models does not exist. Did you mean /v1/models?",
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
    example: "The request body arrived too slowly. Send at least 16 KiB per second, without long pauses.",
  },
  idempotency_in_progress: {
    why: "the first request with this `Idempotency-Key` is still in flight",
    todo: "wait for `Retry-After` and send the same request again",
    retry: "later",
    example:
      "The request req_1 with this Idempotency-Key is still in flight. Send the same request again after Retry-After.",
  },
  idempotency_response_gone: {
    why: "the request with this `Idempotency-Key` is complete, but its response is not stored: it was a stream, too long, or interrupted",
    todo: "get the outcome with `GET /v1/requests/{id}` and the id in the message; use a new key to send the request again",
    retry: "no",
    example:
      "The request req_1 with this Idempotency-Key has ended, but its response is not stored. The request was not sent again. To send it again, use a new key.",
  },
  request_too_large: {
    why: "the body, a file or the number of files exceeds its limit, or a compressed body expands to more than 100 times its size. Also a request that takes too long or too much memory to be translated for an account with another interface, or to be counted; or a configuration file or price list that takes too long or too much memory to be read",
    todo: "send a smaller body, or send it without Content-Encoding",
    retry: "no",
    example: "The request body is larger than 67108864 bytes.",
  },
  unsupported_media_type: {
    why: "Content-Type or Content-Encoding is not supported",
    todo: "send JSON, or a multipart form for image edits",
    retry: "no",
    example: "Send the body as application/json and set Content-Type.",
  },
  expectation_failed: {
    why: "the `Expect` header has a value other than `100-continue`",
    todo: "remove the header",
    retry: "no",
    example: "The Expect header is not supported: only 100-continue is supported.",
  },
  upgrade_required: {
    why: "`GET /v1/responses` requires a WebSocket upgrade; or the key's group has `websocket: false` or does not include `responses`",
    todo: "use a WebSocket client, or `POST /v1/responses`",
    retry: "no",
    example:
      "GET /v1/responses requires a WebSocket upgrade (version 13). Connect with a WebSocket client, or use POST /v1/responses.",
  },
  rate_limit_exceeded: {
    why: "a limit of the key, its user or its group is reached (the message names the limit and the reset time), or requests in flight have reserved the rest of a USD window; or all accounts for the model are busy or rate limited, and the group's queue is full or the queue time is over; or too many token counts of the key or loads of its long stored responses wait, or it has too many streams of stored responses, or it calls the endpoints for models, usage, requests and stored responses too often; or your address sent too many invalid keys; or, in the console, there were too many attempts, changes, registrations or messages, or too many reads wait",
    todo: "wait for `Retry-After`",
    retry: "later",
    example: "Rate limit reached for this API key: 60 requests per minute. Please try again in 3s.",
  },
  usage_limit_reached: {
    why: "a USD window of the key, its user or its group, or the quota of the user's subscription, is exhausted or too small for this request; `resets_at` (Unix seconds) and the message give the reset time",
    todo: "retry after the reset time",
    retry: "later",
    example:
      "Usage limit reached for this API key: $5.00 per 5 hours is exhausted. Try again at 2026-11-01T14:00:00Z.",
  },
  insufficient_quota: {
    why: "the user's balance or active subscription does not cover the minimum cost of this request, requests in flight hold the required amount, the balance is in debt (the message gives the amount), or the key belongs to no user who can be charged; within a stream: the hold of the request is exhausted",
    todo: "top up the balance or ask your administrator; do not retry (`x-should-retry: false`)",
    retry: "no",
    example:
      "This request requires at least $0.02, but your available balance is $0.01. Top up the balance, or send a smaller request.",
  },
  request_header_fields_too_large: {
    why: "the headers exceed 64 KiB or 128 lines",
    todo: "send fewer or shorter headers",
    retry: "no",
    example: "The request headers are too large: more than 65536 bytes. Send fewer or shorter headers.",
  },
  client_closed_request: {
    why: "the client closed the connection before the response (recorded, never sent)",
    todo: "",
    retry: "no",
    example: "The client closed the connection before the response was ready.",
  },
  server_error: {
    why: "the gateway failed; within a Responses stream also: the upstream failed, timed out or was interrupted",
    todo: "retry; report the request id if the error persists",
    retry: "yes",
    example:
      "The gateway failed while handling this request. Try again. If the error persists, report the request id to your administrator.",
  },
  upstream_error: {
    why: "the upstream failed or closed the connection; or it sent a translated response with more elements than the gateway passes on (256 calls, 1,000 citations or searches, 4,096 items, 4 MiB of text): the message names the bound",
    todo: "retry, after `Retry-After` if the header is present; request less if the message names a bound",
    retry: "yes",
    example: "The upstream of the model `slow-chat` failed before it sent a response. Try again.",
  },
  response_too_large: {
    why: "the response exceeds the maximum size: 16 MiB for one event of a stream, 128 MiB for a response that is not streamed",
    todo: "request less (fewer inputs, fewer or smaller images), or do not stream if the request was a stream",
    retry: "no",
    example:
      "The response exceeds the maximum size of this gateway. Request less (fewer inputs, fewer or smaller images), or send the request without `stream`.",
  },
  server_is_overloaded: {
    why: "all accounts for the model are overloaded, or rate limited for longer than a minute; or, for usage and in the console, the database is busy with other reads, or the read takes too long",
    todo: "retry later, or use another model; shorten the range of usage",
    retry: "later",
    example: "Selected model is at capacity. Try again shortly or choose another model.",
  },
  no_available_account: {
    why: "no account can serve the model, because its credential, quota or model name needs an administrator; or the account that stores the response is disabled",
    todo: "contact your administrator; do not retry (`x-should-retry: false`)",
    retry: "no",
    example:
      "No account can serve the model `slow-chat` at the moment. Contact your administrator and include the request id.",
  },
  no_room_for_body: {
    why: "the bodies of other requests, and long stored responses, use all the memory or disk space reserved for bodies",
    todo: "wait for `Retry-After`, or send a smaller body",
    retry: "later",
    example: "The memory for request bodies is full. Try again in 2 s, or send a smaller body.",
  },
  upstream_unavailable: {
    why: "all upstreams of the model are failing (errors, timeouts, failed connections), so the request was not sent; busy or rate limited accounts do not cause this error",
    todo: "wait for `Retry-After`, or use another model",
    retry: "later",
    example:
      "The upstream of the model `slow-chat` is failing, so this request was not sent. Please try again in 5s.",
  },
  store_unavailable: {
    why: "the gateway cannot write to its database, or cannot store bodies on disk",
    todo: "wait for `Retry-After`",
    retry: "later",
    example: "The gateway cannot access its database at the moment. Try again shortly.",
  },
  upstream_timeout: {
    why: "the upstream did not respond in time",
    todo: "retry with a shorter request or a stream",
    retry: "yes",
    example:
      "The model `slow-chat` did not respond in time. Try again, with a shorter request or with streaming.",
  },
  http_version_not_supported: {
    why: "the HTTP version is not supported: the gateway supports HTTP/1.1 and HTTP/1.0; a proxy in front may support others",
    todo: "use HTTP/1.1",
    retry: "no",
    example: "The request cannot be parsed: only HTTP/1.1 and HTTP/1.0 are supported.",
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
    example:
      "A connection can have at most 32 values of `stream_id`. Reuse one of them, or open another connection.",
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
      "Web pages of this origin are not allowed to connect. Ask your administrator to add the origin to server.allowed_origins.",
  },
};

export function errorExample(code: ErrorCode): { status: number; body: { error: ErrorObject } } {
  const { example, param = null } = ERROR_GUIDE[code];
  const error = paramError(param, code, example);
  const body = { error: errorObject(error, "req_0199f3c5a1b27c3e8d4f5a6b7c8d9e0f") };
  return { status: error.status, body };
}

export function lookUpAdvice(code: string): Advice | null {
  if (isErrorCode(code)) return ERROR_GUIDE[code];
  return isUpstreamCode(code) ? UPSTREAM_GUIDE[code] : null;
}
