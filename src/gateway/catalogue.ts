/** `GET /v1/models` and `GET /v1/models/{id}`: the rows that admission reads, listed. */

import type { Group, PublishedModel } from "../policy/snapshot.ts";
import { modelNotFound } from "./admit.ts";

interface ModelObject {
  id: string;
  object: "model";
  created: number;
  owned_by: string;
}

export function listModels(group: Group): { object: "list"; data: ModelObject[] } {
  return { object: "list", data: [...group.models.values()].map(modelObject) };
}

export function getModel(group: Group, id: string): ModelObject {
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
  };
}
