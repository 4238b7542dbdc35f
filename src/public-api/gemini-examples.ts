/** Example requests and responses of the Gemini interface. Tests validate them and send the requests to a gateway. */

export const model = {
  name: "models/fast-chat",
  baseModelId: "fast-chat",
  version: "001",
  displayName: "fast-chat",
  description: "",
  inputTokenLimit: 128_000,
  outputTokenLimit: 16_384,
  supportedGenerationMethods: ["generateContent", "countTokens"],
};
export const models = { models: [model] };

export const request = {
  contents: [{ role: "user", parts: [{ text: "Say hello in one word." }] }],
  generationConfig: { maxOutputTokens: 200 },
};

export const requestWithTools = {
  contents: [{ role: "user", parts: [{ text: "What is the weather in Bern?" }] }],
  tools: [
    {
      functionDeclarations: [
        {
          name: "get_weather",
          description: "The weather of a place.",
          parametersJsonSchema: {
            type: "object",
            properties: { place: { type: "string" } },
            required: ["place"],
          },
        },
      ],
    },
  ],
};

export const response = {
  candidates: [{ content: { parts: [{ text: "Hello!" }], role: "model" }, finishReason: "STOP", index: 0 }],
  usageMetadata: { promptTokenCount: 6, candidatesTokenCount: 2, totalTokenCount: 8 },
  modelVersion: "fast-chat",
  responseId: "Zk9cad2hLZ6M7M8P",
};

const firstEvent = {
  ...response,
  candidates: [{ content: { parts: [{ text: "Hel" }], role: "model" }, index: 0 }],
};
const lastEvent = {
  ...response,
  candidates: [{ content: { parts: [{ text: "lo!" }], role: "model" }, finishReason: "STOP", index: 0 }],
};
export const stream = [firstEvent, lastEvent].map((event) => `data: ${JSON.stringify(event)}\n\n`).join("");

export const countRequest = { contents: request.contents };
export const count = { totalTokens: 6 };

export const embedRequest = { content: { parts: [{ text: "The quick brown fox" }] } };
export const embedding = { embedding: { values: [0.0023, -0.0093, 0.0157] } };
export const batchRequest = {
  requests: [
    { model: "models/embed-small", content: { parts: [{ text: "One" }] } },
    { model: "models/embed-small", content: { parts: [{ text: "Two" }] } },
  ],
};
export const batch = { embeddings: [embedding.embedding, embedding.embedding] };
