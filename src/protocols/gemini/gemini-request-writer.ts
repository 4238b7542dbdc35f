/** Writes a Gemini request for an upstream. */

import { lowest } from "../../base/lowest.ts";
import { dropCitations } from "../hub/citations.ts";
import { customToolSchema } from "../hub/custom-input.ts";
import type { ChangedToolName, ToolNames, WriteTarget, WrittenRequest } from "../hub/dialect-codec.ts";
import { DroppedFields } from "../hub/dropped-fields.ts";
import { EFFORTS, type Effort, type HubReasoning, type HubRequest } from "../hub/hub-request.ts";
import { selectTools, type ToolSelection } from "../hub/select-tools.ts";
import { ToolNameTable } from "../hub/tool-names.ts";
import { unsupportedField } from "../hub/unsupported-field.ts";
import { dropLogprobs, dropPromptCacheKey, dropUser } from "../hub/vendor-settings.ts";
import { findWebSearch, pickOptions, withoutWebSearch } from "../hub/web-search.ts";
import { budgetEffort } from "../hub/write-effort.ts";
import { writeContents } from "./gemini-contents-writer.ts";
import { isBefore, isPro, thinkingStyle } from "./gemini-models.ts";

type Json = Record<string, unknown>;

const STOP_SEQUENCES_MAX = 5;
const BUDGETS: Readonly<Record<Effort, number>> = {
  none: 0,
  minimal: 512,
  low: 2_048,
  medium: 8_192,
  high: 24_576,
  xhigh: 24_576,
  max: 24_576,
};
/** Models that cannot think less. */
const PRO_BUDGET_MIN = 128;

export function writeGeminiRequest(request: HubRequest, target: WriteTarget): WrittenRequest {
  const { upstreamModel } = target;
  if (request.settings.choices > 1) throw unsupportedField("n", "Send one request for each choice.");
  const dropped = new DroppedFields(request.unread);
  dropCitations(request, dropped);
  const names = new GeminiToolNames(request);
  const search = findWebSearch(request);
  const hasFunctions = request.tools.some(({ kind }) => kind !== "hosted");
  // Google cannot always run its search beside functions of the client.
  const usesSearch = search !== null && !hasFunctions;
  if (usesSearch) pickOptions(search, [], dropped);
  const selection = selectTools(usesSearch ? withoutWebSearch(request) : request, dropped);
  if (selection.tools.some((tool) => tool.kind === "function" && tool.strict === true))
    dropped.add("tools.strict");
  const format = writeFormat(request, { isBesideTools: selection.tools.length > 0, upstreamModel }, dropped);
  const instructions = [
    ...request.instructions.map(({ text }) => text),
    ...(format.text === null ? [] : [format.text]),
  ].filter((text) => text !== "");
  const config = { ...writeSettings(request, target, dropped), ...format.fields };
  const body: Json = {
    contents: writeContents(request, {
      target,
      dropped,
      upstreamName: (name, namespace) => names.upstreamName(name, namespace),
    }),
    ...(instructions.length === 0
      ? {}
      : { systemInstruction: { parts: instructions.map((text) => ({ text })) } }),
    ...writeTools(selection, names, usesSearch),
    ...(Object.keys(config).length === 0 ? {} : { generationConfig: config }),
    ...writeServiceTier(request.settings.serviceTier, dropped),
  };
  return { body, headers: {}, dropped: dropped.list(), toolNames: names };
}

/** Names of functions begin with a letter or an underscore. */
class GeminiToolNames implements ToolNames {
  readonly #table: ToolNameTable;

  constructor({ tools, items }: HubRequest) {
    this.#table = new ToolNameTable(tools, items);
  }

  upstreamName(name: string, namespace: string | null): string {
    const upstreamName = this.#table.upstreamName(name, namespace);
    return addUnderscore(upstreamName);
  }

  resolve(upstreamName: string): ReturnType<ToolNames["resolve"]> {
    return this.#table.resolve(upstreamName) ?? this.#table.resolve(upstreamName.replace(/^_/, ""));
  }

  listChanged(): ChangedToolName[] {
    return this.#table.listChanged(addUnderscore);
  }
}

function addUnderscore(name: string): string {
  return /^[A-Za-z_]/.test(name) ? name : `_${name}`.slice(0, 64);
}

function writeTools({ tools, choice }: ToolSelection, names: GeminiToolNames, usesSearch: boolean): Json {
  const functionDeclarations = tools.map((tool) => ({
    name: names.upstreamName(tool.name, tool.namespace),
    ...(tool.description === null ? {} : { description: tool.description }),
    ...writeParameters(tool),
  }));
  if (functionDeclarations.length === 0) return usesSearch ? { tools: [{ googleSearch: {} }] } : {};
  return {
    tools: [{ functionDeclarations }],
    ...(choice === null || choice.kind === "auto" ? {} : { toolConfig: writeToolChoice(choice, names) }),
  };
}

function writeParameters(tool: ToolSelection["tools"][number]): Json {
  if (tool.kind === "custom") return { parametersJsonSchema: customToolSchema(tool) };
  return tool.parameters === null ? {} : { parametersJsonSchema: tool.parameters };
}

