/** Writes the settings of a Responses request. */

import type { WriteTarget } from "../hub/dialect-codec.ts";
import { DIALECT_TRAITS } from "../hub/dialect-traits.ts";
import type { DroppedFields } from "../hub/dropped-fields.ts";
import type { HubFormat, HubRequest, HubSettings } from "../hub/hub-request.ts";
import { dropLogprobs } from "../hub/vendor-settings.ts";
import { classifyModel } from "../openai/openai-models.ts";
import {
  hasOpenaiSettings,
  writeModelEffort,
  writeOpenaiSettings,
  writeSchemaFormat,
} from "../openai/openai-settings.ts";

/** The lowest limit that OpenAI accepts. */
const OUTPUT_TOKENS_MIN = 16;

export function writeResponsesSettings(
  request: HubRequest,
  target: WriteTarget,
  dropped: DroppedFields,
): Record<string, unknown> {
  const { profile } = target;
  const { settings, dialect } = request;
  const writer = writeOpenaiSettings(request, target, dropped);
  const isOpenai = hasOpenaiSettings(profile);
  writer.set("max_output_tokens", writeLimit(settings.outputTokensMax, target.outputTokensMax));
  for (const [name, value] of unsupportedSettings(settings)) dropped.addIfSet(name, value);
  dropLogprobs(request, dropped);
  writer.set("reasoning", writeReasoning(settings, target, dropped));
  writer.set("text", writeText(settings, isOpenai));
  writer.setIf(isOpenai, "metadata", settings.metadata);
  const mayReason = settings.reasoning?.effort !== "none" && !isPlain(target);
  if (DIALECT_TRAITS[dialect].carriesState && mayReason && isOpenai)
    writer.set("include", ["reasoning.encrypted_content"]);
  return writer.fields;
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

/** The model rejects all settings of reasoning. */
function isPlain({ upstreamModel }: WriteTarget): boolean {
  return classifyModel(upstreamModel) === "plain";
}

function writeReasoning(
  { reasoning }: HubSettings,
  target: WriteTarget,
  dropped: DroppedFields,
): Record<string, unknown> | null {
  if (reasoning === null) return null;
  const effort = writeModelEffort(reasoning, target, dropped);
  const fields = {
    ...(effort === null ? {} : { effort }),
    ...(reasoning.isShown && !isPlain(target) ? { summary: "auto" } : {}),
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
  return format.kind === "json"
    ? { type: "json_object" }
    : { type: "json_schema", ...writeSchemaFormat(format) };
}
