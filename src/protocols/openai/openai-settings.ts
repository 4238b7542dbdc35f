/** The settings that Chat Completions and Responses have in common: read from a client, written for an upstream. */

import type { AccountProfile } from "../hub/account-profile.ts";
import type { WriteTarget } from "../hub/dialect-codec.ts";
import type { DroppedFields } from "../hub/dropped-fields.ts";
import {
  EFFORTS,
  type Effort,
  type HubFormat,
  type HubReasoning,
  type HubRequest,
  type HubSettings,
} from "../hub/hub-request.ts";
import {
  type Json,
  readBoolean,
  readNumber,
  readObject,
  readString,
  readStringMap,
} from "../hub/json-values.ts";
import { writeOpenaiTier, writeUser } from "../hub/vendor-settings.ts";
import { writeEffort } from "../hub/write-effort.ts";
import { readTierName } from "../shared/service-tier.ts";
import { classifyModel } from "./openai-models.ts";

export function readOpenaiSettings(json: Json) {
  return {
    temperature: readNumber(json.temperature),
    topP: readNumber(json.top_p),
    parallelCalls: readBoolean(json.parallel_tool_calls),
    serviceTier: readTierName(json.service_tier),
    promptCacheKey: readString(json.prompt_cache_key),
    promptCacheRetention: readString(json.prompt_cache_retention),
    ...(json.prompt_cache_options == null ? {} : { promptCacheOptions: json.prompt_cache_options }),
    safetyIdentifier: readString(json.safety_identifier),
    user: readString(json.user),
    metadata: readStringMap(json.metadata),
    cacheHint: null,
  } satisfies Partial<HubSettings>;
}

export function readEffort(value: unknown): Effort | null {
  return EFFORTS.find((effort) => effort === value) ?? null;
}

/** `schema` has the members of a JSON schema: Chat Completions has them in an object of their own. */
export function readOpenaiFormat(type: unknown, schema: Json): HubFormat | null {
  switch (type) {
    case "text":
      return { kind: "text" };
    case "json_object":
      return { kind: "json" };
    case "json_schema":
      return {
        kind: "json_schema",
        name: readString(schema.name) ?? "response",
        description: readString(schema.description),
        schema: readObject(schema.schema) ?? {},
        strict: readBoolean(schema.strict),
      };
    default:
      return null;
  }
}

export function writeSchemaFormat({
  name,
  description,
  schema,
  strict,
}: Extract<HubFormat, { kind: "json_schema" }>): Record<string, unknown> {
  return {
    name,
    ...(description === null ? {} : { description }),
    schema,
    ...(strict === null ? {} : { strict }),
  };
}

/** Collects the settings of a request. Those that the account does not support are dropped and named. */
class SettingsWriter {
  readonly fields: Record<string, unknown> = {};
  readonly #dropped: DroppedFields;

  constructor(dropped: DroppedFields) {
    this.#dropped = dropped;
  }

  set(name: string, value: unknown): void {
    if (value !== null && value !== undefined) this.fields[name] = value;
  }

  setIf(isSupported: boolean, name: string, value: unknown): void {
    if (isSupported) this.set(name, value);
    else this.#dropped.addIfSet(name, value);
  }
}

/** Only OpenAI itself and its resellers have settings of its platform. */
export function hasOpenaiSettings({ openaiSettings }: AccountProfile): boolean {
  return openaiSettings !== false;
}

/** Reasoning models reject sampling, penalties and stop sequences. */
function acceptsSampling({
  profile,
  upstreamModel,
}: Pick<WriteTarget, "profile" | "upstreamModel">): boolean {
  return profile.sampling && classifyModel(upstreamModel) !== "reasoning";
}

/** Null to leave the effort to the model. Other models than reasoning ones reject any effort. */
export function writeModelEffort(
  reasoning: HubReasoning,
  { profile, upstreamModel }: Pick<WriteTarget, "profile" | "upstreamModel">,
  dropped: DroppedFields,
): Effort | null {
  if (classifyModel(upstreamModel) !== "plain") return writeEffort(reasoning, profile, dropped);
  const { effort, budgetTokens } = reasoning;
  if (effort === null ? budgetTokens !== null : effort !== "none") dropped.add("reasoning.effort");
  return null;
}

export function writeOpenaiSettings(
  request: HubRequest,
  target: Pick<WriteTarget, "profile" | "upstreamModel">,
  dropped: DroppedFields,
): SettingsWriter {
  const { settings } = request;
  const writer = new SettingsWriter(dropped);
  const isOpenai = hasOpenaiSettings(target.profile);
  const isSampled = acceptsSampling(target);
  writer.setIf(isSampled, "temperature", settings.temperature);
  writer.setIf(isSampled, "top_p", settings.topP);
  writer.setIf(isOpenai, "service_tier", isOpenai ? writeOpenaiTier(request, dropped) : settings.serviceTier);
  writer.setIf(isOpenai, "prompt_cache_key", settings.promptCacheKey);
  writer.setIf(isOpenai, "prompt_cache_retention", settings.promptCacheRetention);
  writer.setIf(isOpenai, "prompt_cache_options", settings.promptCacheOptions);
  writer.setIf(isOpenai, "safety_identifier", settings.safetyIdentifier);
  writer.set("user", writeUser(request, dropped));
  return writer;
}
