/** Writes a Chat Completions request for an upstream. */

import { lowest } from "../../base/lowest.ts";
import type { AccountProfile } from "../hub/account-profile.ts";
import { dropCitations } from "../hub/citations.ts";
import { customToolSchema } from "../hub/custom-input.ts";
import type { WriteTarget, WrittenRequest } from "../hub/dialect-codec.ts";
import { DroppedFields } from "../hub/dropped-fields.ts";
import type { HubRequest, HubTool } from "../hub/hub-request.ts";
import { formatCacheControl } from "../hub/media.ts";
import { selectTools } from "../hub/select-tools.ts";
import { ToolNameTable } from "../hub/tool-names.ts";
import { dropTopLogprobs } from "../hub/vendor-settings.ts";
import {
  findWebSearch,
  nestLocation,
  pickOptions,
  type WebSearch,
  withoutWebSearch,
} from "../hub/web-search.ts";
import { classifyModel } from "../openai/openai-models.ts";
import {
  hasOpenaiSettings,
  writeModelEffort,
  writeOpenaiSettings,
  writeSchemaFormat,
} from "../openai/openai-settings.ts";
import { isSearchModel } from "../shared/web-searches.ts";
import { writeChatMessages } from "./chat-message-writer.ts";

/** OpenAI rejects more. */
const STOP_SEQUENCES_MAX = 4;

export function writeChatRequest(request: HubRequest, target: WriteTarget): WrittenRequest {
  const { profile } = target;
  const dropped = new DroppedFields(request.unread);
  dropCitations(request, dropped);
  const names = new ToolNameTable(request.tools, request.items);
  const search = isSearchModel(target.upstreamModel) ? findWebSearch(request) : null;
  const selection = selectTools(search === null ? request : withoutWebSearch(request), dropped);
  const tools = selection.tools.map((tool) => writeTool(tool, profile, names, dropped));
  const format = writeFormat(request, profile, dropped);
  const body: Record<string, unknown> = {
    model: target.upstreamModel,
    messages: writeChatMessages(request, { target, names, dropped, formatText: format.text }),
    ...(tools.length === 0 ? {} : { tools }),
    ...(tools.length === 0 || selection.choice === null
      ? {}
      : { tool_choice: writeToolChoice(selection.choice, names, profile, request.tools) }),
    ...(tools.length === 0 ? {} : writeParallelCalls(request, profile, dropped)),
    ...(format.field === null ? {} : { response_format: format.field }),
    ...(search === null ? {} : { web_search_options: writeSearchOptions(search, dropped) }),
    ...writeSettings(request, target, dropped),
    stream: request.stream,
    ...(request.stream && profile.streamUsage === "option"
      ? { stream_options: { include_usage: true } }
      : {}),
  };
  return { body, headers: {}, dropped: dropped.list(), toolNames: names };
}

/** Only the search models of this API search, and they always do. */
function writeSearchOptions(search: WebSearch, dropped: DroppedFields): Record<string, unknown> {
  const { user_location: place, ...options } = pickOptions(
    search,
    ["search_context_size", "user_location"],
    dropped,
  );
  return { ...options, ...(place === undefined ? {} : { user_location: nestLocation(place) }) };
}

function writeTool(
  tool: Exclude<HubTool, { kind: "hosted" }>,
  profile: AccountProfile,
  names: ToolNameTable,
  dropped: DroppedFields,
): Record<string, unknown> {
  const name = names.upstreamName(tool.name, tool.namespace);
  const description = tool.description === null ? {} : { description: tool.description };
  if (tool.kind === "custom") {
    if (profile.customTools) return writeCustomTool(tool, name);
    return { type: "function", function: { name, ...description, parameters: customToolSchema(tool) } };
  }
  const isStrict = tool.strict === true && profile.strictSchema;
  if (tool.strict === true && !profile.strictSchema) dropped.add("tools.strict");
  const hint = tool.cacheHint === null || profile.cache !== "explicit" ? null : tool.cacheHint;
  return {
    type: "function",
    function: {
      name,
      ...description,
      parameters: tool.parameters ?? { type: "object", properties: {} },
      ...(isStrict ? { strict: true } : {}),
    },
    ...(hint === null ? {} : { cache_control: formatCacheControl(hint) }),
  };
}

