/** The endpoints for embeddings, which are one interface in the APIs of OpenAI and Google. */

import { readWholeGeminiUsage, requireMember } from "../gemini/gemini-endpoints.ts";
import { GOOGLE_API } from "../gemini/google-api.ts";
import { OPENAI_API } from "../openai/openai-api.ts";
import { readWholeUsage } from "../openai/openai-whole-usage.ts";
import { defineEndpoint } from "../shared/endpoint.ts";
import { requireKind } from "../shared/json-fields.ts";
import { packVectors } from "./vectors.ts";

const COMMON = { interface: "embeddings", output: "vector", streaming: "never" } as const;

export const EMBEDDINGS = defineEndpoint({
  ...COMMON,
  name: "embeddings",
  path: "/embeddings",
  api: OPENAI_API,
  vectorDialect: "gemini",
  responseMember: "data",
  checkContent: (_, { input }) => requireKind(input, "input", ["string", "array"], "a string or an array"),
  editWhole: ({ whole, fields, audience, depthMax }) =>
    fields.data?.kind === "array" && audience.wantsBase64
      ? packVectors(whole.bytes, fields.data, depthMax)
      : [],
  readUsage: readWholeUsage,
});

export const EMBED_CONTENT = defineEndpoint({
  ...COMMON,
  name: "gemini.embed_content",
  path: "/models/{model}:embedContent",
  api: GOOGLE_API,
  vectorDialect: "chat",
  responseMember: "embedding",
  checkContent: (_, fields) => requireMember(fields, "content"),
  readUsage: readWholeGeminiUsage,
});

export const BATCH_EMBED_CONTENTS = defineEndpoint({
  ...COMMON,
  name: "gemini.batch_embed_contents",
  path: "/models/{model}:batchEmbedContents",
  api: GOOGLE_API,
  vectorDialect: "chat",
  responseMember: "embeddings",
  checkContent: (_, fields) => requireMember(fields, "requests"),
  readUsage: readWholeGeminiUsage,
});