function writeToolChoice(choice: NonNullable<ToolSelection["choice"]>, names: GeminiToolNames): Json {
  if (choice.kind === "none") return { functionCallingConfig: { mode: "NONE" } };
  const allowed = choice.kind === "tool" ? [names.upstreamName(choice.name, choice.namespace)] : [];
  return {
    functionCallingConfig: {
      mode: "ANY",
      ...(allowed.length === 0 ? {} : { allowedFunctionNames: allowed }),
    },
  };
}

interface WrittenFormat {
  readonly fields: Json;
  /** Instructions in place of a schema. */
  readonly text: string | null;
}

function writeFormat(
  { settings: { format } }: HubRequest,
  { isBesideTools, upstreamModel }: { readonly isBesideTools: boolean; readonly upstreamModel: string },
  dropped: DroppedFields,
): WrittenFormat {
  if (format === null || format.kind === "text") return { fields: {}, text: null };
  // Models before Gemini 3 reject a format beside functions.
  if (isBesideTools && isBefore(upstreamModel, 3)) {
    dropped.add("strict");
    const schema =
      format.kind === "json" ? "" : ` that matches this JSON schema:\n${JSON.stringify(format.schema)}`;
    return { fields: {}, text: `Respond with one JSON object${schema}` };
  }
  const responseMimeType = "application/json";
  return format.kind === "json"
    ? { fields: { responseMimeType }, text: null }
    : { fields: { responseMimeType, responseJsonSchema: format.schema }, text: null };
}

function writeSettings(
  request: HubRequest,
  { profile, outputTokensMax, upstreamModel }: WriteTarget,
  dropped: DroppedFields,
): Json {
  const { settings } = request;
  const fields: Json = {};
  const set = (name: string, value: unknown) => {
    if (value !== null && value !== undefined) fields[name] = value;
  };
  const tokensMax = lowest(settings.outputTokensMax, outputTokensMax);
  set("maxOutputTokens", tokensMax);
  if (profile.sampling) {
    set("temperature", settings.temperature);
    set("topP", settings.topP);
    set("topK", settings.topK);
  } else {
    dropped.addIfSet("temperature", settings.temperature);
    dropped.addIfSet("top_p", settings.topP);
    dropped.addIfSet("top_k", settings.topK);
  }
  set("stopSequences", settings.stop?.slice(0, STOP_SEQUENCES_MAX));
  if ((settings.stop?.length ?? 0) > STOP_SEQUENCES_MAX) dropped.add("stop");
  set("seed", settings.seed);
  set("presencePenalty", settings.presencePenalty);
  set("frequencyPenalty", settings.frequencyPenalty);
  if (settings.reasoning !== null)
    set(
      "thinkingConfig",
      writeThinking(
        settings.reasoning,
        { style: thinkingStyle(upstreamModel, profile), upstreamModel, tokensMax },
        dropped,
      ),
    );
  if (settings.parallelCalls === false) dropped.add("parallel_tool_calls");
  dropLogprobs(request, dropped);
  dropped.addIfSet("verbosity", settings.verbosity);
  dropped.addIfSet("metadata", settings.metadata);
  dropUser(request, dropped);
  dropPromptCacheKey(request, dropped);
  dropped.addIfSet("safety_identifier", settings.safetyIdentifier);
  return fields;
}

interface ThinkingTarget {
  readonly style: ReturnType<typeof thinkingStyle>;
  readonly upstreamModel: string;
  readonly tokensMax: number | null;
}

/** A level and a budget exclude each other. */
function writeThinking(
  { effort, budgetTokens, isShown }: HubReasoning,
  { style, upstreamModel, tokensMax }: ThinkingTarget,
  dropped: DroppedFields,
): Json | null {
  if (style === "none") {
    if (effort !== null && effort !== "none") dropped.add("reasoning.effort");
    return null;
  }
  const shown = isShown ? { includeThoughts: true } : {};
  const wanted = effort ?? (budgetTokens === null ? null : budgetEffort(budgetTokens));
  if (wanted === null) return isShown ? shown : null;
  if (style === "level") return { ...shown, thinkingLevel: writeLevel(wanted, upstreamModel) };
  const budget = effort === null && budgetTokens !== null ? budgetTokens : BUDGETS[wanted];
  // Thoughts count as output: at least half of the limit is left for the response.
  const affordable = tokensMax === null ? budget : Math.min(budget, Math.floor(tokensMax / 2));
  return {
    ...shown,
    thinkingBudget: isPro(upstreamModel) ? Math.max(PRO_BUDGET_MIN, affordable) : affordable,
  };
}

function writeLevel(effort: Effort, upstreamModel: string): string {
  const rank = EFFORTS.indexOf(effort);
  // The first model with levels knows two of them.
  if (/gemini-3-pro\b/.test(upstreamModel)) return rank >= EFFORTS.indexOf("medium") ? "HIGH" : "LOW";
  if (rank >= EFFORTS.indexOf("high")) return "HIGH";
  if (effort === "medium" || effort === "low") return effort.toUpperCase();
  return isPro(upstreamModel) ? "LOW" : "MINIMAL";
}

/** Tiers of other vendors have other prices: the request is served at the standard tier. */
function writeServiceTier(tier: string | null, dropped: DroppedFields): Json {
  if (tier === "flex" || tier === "priority") return { serviceTier: tier };
  if (tier !== "auto" && tier !== "default") dropped.addIfSet("service_tier", tier);
  return {};
}
