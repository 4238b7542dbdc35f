/** The lists of models of Amazon Bedrock and Google Vertex AI. */

import { jsonReply, NO_USAGE, type Reply } from "../reply.ts";

const PUBLISHER_LIST = /^\/v1beta1\/publishers\/(google|anthropic)\/models$/;

/** Null for a path that is not such a list. */
export function respondCloudList(path: string): Reply | null {
  if (path === "/inference-profiles") return jsonReply(JSON.stringify(inferenceProfiles()), NO_USAGE);
  const publisher = PUBLISHER_LIST.exec(path)?.[1];
  if (publisher === undefined) return null;
  const models = publisher === "google" ? GOOGLE_MODELS : CLAUDE_MODELS;
  return jsonReply(
    JSON.stringify({
      publisherModels: models.map(([name, versionId]) => ({
        name: `publishers/${publisher}/models/${name}`,
        versionId,
      })),
    }),
    NO_USAGE,
  );
}

const GOOGLE_MODELS = [
  ["gemini-2.5-flash", "default"],
  ["gemini-embedding-001", "default"],
  ["imagen-4.0-generate-001", "default"],
] as const;
const CLAUDE_MODELS = [
  ["claude-sonnet-4-5", "20250929"],
  ["claude-opus-5", "default"],
] as const;

function inferenceProfiles(): object {
  const ids = ["us.anthropic.claude-sonnet-4-5-20250929-v1:0", "us.amazon.nova-pro-v1:0"];
  return {
    inferenceProfileSummaries: ids.map((inferenceProfileId) => ({
      inferenceProfileId,
      inferenceProfileName: inferenceProfileId,
      status: "ACTIVE",
      type: "SYSTEM_DEFINED",
    })),
  };
}
