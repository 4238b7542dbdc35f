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
    why: "the body is not a JSON object in UTF-8, or is nested deeper than 128",
    todo: "mend it at the line and column named",
    retry: "no",
    example: "The request body is not a valid JSON object: unexpected end at line 1, column 42.",
  },
  duplicate_parameter: {
    why: "a field that decides routing or metering appears twice",
    todo: "send it once",
    retry: "no",
    example:
      "The field `model` appears more than once (line 1, column 60). Send it once, so that what is checked is what is served.",
    param: "model",
  },
  too_many_parameters: {
    why: "the query of the address has more than 100 parameters",
    todo: "send only those that the operation takes",
    retry: "no",
    example: "The query has more than 100 parameters. Send only those that the operation takes.",
  },
  missing_required_parameter: {
    why: "`param` is not there",
    todo: "add it",
    retry: "no",
    example: "Missing required parameter: `model` (an id from GET /v1/models).",
    param: "model",
  },
  invalid_type: {
    why: "`param` has the wrong type",
    todo: "change it as the message says",
    retry: "no",
    example: "Invalid type for `stream`: expected a boolean, got a string.",
    param: "stream",
  },
  invalid_value: {
    why: "`param` has a value out of range, or one that another field rules out (`background: true` with `store: false`); or the model serves another interface; or `Idempotency-Key` is not 1 to 255 visible ASCII characters",
    todo: "change it as the message says",
    retry: "no",
    example: "`n` must be between 1 and 128.",
    param: "n",
  },
  invalid_request: {
    why: "the upstream refused the request, or the transfer itself is wrong",
    todo: "the message says why",
    retry: "no",
    example: "The upstream refused the request: unsupported image.",
  },
  unsupported_parameter: {
    why: "the model, or the endpoint, does not take `param` (`background` over a WebSocket, for example)",
    todo: "leave it out",
    retry: "no",
    example: "The model does not take `logprobs`. Leave it out.",
    param: "logprobs",
  },
  unknown_parameter: {
    why: "the model does not take `param`; or a field differs from `param` only in upper and lower case",
    todo: "leave it out, or write the name exactly",
    retry: "no",
    example: "The model does not know `tempature`. Leave it out.",
    param: "tempature",
  },
  context_length_exceeded: {
    why: "the conversation is longer than the model's window",
    todo: "shorten it",
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
    why: "reasoning from another account was sent back",
    todo: "leave those items out",
    retry: "no",
    example: "Reasoning in the input belongs to another account. Leave those items out.",
    param: "input",
  },
  idempotency_key_reused: {
    why: "the same `Idempotency-Key` was sent with another request within a day",
    todo: "make a new key for each request",
    retry: "no",
    example: "This Idempotency-Key was used for another request. Make a new one for each request.",
  },
  missing_api_key: {
    why: "no key was sent",
    todo: "check the key, or make a new one",
    retry: "no",
    example: "No API key was sent. Send it as `Authorization: Bearer <API_KEY>`.",
  },
  invalid_api_key: {
    why: "the key is wrong, revoked or expired",
    todo: "check the key, or make a new one",
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
    why: "`GET /v1/requests/{id}`: no such request was made with this key, or it was refused after the first 60 refusals of its kind in one minute, which are counted together",
    todo: "use the `x-request-id` of an answer",
    retry: "no",
    example: "No request 'req_1' was made with this key. Use the x-request-id of an answer.",
  },
  response_not_found: {
    why: "no such response was made with this key",
    todo: "check the id",
    retry: "no",
    example: "No response 'resp_1' was made with this key. Check the id.",
  },
  unknown_url: {
    why: "nothing is at this path, or this gateway does not offer that API",
    todo: "use the address in the message, or one of the endpoints that it lists",
    retry: "no",
    example: "There is nothing at /v1/v1/models. Did you mean /v1/models?",
  },
  method_not_allowed: {
    why: "see the `Allow` header",
    todo: "use another method",
    retry: "no",
    example: "PUT is not allowed for this path. Allowed: GET.",
  },
  request_timeout: {
    why: "the request stopped arriving, or came more slowly than 16 KiB a second",
    todo: "send it without long pauses",
    retry: "yes",
    example: "The body stopped arriving. Send it without long pauses.",
  },
  idempotency_in_progress: {
    why: "the first request with this `Idempotency-Key` is still under way",
    todo: "wait for `Retry-After` and send the same again",
    retry: "later",
    example:
      "The first request with this Idempotency-Key is still under way. Send the same again in a moment.",
  },
  idempotency_answer_gone: {
    why: "the request with this `Idempotency-Key` was done, and its answer is not kept: it was a stream, long, or broken off",
    todo: "`GET /v1/requests/{id}` with the id in the message says what became of it; to ask again, use a new key",
    retry: "no",
    example: "The request with this Idempotency-Key was served as req_1, and its answer is not kept.",
  },
  request_too_large: {
    why: "the body, a file or the number of files is over its limit, or a packed body becomes more than 100 times as long",
    todo: "send less, or send it without Content-Encoding",
    retry: "no",
    example: "The body is larger than allowed. Send less.",
  },
  unsupported_media_type: {
    why: "Content-Type or Content-Encoding is not one we read",
    todo: "send JSON (or a form for image edits)",
    retry: "no",
    example: "Send the body as application/json and say so in Content-Type.",
  },
  expectation_failed: {
    why: "the `Expect` header asks for something else than `100-continue`",
    todo: "leave it out",
    retry: "no",
    example: "The Expect header cannot be met: only 100-continue can be expected.",
  },
  upgrade_required: {
    why: "`GET /v1/responses` is for WebSockets, and this was none; or the key's group has `websocket: false`, or is without `responses`",
    todo: "use a WebSocket client, or `POST /v1/responses`",
    retry: "no",
    example: "This path takes a WebSocket upgrade. Use POST /v1/responses.",
  },
  rate_limit_exceeded: {
    why: "a limit of the key, its user or its group is reached (the message says which, and when it frees), or requests in flight have reserved what is left of a window of USD; or every account of the model is busy or limited, and the group's queue is full or its time is up; or too many wrong keys came from your address; or, in the console, there were too many attempts, registrations or messages",
    todo: "wait for `Retry-After`",
    retry: "later",
    example: "The key's limit of 60 requests a minute is reached. Try again in 3 s.",
  },
  usage_limit_reached: {
    why: "what the key, its user or its group may spend in a window of USD, or the user's subscription, is used up, or too little is left for this request; `resets_at` (Unix seconds) and the message say when it frees",
    todo: "try again then",
    retry: "later",
    example: "The key's 5 USD for 5 hours are used up. They are free again at 14:00 UTC.",
  },
  insufficient_quota: {
    why: "the user's balance does not cover the least that this request costs, no running subscription does, other requests in flight hold what it needs, the balance is in debt (the message says how much), or the key belongs to no user who could be charged; within a stream: what was held for it is used up",
    todo: "top up or ask your administrator; do not retry (`x-should-retry: false`)",
    retry: "no",
    example: "The balance does not cover this request. Top up, or ask your administrator.",
  },
  request_header_fields_too_large: {
    why: "the headers are longer than 64 KiB, or more than 128 lines",
    todo: "send fewer or shorter ones",
    retry: "no",
    example: "The headers of the request are too large: more than 65536 bytes. Send fewer or shorter ones.",
  },
  client_closed_request: {
    why: "you left before the answer (recorded, never seen)",
    todo: "",
    retry: "no",
    example: "The client closed the connection before the answer was ready.",
  },
  server_error: {
    why: "a fault of the gateway; within a Responses stream also: the upstream failed, fell silent or broke off",
    todo: "retry; report the request id",
    retry: "yes",
    example:
      "The gateway failed while handling this request. Try again; if it persists, give your administrator the request id.",
  },
  upstream_error: {
    why: "the upstream failed or broke off",
    todo: "retry, after `Retry-After` if it is there",
    retry: "yes",
    example: "The upstream failed. Try again.",
  },
  answer_too_large: {
    why: "the answer is larger than is passed on: 16 MiB in one event of a stream, 128 MiB in one that is not streamed",
    todo: "ask for less (fewer inputs, fewer or smaller pictures), or for a whole answer if it was a stream",
    retry: "no",
    example:
      "The answer is larger than this gateway passes on. Ask for less (fewer inputs, fewer or smaller pictures), or for a whole answer if this was a stream.",
  },
  server_is_overloaded: {
    why: "every account of the model is overloaded, or limited for longer than a minute",
    todo: "try later or another model",
    retry: "later",
    example: "Selected model is at capacity. Try another model, or later.",
  },
  no_available_account: {
    why: "no account can serve the model: its credential, quota or model name needs an administrator; or the account that keeps a stored response is not in use",
    todo: "tell your administrator; do not retry (`x-should-retry: false`)",
    retry: "no",
    example: "No account can serve this model at the moment. Tell your administrator.",
  },
  no_room_for_body: {
    why: "the bodies of other requests take all the memory, or the disk space, there is for them",
    todo: "wait for `Retry-After`, or send less at once",
    retry: "later",
    example:
      "The bodies of other requests take all the memory there is for them. Try again in 2 s, or send a smaller body.",
  },
  upstream_unavailable: {
    why: "every upstream of the model is failing (errors, time-outs, no connection), so the request was not sent; accounts that are only busy or limited never cause this",
    todo: "wait for `Retry-After`, or use another model",
    retry: "later",
    example:
      "The upstream of the model `slow-chat` is failing: its latest requests ended in errors, so this one was not sent. Please try again in 5s.",
  },
  store_unavailable: {
    why: "the gateway cannot record requests or take bodies to disk",
    todo: "wait for `Retry-After`",
    retry: "later",
    example: "The gateway cannot reach its records at the moment. Try again shortly.",
  },
  upstream_timeout: {
    why: "the model did not answer in time",
    todo: "retry, shorter or streamed",
    retry: "yes",
    example: "The model did not answer in time. Try again, with a shorter request or a stream.",
  },
  http_version_not_supported: {
    why: "the request is of a version of HTTP that is not spoken here: HTTP/1.1 is, and HTTP/1.0; a proxy in front may speak others",
    todo: "use HTTP/1.1",
    retry: "no",
    example: "The request cannot be read: only HTTP/1.1 and HTTP/1.0 are spoken here.",
  },
  ...CONSOLE_GUIDE,
  invalid_stream_id: {
    why: "`stream_id` is not 1 to 256 letters, digits, dots, dashes or underscores",
    todo: "rename the lane",
    retry: "no",
    example: "`stream_id` must be 1 to 256 letters, digits, dots, dashes or underscores.",
    param: "stream_id",
  },
  websocket_stream_limit_reached: {
    why: "the connection has 32 lanes already",
    todo: "use one again, or open another connection",
    retry: "no",
    example: "This connection has 32 lanes already. Use one of them again, or open another connection.",
    param: "stream_id",
  },
  websocket_connection_limit_reached: {
    why: "the connection is an hour old, or the gateway restarts",
    todo: "open a new connection and send the whole conversation",
    retry: "yes",
    example:
      "Responses websocket connection limit reached (60 minutes). Create a new websocket connection to continue.",
  },
  origin_not_allowed: {
    why: "a web page of this origin opened a WebSocket",
    todo: "have the origin added to `server.allowed_origins`",
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
