/** The operations of the public API, by their method and path in `server/routes.ts`. */

import type { ErrorCode } from "../errors.ts";
import {
  content,
  describeModelRequest,
  describeRead,
  MODEL_ERRORS,
  parameter,
  READ_ERRORS,
} from "./describe.ts";
import * as examples from "./examples.ts";
import { GEMINI_OPERATIONS } from "./gemini-operations.ts";
import type { Operation } from "./operation.ts";
import { chatChunk, chatCompletion, chatRequest } from "./schemas/chat.ts";
import { embeddingsRequest, embeddingsResponse } from "./schemas/embeddings.ts";
import { health, modelList, modelObject, requestReport, usageReport } from "./schemas/gateway.ts";
import {
  imageEditForm,
  imageEditRequest,
  imageEvent,
  imageRequest,
  imagesResponse,
} from "./schemas/images.ts";
import {
  countTokensRequest,
  messageEvent,
  messageObject,
  messageRequest,
  tokenCount,
} from "./schemas/messages.ts";
import {
  compactionObject,
  compactRequest,
  deletedResponse,
  inputTokensRequest,
  inputTokensResponse,
  itemList,
  responseEvent,
  responseObject,
  responseRequest,
} from "./schemas/responses.ts";

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
const RESPONSE_ID = parameter(
  "path",
  "response_id",
  "The `id` of a stored response that this key created.",
  "resp_0199f3c5",
);

const RESPONSE = content("Response", responseObject, { name: "response", value: examples.response });
const EVENTS = content("ResponseEvent", responseEvent, { name: "stream", value: examples.responseStream });
const IMAGES_CONTENT = content("Images", imagesResponse, { name: "images", value: examples.images });

