/** `GET /v1/models` and `GET /v1/models/{id}`: lists the rows that admission reads. */

import { paramError } from "../../errors.ts";
import { listTranslated, type PolicyGroup, type PublishedModel } from "../../policy/snapshot.ts";
import { INTERFACES, type Interface } from "../../records/interfaces.ts";
import { modelNotFound } from "../admission/admit.ts";
import { type CodexModel, codexModels } from "./codex-models.ts";

/** The fields of OpenAI's list and of Anthropic's: one list serves the clients of both. */
interface ModelObject {
  id: string;
  object: "model";
  type: "model";
  display_name: string;
  created: number;
  created_at: string;
  owned_by: string;
  /** The interfaces that this key can use for the model. */
  interfaces: Interface[];
  /** Those of them that no account of the model has itself: requests are translated. */
  translated_interfaces: Interface[];
}

interface ModelList {
  object: "list";
  data: ModelObject[];
  has_more: boolean;
  first_id: string | null;
  last_id: string | null;
}

/** Anthropic's SDKs read the list in pages. Clients that send none of these parameters get all of it. */
interface ModelPage {
  readonly limit: number | null;
  readonly afterId: string | null;
  readonly beforeId: string | null;
}

const WHOLE_LIST: ModelPage = { limit: null, afterId: null, beforeId: null };

export function listModels(group: PolicyGroup, page: ModelPage = WHOLE_LIST): ModelList {
  const all = [...group.models.values()];
  const { limit, afterId, beforeId } = page;
  // An id that is not in the list any more starts from the beginning, or ends at the end.
  const from = afterId === null ? 0 : all.findIndex(({ id }) => id === afterId) + 1;
  const beforeAt = beforeId === null ? -1 : all.findIndex(({ id }) => id === beforeId);
  const range = all.slice(from, beforeAt === -1 ? all.length : beforeAt);
  const isBackward = beforeId !== null && afterId === null;
  const shown = limit === null ? range : isBackward ? range.slice(-limit) : range.slice(0, limit);
  return {
    object: "list",
    data: shown.map(modelObject),
    has_more: shown.length < range.length,
    first_id: shown[0]?.id ?? null,
    last_id: shown.at(-1)?.id ?? null,
  };
}

const PAGE_MODELS_MAX = 1_000;

export function readModelPage(query: URLSearchParams): ModelPage {
  const limit = query.get("limit");
  if (
    limit !== null &&
    !(/^\d{1,4}$/.test(limit) && Number(limit) >= 1 && Number(limit) <= PAGE_MODELS_MAX)
  ) {
    throw paramError(
      "limit",
      "invalid_value",
      `\`limit\` must be a whole number from 1 to ${PAGE_MODELS_MAX}.`,
    );
  }
  return {
    limit: limit === null ? null : Number(limit),
    afterId: query.get("after_id"),
    beforeId: query.get("before_id"),
  };
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
  if (!model) throw modelNotFound(group, id);
  return modelObject(model);
}

/** The owner is the gateway: clients must not learn which provider serves a model. */
function modelObject(model: PublishedModel): ModelObject {
  return {
    id: model.id,
    object: "model",
    type: "model",
    display_name: model.id,
    created: Math.floor(model.createdAtMs / 1000),
    created_at: new Date(Math.floor(model.createdAtMs / 1000) * 1000).toISOString().replace(".000Z", "Z"),
    owned_by: "model-gateway",
    interfaces: INTERFACES.filter((name) => model.routes.has(name)),
    translated_interfaces: listTranslated(model),
  };
}
