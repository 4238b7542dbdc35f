/** Writes a request for an upstream with the Messages API. */

import { createHash } from "node:crypto";
import { dropCitations } from "../hub/citations.ts";
import { customToolSchema } from "../hub/custom-input.ts";
import type { WriteTarget, WrittenRequest } from "../hub/dialect-codec.ts";
import { DroppedFields } from "../hub/dropped-fields.ts";
import type {
  CacheHint,
  Effort,
  HubReasoning,
  HubRequest,
  HubSettings,
  HubTool,
  TextPart,
} from "../hub/hub-request.ts";
import { selectTools, type ToolSelection } from "../hub/select-tools.ts";
import { ToolNameTable } from "../hub/tool-names.ts";
import { unsupportedField } from "../hub/unsupported-field.ts";
import { dropLogprobs, dropPromptCacheKey } from "../hub/vendor-settings.ts";
import { findWebSearch, isSearchChoice, pickOptions, withoutWebSearch } from "../hub/web-search.ts";
import { limitBreakpoints, markLastBlock } from "./cache-breakpoints.ts";
import {
  acceptsBothSampling,
  acceptsFormat,
  acceptsSampling,
  apiVersion,
  thinkingStyle,
} from "./messages-models.ts";
import { writeInputSchema } from "./messages-schema.ts";
import { cacheControl, isBlank, MessagesTurnWriter, type WrittenTurns } from "./messages-turn-writer.ts";

const OUTPUT_TOKENS_DEFAULT = 32_000;
const BUDGET_MIN = 1_024;
const BUDGET_BY_EFFORT: Readonly<Partial<Record<Effort, number>>> = { low: 2_048, medium: 8_192 };
const BUDGET_HIGH = 16_384;
const AUTOMATIC_CACHE: CacheHint = { ttl: "5m" };

export function writeMessagesRequest(request: HubRequest, target: WriteTarget): WrittenRequest {
  const { settings } = request;
  const dropped = new DroppedFields(request.unread);
  dropCitations(request, dropped);
  if (settings.choices > 1) throw unsupportedField("n", "Send one request for each choice.");
  const names = new ToolNameTable(request.tools, request.items);
  const selection = selectTools(withoutWebSearch(request), dropped);
  const turns = new MessagesTurnWriter(target, names, dropped).write(request.items);
  const maxTokens = Math.min(
    settings.outputTokensMax ?? target.modelOutputTokensMax ?? OUTPUT_TOKENS_DEFAULT,
    target.outputTokensMax ?? Number.POSITIVE_INFINITY,
  );
  const format = writeFormat(request, target, dropped);
  const system = [...request.instructions, ...format.instructions]
    .filter(({ text }) => !isBlank(text))
    .map(({ text, cacheHint }) => ({ type: "text", text, ...cacheControl(cacheHint) }));
  const tools = [
    ...selection.tools.map((tool) => writeTool(tool, names, dropped)),
    ...writeWebSearch(request, target, dropped),
  ];
  const thinking = writeThinking(settings.reasoning, { target, turns, selection, maxTokens, dropped });
  const body: Record<string, unknown> = {
    model: target.upstreamModel,
    max_tokens: maxTokens,
    ...(system.length === 0 ? {} : { system }),
    messages: turns.messages,
    ...(tools.length === 0 ? {} : { tools, ...writeChoice(request, selection, names) }),
    ...(request.stream ? { stream: true } : {}),
    ...mergeConfig(thinking, format.config),
    ...writeSampling(request, target, { thinks: "thinking" in thinking, dropped }),
    ...writeStop(settings.stop, dropped),
    ...writeUser(settings.user ?? settings.safetyIdentifier),
    ...writeServiceTier(settings.serviceTier, dropped),
  };
  writeCacheHint(body, request, target);
  limitBreakpoints(body, dropped);
  dropSettings(request, dropped);
  const headers = { "anthropic-version": apiVersion(target.upstreamModel, target.profile) };
  return { body, headers, dropped: dropped.list(), toolNames: names };
}

const SEARCH_OPTIONS = ["max_uses", "allowed_domains", "blocked_domains", "user_location"] as const;

