/** `GET /v1beta/models` and `GET /v1beta/models/{model}`: the models of a key in Google's form. */

import type { HttpResponse } from "../../net/wire/http-message.ts";
import type { PolicyGroup, PublishedModel } from "../../policy/snapshot.ts";
import type { Interface } from "../../records/interfaces.ts";
import { modelNotFound } from "../admission/admit.ts";
import { WrittenList } from "./written-list.ts";

interface GeminiModel {
  name: string;
  baseModelId: string;
  version: string;
  displayName: string;
  description: string;
  inputTokenLimit?: number;
  outputTokenLimit?: number;
  /** The methods that this key can use for the model. */
  supportedGenerationMethods: readonly string[];
}

const METHODS: Readonly<Partial<Record<Interface, readonly string[]>>> = {
  gemini: ["generateContent", "countTokens"],
  embeddings: ["embedContent", "batchEmbedContents"],
};

const PAGE_MODELS_DEFAULT = 50;
const PAGE_MODELS_MAX = 1_000;

export interface GeminiPage {
  readonly pageSize: string | null;
  readonly pageToken: string | null;
}

/** The models that a Gemini client can call. */
interface GeminiList {
  readonly length: number;
  readonly written: WrittenList;
}

/** A change of the policy replaces the group. */
const listsByGroup = new WeakMap<PolicyGroup, GeminiList>();

/** The token of a page is the number of models before it. */
export function respondWithGeminiModels(
  group: PolicyGroup,
  { pageSize, pageToken }: GeminiPage,
  requestId: string,
): HttpResponse {
  const { length, written } = lookUpList(group);
  const from = Math.min(length, readCount(pageToken) ?? 0);
  const count = Math.min(PAGE_MODELS_MAX, readCount(pageSize) || PAGE_MODELS_DEFAULT);
  const to = Math.min(length, from + count);
  const next = to < length ? `,"nextPageToken":"${to}"` : "";
  return written.respond(requestId, { before: '{"models":[', from, to, after: `]${next}}` });
}

function lookUpList(group: PolicyGroup): GeminiList {
  const known = listsByGroup.get(group);
  if (known !== undefined) return known;
  const models = [...group.models.values()].filter((model) => listMethods(model).length > 0);
  const list = { length: models.length, written: new WrittenList(models.map(geminiModel)) };
  listsByGroup.set(group, list);
  return list;
}

export function getGeminiModel(group: PolicyGroup, id: string): GeminiModel {
  const model = group.models.get(id);
  if (!model) throw modelNotFound(group, id);
  return geminiModel(model);
}

function readCount(text: string | null): number | null {
  return text !== null && /^\d{1,6}$/.test(text) ? Number(text) : null;
}

function geminiModel(model: PublishedModel): GeminiModel {
  const { id, contextTokens, outputTokensMax } = model;
  return {
    name: `models/${id}`,
    baseModelId: id,
    version: "001",
    displayName: id,
    description: "",
    ...(contextTokens === null ? {} : { inputTokenLimit: contextTokens }),
    ...(outputTokensMax === null ? {} : { outputTokenLimit: outputTokensMax }),
    supportedGenerationMethods: listMethods(model),
  };
}

function listMethods({ routes }: PublishedModel): string[] {
  return [...routes.keys()].flatMap((iface) => METHODS[iface] ?? []);
}
