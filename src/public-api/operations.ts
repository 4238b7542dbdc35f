/** The operations of the public API, by their method and path in `server/routes.ts`. */

import type { ErrorCode } from "../errors.ts";
import * as examples from "./examples.ts";
import type { Content, Example, Operation, Parameter } from "./operation.ts";
import { chatChunk, chatCompletion, chatRequest } from "./schemas/chat.ts";
import { embeddingsAnswer, embeddingsRequest } from "./schemas/embeddings.ts";
import { health, modelList, modelObject, requestReport, usageReport } from "./schemas/gateway.ts";
import { imageEditForm, imageEditRequest, imageEvent, imageRequest, imagesAnswer } from "./schemas/images.ts";
import {
  compactionObject,
  compactRequest,
  deletedResponse,
  inputTokensAnswer,
  inputTokensRequest,
  itemList,
  responseEvent,
  responseObject,
  responseRequest,
} from "./schemas/responses.ts";

const AUTH: readonly ErrorCode[] = ["missing_api_key", "invalid_api_key", "rate_limit_exceeded"];
const READ_ERRORS: readonly ErrorCode[] = [...AUTH, "store_unavailable", "server_error"];
const MODEL_ERRORS: readonly ErrorCode[] = [
  "invalid_json",
  "duplicate_parameter",
  "missing_required_parameter",
  "invalid_type",
  "invalid_value",
  "invalid_request",
  "unsupported_parameter",
  "unknown_parameter",
  "idempotency_key_reused",
  ...AUTH,
  "interface_not_allowed",
  "model_not_found",
  "not_found",
  "request_timeout",
  "idempotency_in_progress",
  "idempotency_answer_gone",
  "request_too_large",
  "unsupported_media_type",
  "usage_limit_reached",
  "insufficient_quota",
  "server_error",
  "upstream_error",
  "answer_too_large",
  "server_is_overloaded",
  "no_available_account",
  "no_room_for_body",
  "upstream_unavailable",
  "store_unavailable",
  "upstream_timeout",
];
const RESPONSES_ERRORS: readonly ErrorCode[] = [
  ...MODEL_ERRORS,
  "context_length_exceeded",
  "previous_response_not_found",
  "invalid_encrypted_content",
];
const STORED_RESPONSE_ERRORS: readonly ErrorCode[] = [
  ...READ_ERRORS,
  "too_many_parameters",
  "response_not_found",
  "upstream_error",
  "no_available_account",
  "upstream_timeout",
];

/** All parameters are text. */
function parameter(
  place: Parameter["in"],
  name: string,
  about: string,
  example: string,
  choices?: readonly string[],
): Parameter {
  const schema: Parameter["schema"] = { type: "string", ...(choices && { enum: choices }) };
  return { name, in: place, about, schema, example };
}

const IDEMPOTENCY = parameter(
  "header",
  "Idempotency-Key",
  "Makes a repeat safe: under the same key no account works twice, for a day. 1 to 255 visible ASCII characters.",
  "order-7-try-1",
);
const RESPONSE_ID = parameter(
  "path",
  "response_id",
  "The `id` of a response that this key made and the upstream keeps.",
  "resp_0199f3c5",
);

const JSON_TYPE = "application/json";

/** A model request: it has a body, may be streamed, and has many possible errors. */
function describeModelRequest(
  described: Pick<Operation, "id" | "family" | "summary" | "about" | "answer"> & {
    body: Content;
    stream?: Content;
    errors?: readonly ErrorCode[];
    form?: Content;
  },
): Operation {
  const { body, form, stream = null, errors = MODEL_ERRORS, ...rest } = described;
  return {
    ...rest,
    parameters: [IDEMPOTENCY],
    body: form === undefined ? { [JSON_TYPE]: body } : { [JSON_TYPE]: body, "multipart/form-data": form },
    stream,
    errors,
    needsKey: true,
  };
}

/** A request without a body. */
function describeRead(
  described: Pick<Operation, "id" | "family" | "summary" | "about" | "answer"> & Partial<Operation>,
): Operation {
  return { parameters: [], body: null, stream: null, errors: READ_ERRORS, needsKey: true, ...described };
}

const content = (name: string, schema: Content["schema"], ...shown: Example[]): Content => ({
  name,
  schema,
  examples: shown,
});

const RESPONSE = content("Response", responseObject, { name: "answer", value: examples.response });
const EVENTS = content("ResponseEvent", responseEvent, { name: "stream", value: examples.responseStream });
const IMAGES_CONTENT = content("Images", imagesAnswer, { name: "picture", value: examples.images });