/** The counterpart of other vendors' web search is a tool of this API. */
function writeWebSearch(
  request: HubRequest,
  { webSearchesMax }: WriteTarget,
  dropped: DroppedFields,
): object[] {
  const search = findWebSearch(request);
  if (search === null) return [];
  const options = pickOptions(search, SEARCH_OPTIONS, dropped);
  const { max_uses: own } = options;
  const limit =
    webSearchesMax === null || (typeof own === "number" && own <= webSearchesMax)
      ? {}
      : { max_uses: webSearchesMax };
  return [{ type: "web_search_20250305", name: "web_search", ...options, ...limit }];
}

function writeTool(
  tool: Exclude<HubTool, { kind: "hosted" }>,
  names: ToolNameTable,
  dropped: DroppedFields,
): object {
  const schema = tool.kind === "custom" ? customToolSchema(tool) : (tool.parameters ?? {});
  if (tool.kind === "function" && tool.strict === true) dropped.add("tools.strict");
  return {
    name: names.upstreamName(tool.name, tool.namespace),
    ...(tool.description === null ? {} : { description: tool.description }),
    input_schema: writeInputSchema(schema, dropped),
    ...(tool.kind === "function" ? cacheControl(tool.cacheHint) : {}),
  };
}

function writeChoice(
  { settings, tools }: HubRequest,
  { choice }: ToolSelection,
  names: ToolNameTable,
): Record<string, unknown> {
  const single = settings.parallelCalls === false ? { disable_parallel_tool_use: true } : {};
  switch (choice?.kind) {
    case "none":
      return { tool_choice: { type: "none" } };
    case "required":
      return { tool_choice: { type: "any", ...single } };
    case "tool": {
      const isSearch = isSearchChoice(choice, tools);
      const name = isSearch ? "web_search" : names.upstreamName(choice.name, choice.namespace);
      return { tool_choice: { type: "tool", name, ...single } };
    }
    default:
      return settings.parallelCalls === false ? { tool_choice: { type: "auto", ...single } } : {};
  }
}

interface ThinkingContext {
  readonly target: WriteTarget;
  readonly turns: WrittenTurns;
  readonly selection: ToolSelection;
  readonly maxTokens: number;
  readonly dropped: DroppedFields;
}

function writeThinking(reasoning: HubReasoning | null, context: ThinkingContext): Record<string, unknown> {
  const { target, turns, selection, maxTokens, dropped } = context;
  const effort = reasoning?.effort ?? null;
  if (reasoning === null || effort === "none" || effort === "minimal") return {};
  const isForced = selection.choice?.kind === "required" || selection.choice?.kind === "tool";
  switch (thinkingStyle(target.upstreamModel, target.profile)) {
    case "adaptive":
      return {
        ...(isForced
          ? {}
          : { thinking: { type: "adaptive", display: reasoning.isShown ? "summarized" : "omitted" } }),
        ...(effort === null ? {} : { output_config: { effort } }),
      };
    case "budget": {
      const wanted = reasoning.budgetTokens ?? BUDGET_BY_EFFORT[effort ?? "medium"] ?? BUDGET_HIGH;
      const budget = Math.min(wanted, Math.floor(maxTokens / 2));
      // A turn with calls whose thinking was lost cannot be continued with thinking.
      if (isForced || turns.hasLostThinking || budget < BUDGET_MIN) {
        dropped.add("reasoning.effort");
        return {};
      }
      return { thinking: { type: "enabled", budget_tokens: budget } };
    }
    default:
      dropped.add("reasoning.effort");
      return {};
  }
}

interface WrittenFormat {
  readonly config: object | null;
  /** In place of a format that the model cannot enforce. */
  readonly instructions: readonly TextPart[];
}

function writeFormat(
  { settings: { format } }: HubRequest,
  { upstreamModel, profile }: WriteTarget,
  dropped: DroppedFields,
): WrittenFormat {
  if (format?.kind !== "json_schema") return { config: null, instructions: [] };
  const { schema } = format;
  if (acceptsFormat(upstreamModel, profile))
    return { config: { format: { type: "json_schema", schema } }, instructions: [] };
  dropped.add("strict");
  const text = `Respond with one JSON object that matches this JSON schema:\n${JSON.stringify(schema)}`;
  return { config: null, instructions: [{ kind: "text", text, cacheHint: null }] };
}

