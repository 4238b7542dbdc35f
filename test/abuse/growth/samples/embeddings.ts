/** Documents of Embeddings, in OpenAI's and in Google's API. */

import type { Sample } from "../sample.ts";

export interface PathSamples {
  /** The path of the request for a model. */
  path(model: string): string;
  readonly requests: readonly Sample[];
  readonly responses: readonly Sample[];
}

export const OPENAI_EMBEDDINGS: PathSamples = {
  path: () => "/v1/embeddings",
  requests: [
    {
      name: "texts",
      json: {
        input: ["Hello"],
        encoding_format: "float",
        dimensions: 3,
        user: "dev",
        task_type: "RETRIEVAL_QUERY",
      },
    },
    { name: "text", json: { input: "Hello" } },
    { name: "tokens", json: { input: [1] } },
    { name: "lists of tokens", json: { input: [[1]] } },
  ],
  responses: [
    {
      name: "vectors",
      json: {
        object: "list",
        data: [{ object: "embedding", index: 0, embedding: [0.1, 0.2, 0.3] }],
        model: "up",
        usage: { prompt_tokens: 1, total_tokens: 1 },
      },
    },
    {
      name: "encoded vectors",
      json: { object: "list", data: [{ index: 0, embedding: "AAAAAA==" }], model: "up" },
    },
  ],
};

export const GEMINI_EMBEDDINGS: PathSamples = {
  path: (model) => `/v1beta/models/${model}:embedContent`,
  requests: [
    {
      name: "content",
      json: {
        content: {
          role: "user",
          parts: [
            { text: "Hello", thoughtSignature: "c2ln" },
            { inlineData: { mimeType: "image/png", data: "aGVsbG8=" } },
            { functionCall: { name: "look_up" } },
            { functionResponse: { name: "look_up" } },
          ],
        },
        taskType: "RETRIEVAL_QUERY",
        title: "A",
        outputDimensionality: 3,
      },
    },
    { name: "text", json: { content: { parts: [{ text: "Hello" }] } } },
  ],
  responses: [
    {
      name: "vector",
      json: { embedding: { values: [0.1, 0.2, 0.3] }, usageMetadata: { promptTokenCount: 1 } },
    },
  ],
};

export const GEMINI_BATCH: PathSamples = {
  path: (model) => `/v1beta/models/${model}:batchEmbedContents`,
  requests: [
    {
      name: "batch",
      json: {
        requests: [{ content: { parts: [{ text: "Hello" }] }, taskType: "RETRIEVAL_QUERY", title: "A" }],
      },
    },
  ],
  responses: [
    {
      name: "vectors",
      json: { embeddings: [{ values: [0.1, 0.2, 0.3] }], usageMetadata: { promptTokenCount: 1 } },
    },
  ],
};
