/** The endpoints of Gemini's API. Those for embeddings stand with the others of their interface. */

import { paramError } from "../../errors.ts";
import { stringValue } from "../../json/scan.ts";
import { type BodyFields, defineEndpoint } from "../shared/endpoint.ts";
import { parseUsageMember } from "../shared/event-bounds.ts";
import type { TokenUsage } from "../shared/usage.ts";
import { countQueriesInCandidates, withQueries } from "../shared/web-searches.ts";
import { pick } from "./gemini-fields.ts";
import { openGeminiReader } from "./gemini-stream.ts";
import { readGeminiUsage } from "./gemini-usage.ts";
import { GOOGLE_API } from "./google-api.ts";

const COMMON = {
  interface: "gemini",
  api: GOOGLE_API,
  outputLimits: ["maxOutputTokens"],
  readUsage: readWholeGeminiUsage,
} as const;

const GENERATE = {
  ...COMMON,
  dialect: "gemini",
  output: "text",
  responseMember: "candidates",
  isBounded: true,
  checkContent: (_: Uint8Array, fields: BodyFields) => requireMember(fields, "contents"),
} as const;

export const GENERATE_CONTENT = defineEndpoint({
  ...GENERATE,
  name: "gemini.generate_content",
  path: "/models/{model}:generateContent",
  streaming: "never",
  failsIfEmpty: "always",
});

export const STREAM_GENERATE_CONTENT = defineEndpoint({
  ...GENERATE,
  name: "gemini.stream_generate_content",
  path: "/models/{model}:streamGenerateContent",
  streaming: "always",
  openReader: ({ publicModel, choices }, { depthMax, sink }) =>
    openGeminiReader({ publicModel, choices, depthMax, sink }),
});

export const GEMINI_COUNT_TOKENS = defineEndpoint({
  ...COMMON,
  name: "gemini.count_tokens",
  path: "/models/{model}:countTokens",
  output: "count",
  responseMember: "totalTokens",
  streaming: "never",
  checkContent(_, fields) {
    if (pick(fields, "generateContentRequest", "generate_content_request") === undefined)
      requireMember(fields, "contents");
  },
});

export function readWholeGeminiUsage(
  bytes: Uint8Array,
  { usageMetadata, candidates, modelVersion }: BodyFields,
): TokenUsage | null {
  if (usageMetadata?.kind !== "object") return null;
  return withQueries(
    readGeminiUsage(parseUsageMember(bytes, usageMetadata)),
    countQueriesInCandidates(bytes, candidates),
    modelVersion === undefined ? null : stringValue(bytes, modelVersion),
  );
}

/** Google accepts a single content in place of a list. */
export function requireMember(fields: BodyFields, name: "content" | "contents" | "requests"): void {
  const kind = fields[name]?.kind ?? "null";
  const isExpected = name === "content" ? kind === "object" : kind === "array";
  if (isExpected || (name === "contents" && kind === "object")) return;
  const expected = name === "content" ? "an object" : "an array";
  throw kind === "null"
    ? paramError(name, "missing_required_parameter", `Missing required parameter: \`${name}\` (${expected}).`)
    : paramError(name, "invalid_type", `Invalid type for \`${name}\`: expected ${expected}.`);
}
