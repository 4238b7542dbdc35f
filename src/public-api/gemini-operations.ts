/** The operations of the Gemini interface. Errors of these paths have Google's form. */

import {
  content,
  describeModelRequest,
  describeRead,
  MODEL_ERRORS,
  parameter,
  READ_ERRORS,
} from "./describe.ts";
import * as examples from "./gemini-examples.ts";
import type { Operation } from "./operation.ts";
import {
  geminiBatch,
  geminiBatchRequest,
  geminiCount,
  geminiCountRequest,
  geminiEmbedding,
  geminiEmbedRequest,
  geminiModel,
  geminiModelList,
  geminiRequest,
  geminiResponse,
} from "./schemas/gemini.ts";

const MODEL = parameter("path", "model", "A model's id.", "fast-chat");
const EMBEDDING_MODEL = parameter("path", "model", "A model's id.", "embed-small");
const SSE = parameter("query", "alt", "Streams are server-sent events.", "sse", ["sse"]);
const REQUEST = content(
  "GeminiRequest",
  geminiRequest,
  { name: "text", value: examples.request },
  { name: "tools", value: examples.requestWithTools },
);
const RESPONSE = content("GeminiResponse", geminiResponse, { name: "response", value: examples.response });
const ERRORS = [...MODEL_ERRORS, "context_length_exceeded"] as const;

/** A request whose model is in the path. Its idempotency key has no special form. */
function describeGemini(described: Parameters<typeof describeModelRequest>[0], model = MODEL): Operation {
  const operation = describeModelRequest({ errors: ERRORS, ...described });
  return { ...operation, parameters: [model, ...operation.parameters] };
}

const STREAM = describeGemini({
  id: "geminiStreamGenerateContent",
  family: "Gemini",
  summary: "Stream generated content",
  about:
    "Each server-sent event is a response with new parts. The last one has the finish reason and the usage.",
  body: REQUEST,
  response: RESPONSE,
  stream: content("GeminiResponse", geminiResponse, { name: "stream", value: examples.stream }),
});

export const GEMINI_OPERATIONS = {
  "GET /v1beta/models": describeRead({
    id: "geminiListModels",
    family: "Gemini",
    summary: "List models in Google's form",
    about: "The models of the key that a Gemini client can call, paginated with `pageSize` and `pageToken`.",
    parameters: [
      parameter("query", "pageSize", "The number of models of one page, at most 1000.", "50"),
      parameter("query", "pageToken", "The `nextPageToken` of the page before.", "50"),
    ],
    response: content("GeminiModelList", geminiModelList, { name: "models", value: examples.models }),
    errors: [...READ_ERRORS, "too_many_parameters"],
  }),
  "GET /v1beta/models/{model}": describeRead({
    id: "geminiGetModel",
    family: "Gemini",
    summary: "Retrieve a model in Google's form",
    about: "The id is the rest of the path and may contain slashes.",
    parameters: [MODEL],
    response: content("GeminiModel", geminiModel, { name: "model", value: examples.model }),
    errors: [...READ_ERRORS, "model_not_found"],
  }),
  "POST /v1beta/models/{model}:generateContent": describeGemini({
    id: "geminiGenerateContent",
    family: "Gemini",
    summary: "Generate content",
    about:
      "Google's API for the turns of a conversation. Send the key in `x-goog-api-key` or as a bearer token.",
    body: REQUEST,
    response: RESPONSE,
  }),
  "POST /v1beta/models/{model}:streamGenerateContent": {
    ...STREAM,
    parameters: [...STREAM.parameters, SSE],
  },
  "POST /v1beta/models/{model}:countTokens": describeGemini({
    id: "geminiCountTokens",
    family: "Gemini",
    summary: "Count tokens",
    about:
      "Counts the tokens of a request without generating a response. Free of charge. Counts as one request in the limits of the key, without tokens.",
    body: content("GeminiCountRequest", geminiCountRequest, { name: "text", value: examples.countRequest }),
    response: content("GeminiCount", geminiCount, { name: "count", value: examples.count }),
  }),
  "POST /v1beta/models/{model}:embedContent": describeGemini(
    {
      id: "geminiEmbedContent",
      family: "Gemini",
      summary: "Embed content",
      about: "Returns the vector of one content. Needs a model with the interface `embeddings`.",
      body: content("GeminiEmbedRequest", geminiEmbedRequest, { name: "text", value: examples.embedRequest }),
      response: content("GeminiEmbedding", geminiEmbedding, { name: "vector", value: examples.embedding }),
    },
    EMBEDDING_MODEL,
  ),
  "POST /v1beta/models/{model}:batchEmbedContents": describeGemini(
    {
      id: "geminiBatchEmbedContents",
      family: "Gemini",
      summary: "Embed several contents",
      about: "Returns one vector per request, in the order of the requests.",
      body: content("GeminiBatchRequest", geminiBatchRequest, {
        name: "texts",
        value: examples.batchRequest,
      }),
      response: content("GeminiBatch", geminiBatch, { name: "vectors", value: examples.batch }),
    },
    EMBEDDING_MODEL,
  ),
} as const satisfies Readonly<Record<string, Operation>>;
