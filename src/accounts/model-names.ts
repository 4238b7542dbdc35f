/** Reads the names of models from the lists of all vendors. */

import { isObject, parseJson } from "../json/parse.ts";

const NAME_CHARS_MAX = 256;

/**
 * Reads `{ "data": [{ "id": "…" }] }`, Google's `{ "models": [{ "name": "models/…" }] }`, the `publisherModels` of Vertex
 * AI, the inference profiles of Amazon Bedrock, and the list without an envelope of Together. Unusable names are omitted.
 */
export function readModelNames(body: Uint8Array): string[] {
  return readList(parseJson(body)).flatMap((entry: unknown) => {
    const id = isObject(entry) ? readModelId(entry) : null;
    return typeof id === "string" && id !== "" && id.length <= NAME_CHARS_MAX && !/[\s\p{C}]/u.test(id)
      ? id
      : [];
  });
}

function readModelId(entry: Record<string, unknown>): unknown {
  const { id, name, inferenceProfileId } = entry;
  if (inferenceProfileId !== undefined)
    return isClaudeProfile(inferenceProfileId) ? inferenceProfileId : null;
  if (typeof name !== "string" || id !== undefined) return id;
  const published = /^publishers\/(anthropic|google)\/models\/([^/]+)$/.exec(name);
  return published === null
    ? name.replace(/^models\//, "")
    : readPublished(published[1] ?? "", published[2] ?? "", entry.versionId);
}

/** Other models of Amazon Bedrock do not speak Messages. */
function isClaudeProfile(id: unknown): boolean {
  return typeof id === "string" && id.includes("anthropic.claude");
}

/** Google's list also has models for embeddings, images and video. Versions of Claude are part of its name. */
function readPublished(publisher: string, model: string, version: unknown): string | null {
  if (publisher === "google")
    return model.startsWith("gemini-") && !model.includes("embedding") ? model : null;
  return typeof version === "string" && /^\d{8}$/.test(version) && !model.includes("@")
    ? `${model}@${version}`
    : model;
}

function readList(value: unknown): readonly unknown[] {
  const list = isObject(value)
    ? (value.data ?? value.models ?? value.publisherModels ?? value.inferenceProfileSummaries)
    : value;
  return Array.isArray(list) ? list : [];
}
