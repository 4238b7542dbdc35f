/** Writes the settings of a Responses request. */

import type { WriteTarget } from "../hub/dialect-codec.ts";
import type { DroppedFields } from "../hub/dropped-fields.ts";
import type { HubFormat, HubRequest, HubSettings } from "../hub/hub-request.ts";
import { dropLogprobs, writeOpenaiTier, writeUser } from "../hub/vendor-settings.ts";
import { writeEffort } from "../hub/write-effort.ts";

/** The lowest limit that OpenAI accepts. */
const OUTPUT_TOKENS_MIN = 16;

export function writeResponsesSettings(
  request: HubRequest,
  target: WriteTarget,
  dropped: DroppedFields,
): Record<string, unknown> {
  const { profile } = target;
  const { settings, dialect } = request;
  const fields: Record<string, unknown> = {};
  const set = (name: string, value: unknown) => {
    if (value !== null && value !== undefined) fields[name] = value;
  };
  const setIf = (isSupported: boolean, name: string, value: unknown) => {
    if (isSupported) set(name, value);
    else dropped.addIfSet(name, value);
  };
  const isOpenai = profile.openaiSettings !== false;
  set("max_output_tokens", writeLimit(settings.outputTokensMax, target.outputTokensMax));
  setIf(profile.sampling, "temperature", settings.temperature);
  setIf(profile.sampling, "top_p", settings.topP);
  for (const [name, value] of unsupportedSettings(settings)) dropped.addIfSet(name, value);
  dropLogprobs(request, dropped);
  set("reasoning", writeReasoning(settings, target, dropped));
  set("text", writeText(settings, isOpenai));
  setIf(isOpenai, "service_tier", isOpenai ? writeOpenaiTier(request, dropped) : settings.serviceTier);
  setIf(isOpenai, "prompt_cache_key", settings.promptCacheKey);
  setIf(isOpenai, "prompt_cache_retention", settings.promptCacheRetention);
  setIf(isOpenai, "prompt_cache_options", settings.promptCacheOptions);
  setIf(isOpenai, "safety_identifier", settings.safetyIdentifier);
  set("user", writeUser(request, dropped));
  setIf(isOpenai, "metadata", settings.metadata);
  // A Chat client has no field to carry the state of reasoning.
  if (dialect !== "chat" && settings.reasoning?.effort !== "none" && isOpenai)
    set("include", ["reasoning.encrypted_content"]);
  return fields;
}

function unsupportedSettings(settings: HubSettings): readonly (readonly [string, unknown])[] {
  return [
    ["top_k", settings.topK],
    ["stop", settings.stop],
    ["seed", settings.seed],
    ["presence_penalty", settings.presencePenalty],
    ["frequency_penalty", settings.frequencyPenalty],
  ];
}

function writeLimit(clientMax: number | null, gatewayMax: number | null): number | null {
  const raised = clientMax === null ? null : Math.max(OUTPUT_TOKENS_MIN, clientMax);
  return raised === null || gatewayMax === null ? (raised ?? gatewayMax) : Math.min(raised, gatewayMax);
}

function writeReasoning(
  { reasoning }: HubSettings,
  { profile }: WriteTarget,
  dropped: DroppedFields,
): Record<string, unknown> | null {
  if (reasoning === null) return null;
  const effort = writeEffort(reasoning, profile, dropped);
  const fields = {
    ...(effort === null ? {} : { effort }),
    ...(reasoning.isShown ? { summary: "auto" } : {}),
  };
  return Object.keys(fields).length === 0 ? null : fields;
}

function writeText({ format, verbosity }: HubSettings, isOpenai: boolean): Record<string, unknown> | null {
  const fields = {
    ...(format === null || format.kind === "text" ? {} : { format: writeFormat(format) }),
    ...(verbosity === null || !isOpenai ? {} : { verbosity }),
  };
  return Object.keys(fields).length === 0 ? null : fields;
}

function writeFormat(format: Exclude<HubFormat, { kind: "text" }>): Record<string, unknown> {
  if (format.kind === "json") return { type: "json_object" };
  const { name, description, schema, strict } = format;
  return {
    type: "json_schema",
    name,
    ...(description === null ? {} : { description }),
    schema,
    ...(strict === null ? {} : { strict }),
  };
}
