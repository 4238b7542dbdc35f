/** Accounts of kind `gemini`: Google's Gemini API. */

import { GEMINI_PROFILE } from "../profiles.ts";
import { geminiBase, KIND_DEFAULTS } from "./kind-defaults.ts";
import type { KindDefinition } from "./kind-definition.ts";

export const gemini: KindDefinition = {
  ...KIND_DEFAULTS,
  interfaces: ["gemini", "embeddings"],
  address: { from: "kind", baseUrl: "https://generativelanguage.googleapis.com" },
  setup: { label: "Google Gemini", variable: "GEMINI_API_KEY" },
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
