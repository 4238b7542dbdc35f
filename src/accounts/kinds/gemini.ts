/** Accounts of kind `gemini`: Google's Gemini API. */

import { GEMINI_PROFILE } from "../profiles.ts";
import { COMMON, geminiBase } from "./common.ts";
import type { KindDefinition } from "./kind-definition.ts";

export const gemini: KindDefinition = {
  ...COMMON,
  interfaces: ["gemini", "embeddings"],
  address: { from: "kind", baseUrl: "https://generativelanguage.googleapis.com" },
  apis: ["google"],
  profile: () => GEMINI_PROFILE,
  provider: "gcp.gemini",
  credentialHeader: (credential) => ["x-goog-api-key", credential],
  modelLists: ({ baseUrl, basePath }) => ({
    baseUrl,
    paths: [`${geminiBase(basePath)}/models?pageSize=1000`],
  }),
  // Google reports an invalid key as an invalid request, and a list of models has nothing else that could be invalid.
  listFailures: { 400: "refused" },
};