export const OPERATIONS = {
  "GET /v1/models": describeRead({
    id: "listModels",
    family: "Models",
    summary: "List the models this key can call",
    about:
      "What the key's group publishes. An `id` of this list is what goes into `model`, letter by letter.",
    answer: content("ModelList", modelList, { name: "models", value: examples.models }),
  }),
  "GET /v1/models/{model}": describeRead({
    id: "getModel",
    family: "Models",
    summary: "Ask for one model",
    about: "The id is the whole rest of the path: it may hold slashes.",
    parameters: [parameter("path", "model", "A model's `id`.", "fast-chat")],
    answer: content("Model", modelObject, { name: "model", value: examples.model }),
    errors: [...READ_ERRORS, "model_not_found"],
  }),
  "POST /v1/responses": describeModelRequest({
    id: "createResponse",
    family: "Responses",
    summary: "Make a response",
    about:
      "Text or a list of items in, a response out; streamed with `stream: true`. The same path takes a WebSocket upgrade.",
    body: content(
      "ResponseRequest",
      responseRequest,
      { name: "text", value: examples.responseRequest },
      { name: "stream", value: { ...examples.responseRequest, stream: true } },
      { name: "tools", value: examples.responseWithTools },
    ),
    answer: RESPONSE,
    stream: EVENTS,
    errors: RESPONSES_ERRORS,
  }),
  "GET /v1/responses": describeRead({
    id: "openResponsesSocket",
    family: "Responses",
    summary: "Open a WebSocket for responses",
    about:
      "Upgrades to a WebSocket (`ws://` or `wss://`). The client sends `response.create` messages, each a request of its own with its own id, limits and charge; the gateway answers with the events of a streamed response, one JSON text frame each, and refuses with `error` frames that carry `status`, `error` and `headers`. A plain `GET` is answered with 426.",
    answer: content("ResponseEvent", responseEvent, { name: "frame", value: examples.responseEvent }),
    errors: [
      ...RESPONSES_ERRORS,
      "upgrade_required",
      "origin_not_allowed",
      "invalid_stream_id",
      "websocket_stream_limit_reached",
      "websocket_connection_limit_reached",
    ],
  }),
  "GET /v1/responses/{response_id}": describeRead({
    id: "getResponse",
    family: "Responses",
    summary: "Ask for a kept response",
    about: "By the key that made it, from the account that keeps it.",
    parameters: [RESPONSE_ID],
    answer: RESPONSE,
    errors: STORED_RESPONSE_ERRORS,
  }),
  "DELETE /v1/responses/{response_id}": describeRead({
    id: "deleteResponse",
    family: "Responses",
    summary: "Delete a kept response",
    about: "At the upstream that keeps it.",
    parameters: [RESPONSE_ID],
    answer: content("DeletedResponse", deletedResponse, { name: "deleted", value: examples.deletedResponse }),
    errors: STORED_RESPONSE_ERRORS,
  }),
  "POST /v1/responses/{response_id}/cancel": describeRead({
    id: "cancelResponse",
    family: "Responses",
    summary: "Cancel a response in the background",
    about: "What was produced until then is charged.",
    parameters: [RESPONSE_ID],
    answer: content("Response", responseObject, {
      name: "cancelled",
      value: { ...examples.response, status: "cancelled" },
    }),
    errors: STORED_RESPONSE_ERRORS,
  }),
  "GET /v1/responses/{response_id}/input_items": describeRead({
    id: "listInputItems",
    family: "Responses",
    summary: "List what a kept response was asked",
    about: "Page by page, with `after`, `limit` and `order`.",
    parameters: [RESPONSE_ID],
    answer: content("ItemList", itemList, { name: "items", value: examples.items }),
    errors: STORED_RESPONSE_ERRORS,
  }),
  "POST /v1/responses/input_tokens": describeModelRequest({
    id: "countInputTokens",
    family: "Responses",
    summary: "Count the tokens of an input",
    about: "By the upstream, without an answer.",
    body: content("InputTokensRequest", inputTokensRequest, {
      name: "text",
      value: examples.responseRequest,
    }),
    answer: content("InputTokens", inputTokensAnswer, { name: "count", value: examples.inputTokens }),
    errors: RESPONSES_ERRORS,
  }),
  "POST /v1/responses/compact": describeModelRequest({
    id: "compactResponse",
    family: "Responses",
    summary: "Compact a conversation",
    about: "The `output` is the `input` of a new chain.",
    body: content("CompactRequest", compactRequest, { name: "conversation", value: examples.compactRequest }),
    answer: content("Compaction", compactionObject, { name: "compaction", value: examples.compaction }),
    errors: RESPONSES_ERRORS,
  }),
  "POST /v1/chat/completions": describeModelRequest({
    id: "createChatCompletion",
    family: "Chat Completions",
    summary: "Go on with a conversation",
    about: "The whole conversation in, the next message out; streamed with `stream: true`.",
    body: content(
      "ChatRequest",
      chatRequest,
      { name: "message", value: examples.chatRequest },
      { name: "stream", value: { ...examples.chatRequest, stream: true } },
    ),
    answer: content("ChatCompletion", chatCompletion, { name: "answer", value: examples.chatCompletion }),
    stream: content("ChatChunk", chatChunk, { name: "stream", value: examples.chatStream }),
    errors: [...MODEL_ERRORS, "context_length_exceeded"],
  }),
  "POST /v1/embeddings": describeModelRequest({
    id: "createEmbeddings",
    family: "Embeddings",
    summary: "Turn texts into vectors",
    about: "One vector a text, in the order of the texts.",
    body: content(
      "EmbeddingsRequest",
      embeddingsRequest,
      { name: "text", value: examples.embeddingsRequest },
      { name: "texts", value: { ...examples.embeddingsRequest, input: ["One", "Two"] } },
    ),
    answer: content("Embeddings", embeddingsAnswer, { name: "vector", value: examples.embeddings }),
  }),
  "POST /v1/images/generations": describeModelRequest({
    id: "generateImages",
    family: "Images",
    summary: "Draw a picture",
    about:
      "For groups that publish image models. Pictures come in Base64, sketches on the way with `stream: true`.",
    body: content("ImageRequest", imageRequest, { name: "prompt", value: examples.imageRequest }),
    answer: IMAGES_CONTENT,
    stream: content("ImageEvent", imageEvent, { name: "stream", value: examples.imageStream }),
  }),
  "POST /v1/images/edits": describeModelRequest({
    id: "editImages",
    family: "Images",
    summary: "Change a picture",
    about: "As JSON with addresses or data URLs, or as a form with files. A mask says where.",
    body: content("ImageEditRequest", imageEditRequest, {
      name: "picture",
      value: examples.imageEditRequest,
    }),
    form: content("ImageEditForm", imageEditForm, { name: "form", value: examples.imageEditForm }),
    answer: IMAGES_CONTENT,
    stream: content("ImageEvent", imageEvent, { name: "stream", value: examples.imageStream }),
  }),
  "GET /v1/usage": describeRead({
    id: "getUsage",
    family: "Usage",
    summary: "What this key has used and has left",
    about: "Money, limits and tokens, by model and by day or hour.",
    parameters: [
      parameter("query", "from", "The beginning: an ISO date or time, or Unix seconds.", "2026-11-01"),
      parameter("query", "to", "The end. A date is meant whole.", "2026-11-15"),
      parameter("query", "granularity", "What a point is.", "day", ["hour", "day"]),
    ],
    answer: content("UsageReport", usageReport, { name: "usage", value: examples.usage }),
    errors: [...READ_ERRORS, "invalid_value", "duplicate_parameter", "too_many_parameters"],
  }),
  "GET /v1/requests/{request_id}": describeRead({
    id: "getRequest",
    family: "Usage",
    summary: "What became of a request",
    about: "By the `x-request-id` of its answer: waits, attempts, tokens, and the bill line by line.",
    parameters: [
      parameter(
        "path",
        "request_id",
        "The `x-request-id` of an answer to this key, or the `id` of a stored response that it made.",
        "req_0199f3c5",
      ),
    ],
    answer: content("RequestReport", requestReport, { name: "request", value: examples.request }),
    errors: [...READ_ERRORS, "request_not_found"],
  }),
  "GET /healthz": describeRead({
    id: "health",
    family: "Health",
    summary: "Whether the process runs",
    about: "200 as long as it does.",
    answer: content("Health", health, { name: "ok", value: { status: "ok" } }),
    errors: [],
    needsKey: false,
  }),
  "GET /readyz": describeRead({
    id: "readiness",
    family: "Health",
    summary: "Whether it can serve",
    about: "200 when the store answers and the process is not shutting down, else 503 with the same body.",
    answer: content("Health", health, {
      name: "ready",
      value: { status: "ready", store: "ok", draining: false },
    }),
    errors: [],
    needsKey: false,
  }),
} as const satisfies Readonly<Record<string, Operation>>;

export type OperationName = keyof typeof OPERATIONS;
