/** `GET /v1/models` and `GET /v1/models/{id}`: the rows that admission reads, listed. */

import type { PolicyGroup, PublishedModel } from "../../policy/snapshot.ts";
import { INTERFACES, type Interface } from "../../records.ts";
import { modelNotFound } from "../admission/admit.ts";
import { type CodexModel, codexModels } from "./codex-models.ts";

interface ModelObject {
  id: string;
  object: "model";
  created: number;
  owned_by: string;
  /** What it can be called through, with this key. */
  interfaces: Interface[];
}

interface ModelList {
  object: "list";
  data: ModelObject[];
}

export function listModels(group: PolicyGroup): ModelList {
  return { object: "list", data: [...group.models.values()].map(modelObject) };
}

/** Codex names its version in the query, wants rows of its own beside the standard ones, and keeps the `ETag`. */
export function listModelsForCodex(group: PolicyGroup): ModelList & { models: CodexModel[] } {
  return { ...listModels(group), models: codexModels(group) };
}

export function computeEtag(list: ModelList): { etag: string } {
  return { etag: `"${Bun.hash.xxHash64(JSON.stringify(list)).toString(16)}"` };
}

export function getModel(group: PolicyGroup, id: string): ModelObject {
  const model = group.models.get(id);
  if (!model) throw modelNotFound(id);
  return modelObject(model);
}

/** The owner named is the gateway: which provider stands behind a model is not the caller's business. */
function modelObject(model: PublishedModel): ModelObject {
  return {
    id: model.id,
    object: "model",
    created: Math.floor(model.createdAtMs / 1000),
    owned_by: "model-gateway",
    interfaces: INTERFACES.filter((name) => model.routes.has(name)),
  };
}