function mergeConfig(
  thinking: Readonly<Record<string, unknown>>,
  config: object | null,
): Readonly<Record<string, unknown>> {
  if (config === null) return thinking;
  const own = typeof thinking.output_config === "object" ? thinking.output_config : {};
  return { ...thinking, output_config: { ...own, ...config } };
}

function writeSampling(
  { settings }: HubRequest,
  { profile, upstreamModel }: WriteTarget,
  { thinks, dropped }: { readonly thinks: boolean; readonly dropped: DroppedFields },
): Record<string, unknown> {
  const { topK } = settings;
  const { temperature, topP } = selectSampling(settings, upstreamModel, dropped);
  const isSupported = profile.sampling && acceptsSampling(upstreamModel, profile) && !thinks;
  const fields: Record<string, unknown> = {};
  for (const [name, value] of [
    ["temperature", temperature === null ? null : Math.min(1, temperature)],
    ["top_p", topP],
    ["top_k", topK],
  ] as const) {
    if (value === null) continue;
    if (isSupported) fields[name] = value;
    else dropped.add(name);
  }
  return fields;
}

/** Of two settings the one that changes something is sent: clients write the neutral value 1 of the other. */
function selectSampling(
  { temperature, topP }: HubSettings,
  upstreamModel: string,
  dropped: DroppedFields,
): Pick<HubSettings, "temperature" | "topP"> {
  if (temperature === null || topP === null || acceptsBothSampling(upstreamModel))
    return { temperature, topP };
  const isTopPNeeded = temperature === 1 && topP !== 1;
  dropped.add(isTopPNeeded ? "temperature" : "top_p");
  return isTopPNeeded ? { temperature: null, topP } : { temperature, topP: null };
}

/** The API rejects sequences of white space alone. */
function writeStop(stop: HubSettings["stop"], dropped: DroppedFields): Record<string, unknown> {
  const accepted = stop?.filter((sequence) => !isBlank(sequence)) ?? [];
  if (accepted.length < (stop?.length ?? 0)) dropped.add("stop");
  return accepted.length === 0 ? {} : { stop_sequences: accepted };
}

/** Clients of other dialects cannot mark where to cache, so the upstream finds the place itself. */
function writeCacheHint(body: Record<string, unknown>, request: HubRequest, { profile }: WriteTarget): void {
  const hint = request.settings.cacheHint ?? (marksNothing(request, profile) ? AUTOMATIC_CACHE : null);
  if (hint === null) return;
  if (profile.automaticCache === false) markLastBlock(body, hint);
  else Object.assign(body, cacheControl(hint));
}

function marksNothing({ original }: HubRequest, { cache }: WriteTarget["profile"]): boolean {
  return cache === "explicit" && !JSON.stringify(original).includes('"cache_control"');
}

function dropSettings(request: HubRequest, dropped: DroppedFields): void {
  const { settings } = request;
  dropped.addIfSet("seed", settings.seed);
  dropped.addIfSet("presence_penalty", settings.presencePenalty || null);
  dropped.addIfSet("frequency_penalty", settings.frequencyPenalty || null);
  dropLogprobs(request, dropped);
  dropPromptCacheKey(request, dropped);
  dropped.addIfSet("verbosity", settings.verbosity);
  dropped.addIfSet("metadata", settings.metadata);
  if (settings.format?.kind === "json") dropped.add("response_format");
}

/** A digest, never the client's own text: it may be an e-mail address. */
function writeUser(user: string | null): Record<string, unknown> {
  if (user === null) return {};
  return { metadata: { user_id: createHash("sha256").update(user).digest("hex").slice(0, 32) } };
}

/** Tiers of other vendors have other prices: the request is served at the standard tier. */
function writeServiceTier(tier: string | null, dropped: DroppedFields): Record<string, unknown> {
  if (tier === "auto") return { service_tier: "auto" };
  if (tier === "default") return { service_tier: "standard_only" };
  dropped.addIfSet("service_tier", tier);
  return {};
}
