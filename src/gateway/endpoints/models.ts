/** `GET /v1/models` and `GET /v1/models/{id}`: lists the rows that admission reads. */

import { paramError } from "../../errors.ts";
import { type HttpResponse, SharedResponse } from "../../net/wire/http-message.ts";
import { jsonDocument, type StaticDocument } from "../../net/wire/static-document.ts";
import { listTranslated, type PolicyGroup, type PublishedModel } from "../../policy/snapshot.ts";
import { INTERFACES, type Interface } from "../../records/interfaces.ts";
import { modelNotFound } from "../admission/admit.ts";
import { type CodexModel, codexModels } from "./codex-models.ts";
import { WrittenList } from "./written-list.ts";

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

export function listModels(group: PolicyGroup): ModelList {
  const all = [...group.models.values()];
  const ends = pageEnds(all, { from: 0, to: all.length, hasMore: false });
  return { object: "list", data: all.map(modelObject), ...ends };
}

interface SelectedPage {
  /** The models from the first up to the second number. */
  readonly from: number;
  readonly to: number;
  readonly hasMore: boolean;
}

function selectPage(all: readonly PublishedModel[], { limit, afterId, beforeId }: ModelPage): SelectedPage {
  // An id that is not in the list any more starts from the beginning, or ends at the end.
  const start = afterId === null ? 0 : all.findIndex(({ id }) => id === afterId) + 1;
  const beforeAt = beforeId === null ? -1 : all.findIndex(({ id }) => id === beforeId);
  const end = Math.max(start, beforeAt === -1 ? all.length : beforeAt);
  const count = Math.min(end - start, limit ?? end - start);
  const isBackward = beforeId !== null && afterId === null;
  const from = isBackward ? end - count : start;
  return { from, to: from + count, hasMore: count < end - start };
}

function pageEnds(
  all: readonly PublishedModel[],
  { from, to, hasMore }: SelectedPage,
): Pick<ModelList, "has_more" | "first_id" | "last_id"> {
  const isEmpty = from === to;
  return {
    has_more: hasMore,
    first_id: isEmpty ? null : (all[from]?.id ?? null),
    last_id: isEmpty ? null : (all[to - 1]?.id ?? null),
  };
}

/** The lists of a group, each written when it is first requested. */
class ModelDocuments {
  readonly #group: PolicyGroup;
  readonly #models: readonly PublishedModel[];
  #whole: StaticDocument | null = null;
  #codex: StaticDocument | null = null;
  #list: WrittenList | null = null;

  constructor(group: PolicyGroup) {
    this.#group = group;
    this.#models = [...group.models.values()];
  }

  respond(page: ModelPage, requestId: string): HttpResponse {
    if (page.limit === null && page.afterId === null && page.beforeId === null) {
      this.#whole ??= jsonDocument(listModels(this.#group));
      return new SharedResponse(200, { ...JSON_TYPE, "x-request-id": requestId }, this.#whole.bytes);
    }
    this.#list ??= new WrittenList(this.#models.map(modelObject));
    const selected = selectPage(this.#models, page);
    const ends = JSON.stringify(pageEnds(this.#models, selected)).slice(1);
    return this.#list.respond(requestId, {
      ...selected,
      before: '{"object":"list","data":[',
      after: `],${ends}`,
    });
  }

  respondToCodex(requestId: string): HttpResponse {
    this.#codex ??= jsonDocument(listModelsForCodex(this.#group));
    const { bytes, etag } = this.#codex;
    return new SharedResponse(200, { ...JSON_TYPE, "x-request-id": requestId, etag }, bytes);
  }
}

const JSON_TYPE = { "content-type": "application/json" };

/** A change of the policy replaces the group. */
const documentsByGroup = new WeakMap<PolicyGroup, ModelDocuments>();

function lookUpDocuments(group: PolicyGroup): ModelDocuments {
  let documents = documentsByGroup.get(group);
  if (documents === undefined) {
    documents = new ModelDocuments(group);
    documentsByGroup.set(group, documents);
  }
  return documents;
}

export function respondWithModels(group: PolicyGroup, page: ModelPage, requestId: string): HttpResponse {
  return lookUpDocuments(group).respond(page, requestId);
}

/** Codex sends its version in the query, reads additional rows, and stores the `ETag`. */
export function respondWithModelsForCodex(group: PolicyGroup, requestId: string): HttpResponse {
  return lookUpDocuments(group).respondToCodex(requestId);
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

function listModelsForCodex(group: PolicyGroup): ModelList & { models: CodexModel[] } {
  return { ...listModels(group), models: codexModels(group) };
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
