/** `GET /v1/models` and `GET /v1/models/{id}`: lists the rows that admission reads. */

import type { PolicyGroup, PublishedModel } from "../../policy/snapshot.ts";
import { INTERFACES, type Interface } from "../../records.ts";
import { modelNotFound } from "../admission/admit.ts";
import { type CodexModel, codexModels } from "./codex-models.ts";

interface ModelObject {
  id: string;
  object: "model";
  created: number;
  owned_by: string;
  /** The interfaces that this key can use for the model. */
  interfaces: Interface[];
}

interface ModelList {
  object: "list";
  data: ModelObject[];
}

export function listModels(group: PolicyGroup): ModelList {
  return { object: "list", data: [...group.models.values()].map(modelObject) };
}

/** Codex sends its version in the query, reads additional rows, and stores the `ETag`. */
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

/** The owner is the gateway: clients must not learn which provider serves a model. */
function modelObject(model: PublishedModel): ModelObject {
  return {
    id: model.id,
    object: "model",
    created: Math.floor(model.createdAtMs / 1000),
    owned_by: "model-gateway",
    interfaces: INTERFACES.filter((name) => model.routes.has(name)),
  };
}