export const OPERATIONS = {
  "GET /v1/models": describeRead({
    id: "listModels",
    family: "Models",
    summary: "List models",
    about:
      "The models that the key's group publishes. Send an `id` of this list as `model`, exactly as it is written.",
    response: content("ModelList", modelList, { name: "models", value: examples.models }),
  }),
  "GET /v1/models/{model}": describeRead({
    id: "getModel",
    family: "Models",
    summary: "Retrieve a model",
    about: "The id is the rest of the path and may contain slashes.",
    parameters: [parameter("path", "model", "A model's `id`.", "fast-chat")],
    response: content("Model", modelObject, { name: "model", value: examples.model }),
    errors: [...READ_ERRORS, "model_not_found"],
  }),
  "POST /v1/responses": describeModelRequest({
    id: "createResponse",
    family: "Responses",
    summary: "Create a response",
    about:
      "Takes text or a list of items and returns a response, streamed with `stream: true`. The same path accepts a WebSocket upgrade.",
    body: content(
      "ResponseRequest",
      responseRequest,
      { name: "text", value: examples.responseRequest },
      { name: "stream", value: { ...examples.responseRequest, stream: true } },
      { name: "tools", value: examples.responseWithTools },
    ),
    response: RESPONSE,
    stream: EVENTS,
    errors: RESPONSES_ERRORS,
  }),
  "GET /v1/responses": describeRead({
    id: "openResponsesSocket",
    family: "Responses",
    summary: "Open a WebSocket for responses",
    about:
      "Upgrades to a WebSocket (`ws://` or `wss://`). Each `response.create` message from the client is a separate request with its own id, limits and charge. The gateway sends the events of a streamed response, one JSON text frame per event. Errors are `error` frames with `status`, `error` and `headers`. A `GET` without an upgrade returns 426.",
    response: content("ResponseEvent", responseEvent, { name: "frame", value: examples.responseEvent }),
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
    summary: "Retrieve a response",
    about:
      "Returns a stored response to the key that created it, from the account that stores it or from the gateway.",
    parameters: [RESPONSE_ID],
    response: RESPONSE,
    errors: STORED_RESPONSE_ERRORS,
  }),
  "DELETE /v1/responses/{response_id}": describeRead({
    id: "deleteResponse",
    family: "Responses",
    summary: "Delete a response",
    about:
      "Deletes a stored response where it is stored: at its upstream, or in the gateway. A later response that continues it keeps its context.",
    parameters: [RESPONSE_ID],
    response: content("DeletedResponse", deletedResponse, {
      name: "deleted",
      value: examples.deletedResponse,
    }),
    errors: STORED_RESPONSE_ERRORS,
  }),
  "POST /v1/responses/{response_id}/cancel": describeRead({
    id: "cancelResponse",
    family: "Responses",
    summary: "Cancel a response",
    about: "Cancels a background response. Output generated until then is charged.",
    parameters: [RESPONSE_ID],
    response: content("Response", responseObject, {
      name: "cancelled",
      value: { ...examples.response, status: "cancelled" },
    }),
    errors: STORED_RESPONSE_ERRORS,
  }),
  "GET /v1/responses/{response_id}/input_items": describeRead({
    id: "listInputItems",
    family: "Responses",
    summary: "List input items",
    about: "Lists the input items of a stored response, paginated with `after`, `limit` and `order`.",
    parameters: [RESPONSE_ID],
    response: content("ItemList", itemList, { name: "items", value: examples.items }),
    errors: STORED_RESPONSE_ERRORS,
  }),
  "POST /v1/responses/input_tokens": describeModelRequest({
    id: "countInputTokens",
    family: "Responses",
    summary: "Count input tokens",
    about: "The upstream counts the tokens of the input without generating a response.",
    body: content("InputTokensRequest", inputTokensRequest, {
      name: "text",
      value: examples.responseRequest,
    }),
    response: content("InputTokens", inputTokensResponse, { name: "count", value: examples.inputTokens }),
    errors: RESPONSES_ERRORS,
  }),
  "POST /v1/responses/compact": describeModelRequest({
    id: "compactResponse",
    family: "Responses",
    summary: "Compact a conversation",
    about: "Send the returned `output` as the `input` of the next response.",
    body: content("CompactRequest", compactRequest, { name: "conversation", value: examples.compactRequest }),
    response: content("Compaction", compactionObject, { name: "compaction", value: examples.compaction }),
    errors: RESPONSES_ERRORS,
  }),
  "POST /v1/chat/completions": describeModelRequest({
    id: "createChatCompletion",
    family: "Chat Completions",
    summary: "Create a chat completion",
    about: "Takes the messages of a conversation and returns the next message, streamed with `stream: true`.",
    body: content(
      "ChatRequest",
      chatRequest,
      { name: "message", value: examples.chatRequest },
      { name: "stream", value: { ...examples.chatRequest, stream: true } },
    ),
    response: content("ChatCompletion", chatCompletion, { name: "response", value: examples.chatCompletion }),
    stream: content("ChatChunk", chatChunk, { name: "stream", value: examples.chatStream }),
    errors: [...MODEL_ERRORS, "context_length_exceeded"],
  }),
  "POST /v1/messages": describeModelRequest({
    id: "createMessage",
    family: "Messages",
    summary: "Create a message",
    about:
      "Anthropic's Messages API. Takes the messages of a conversation and returns the next message, streamed with `stream: true`. Send the key in `x-api-key` or as a bearer token. Errors have Anthropic's form.",
    body: content(
      "MessageRequest",
      messageRequest,
      { name: "message", value: examples.messageRequest },
      { name: "stream", value: { ...examples.messageRequest, stream: true } },
    ),
    response: content("Message", messageObject, { name: "response", value: examples.messageResponse }),
    stream: content("MessageEvent", messageEvent, { name: "stream", value: examples.messageStream }),
    errors: [...MODEL_ERRORS, "context_length_exceeded", "thread_not_found"],
  }),
  "POST /v1/messages/count_tokens": describeModelRequest({
    id: "countMessageTokens",
    family: "Messages",
    summary: "Count message tokens",
    about:
      "Counts the input tokens of a message without creating it. Free of charge. Counts as one request in the limits of the key, without tokens.",
    body: content("CountTokensRequest", countTokensRequest, {
      name: "message",
      value: examples.countTokensRequest,
    }),
    response: content("TokenCount", tokenCount, { name: "count", value: examples.tokenCount }),
    errors: [...MODEL_ERRORS, "context_length_exceeded"],
  }),
  ...GEMINI_OPERATIONS,
  "POST /v1/embeddings": describeModelRequest({
    id: "createEmbeddings",
    family: "Embeddings",
    summary: "Create embeddings",
    about: "Returns one vector per input, in the order of the inputs.",
    body: content(
      "EmbeddingsRequest",
      embeddingsRequest,
      { name: "text", value: examples.embeddingsRequest },
      { name: "texts", value: { ...examples.embeddingsRequest, input: ["One", "Two"] } },
    ),
    response: content("Embeddings", embeddingsResponse, { name: "vector", value: examples.embeddings }),
  }),
  "POST /v1/images/generations": describeModelRequest({
    id: "generateImages",
    family: "Images",
    summary: "Generate images",
    about:
      "For groups that publish image models. Images are returned in Base64, with partial images if `stream: true` is set.",
    body: content("ImageRequest", imageRequest, { name: "prompt", value: examples.imageRequest }),
    response: IMAGES_CONTENT,
    stream: content("ImageEvent", imageEvent, { name: "stream", value: examples.imageStream }),
  }),
  "POST /v1/images/edits": describeModelRequest({
    id: "editImages",
    family: "Images",
    summary: "Edit images",
    about:
      "Takes JSON with image URLs or data URLs, or a multipart form with files. A mask marks the areas to edit.",
    body: content("ImageEditRequest", imageEditRequest, {
      name: "image",
      value: examples.imageEditRequest,
    }),
    form: content("ImageEditForm", imageEditForm, { name: "form", value: examples.imageEditForm }),
    response: IMAGES_CONTENT,
    stream: content("ImageEvent", imageEvent, { name: "stream", value: examples.imageStream }),
  }),
  "GET /v1/usage": describeRead({
    id: "getUsage",
    family: "Usage",
    summary: "Get usage",
    about: "Cost, tokens and remaining limits of this key, by model and by day or hour.",
    parameters: [
      parameter("query", "from", "Start of the range: an ISO date or time, or Unix seconds.", "2026-11-01"),
      parameter("query", "to", "End of the range. A date includes the whole day.", "2026-11-15"),
      parameter("query", "granularity", "Length of one data point.", "day", ["hour", "day"]),
    ],
    response: content("UsageReport", usageReport, { name: "usage", value: examples.usage }),
    errors: [...READ_ERRORS, "invalid_value", "duplicate_parameter", "too_many_parameters"],
  }),
  "GET /v1/requests/{request_id}": describeRead({
    id: "getRequest",
    family: "Usage",
    summary: "Get a request",
    about:
      "Returns the queue time, attempts, tokens and itemized cost of a request, by the `x-request-id` of its response.",
    parameters: [
      parameter(
        "path",
        "request_id",
        "The `x-request-id` of a response to this key, or the `id` of a stored response that this key created.",
        "req_0199f3c5",
      ),
    ],
    response: content("RequestReport", requestReport, { name: "request", value: examples.request }),
    errors: [...READ_ERRORS, "request_not_found"],
  }),
  "GET /healthz": describeRead({
    id: "health",
    family: "Health",
    summary: "Get liveness",
    about: "Returns 200 while the process is running.",
    response: content("Health", health, { name: "ok", value: { status: "ok" } }),
    errors: [],
    needsKey: false,
  }),
  "GET /readyz": describeRead({
    id: "readiness",
    family: "Health",
    summary: "Get readiness",
    about:
      "Returns 200 if the database is reachable and the process is not shutting down, otherwise 503 with the same body. If several processes serve the port, it is about all of them.",
    response: content("Health", health, {
      name: "ready",
      value: { status: "ready", store: "ok", draining: false },
    }),
    errors: [],
    needsKey: false,
  }),
} as const satisfies Readonly<Record<string, Operation>>;

export type OperationName = keyof typeof OPERATIONS;