function writeCustomTool(tool: Extract<HubTool, { kind: "custom" }>, name: string): Record<string, unknown> {
  const { description, grammar, grammarSyntax = "lark" } = tool;
  return {
    type: "custom",
    custom: {
      name,
      ...(description === null ? {} : { description }),
      ...(grammar === null
        ? {}
        : { format: { type: "grammar", grammar: { syntax: grammarSyntax, definition: grammar } } }),
    },
  };
}

function writeToolChoice(
  choice: NonNullable<ReturnType<typeof selectTools>["choice"]>,
  names: ToolNameTable,
  profile: AccountProfile,
  tools: readonly HubTool[],
): unknown {
  if (choice.kind !== "tool") return choice.kind;
  const name = names.upstreamName(choice.name, choice.namespace);
  const isCustom = tools.some((tool) => tool.kind === "custom" && tool.name === choice.name);
  return isCustom && profile.customTools
    ? { type: "custom", custom: { name } }
    : { type: "function", function: { name } };
}

function writeParallelCalls(
  { settings: { parallelCalls } }: HubRequest,
  { parallelTools }: AccountProfile,
  dropped: DroppedFields,
): Record<string, unknown> {
  if (parallelCalls === null) return {};
  if (parallelTools) return { parallel_tool_calls: parallelCalls };
  if (!parallelCalls) dropped.add("parallel_tool_calls");
  return {};
}

interface WrittenFormat {
  readonly field: Record<string, unknown> | null;
  /** Instructions for an upstream that cannot enforce the schema. */
  readonly text: string | null;
}

function writeFormat(
  { settings: { format } }: HubRequest,
  profile: AccountProfile,
  dropped: DroppedFields,
): WrittenFormat {
  if (format === null || format.kind === "text") return { field: null, text: null };
  if (format.kind === "json") return { field: { type: "json_object" }, text: null };
  if (profile.jsonSchema === "native")
    return { field: { type: "json_schema", json_schema: writeSchemaFormat(format) }, text: null };
  dropped.add("strict");
  return {
    field: { type: "json_object" },
    text: `Respond with one JSON object that matches this JSON schema:\n${JSON.stringify(format.schema)}`,
  };
}

function writeSettings(
  request: HubRequest,
  target: WriteTarget,
  dropped: DroppedFields,
): Record<string, unknown> {
  const { settings } = request;
  const { profile, outputTokensMax } = target;
  const writer = writeOpenaiSettings(request, target, dropped);
  const isStrict = isOpenaiItself(profile);
  writer.set(profile.maxTokensField, lowest(settings.outputTokensMax, outputTokensMax));
  writer.setIf(false, "top_k", settings.topK);
  const isSampled = classifyModel(target.upstreamModel) !== "reasoning";
  writer.setIf(isSampled, "stop", isSampled ? writeStop(settings.stop, profile, dropped) : settings.stop);
  writer.set("seed", settings.seed);
  writer.setIf(isSampled, "presence_penalty", settings.presencePenalty);
  writer.setIf(isSampled, "frequency_penalty", settings.frequencyPenalty);
  dropTopLogprobs(request, dropped);
  if (settings.reasoning !== null)
    writer.set("reasoning_effort", writeModelEffort(settings.reasoning, target, dropped));
  writer.setIf(isStrict, "verbosity", settings.verbosity);
  writer.setIf(isStrict, "metadata", settings.metadata);
  return writer.fields;
}

function isOpenaiItself(profile: AccountProfile): boolean {
  return hasOpenaiSettings(profile) && profile.strictSchema;
}

/** Servers of other vendors accept more sequences than OpenAI. */
function writeStop(
  stop: HubRequest["settings"]["stop"],
  profile: AccountProfile,
  dropped: DroppedFields,
): readonly string[] | null {
  if (stop === null || stop.length <= STOP_SEQUENCES_MAX || !isOpenaiItself(profile)) return stop;
  dropped.add("stop");
  return stop.slice(0, STOP_SEQUENCES_MAX);
}
