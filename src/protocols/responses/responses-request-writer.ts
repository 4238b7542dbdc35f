/** Writes a Responses request for an upstream. */

import type { AccountProfile } from "../hub/account-profile.ts";
import { keepTexts } from "../hub/assistant-parts.ts";
import { customToolSchema, wrapCustomInput } from "../hub/custom-input.ts";
import type { WriteTarget, WrittenRequest } from "../hub/dialect-codec.ts";
import { DroppedFields } from "../hub/dropped-fields.ts";
import type {
  CallItem,
  CallOutputItem,
  HubItem,
  HubPart,
  HubRequest,
  HubTool,
  ReasoningItem,
} from "../hub/hub-request.ts";
import { formatMediaUrl } from "../hub/media.ts";
import { hostedTools, selectTools } from "../hub/select-tools.ts";
import { ToolNameTable } from "../hub/tool-names.ts";
import { SEARCH_NAME } from "../hub/turns.ts";
import { unsupportedField } from "../hub/unsupported-field.ts";
import { findWebSearch, isSearchChoice, pickOptions, withoutWebSearch } from "../hub/web-search.ts";
import { writeUrlCitation } from "../openai/openai-annotations.ts";
import { writeResponsesSettings } from "./responses-settings-writer.ts";

type Item = Record<string, unknown>;

interface ItemOptions {
  readonly target: WriteTarget;
  readonly names: ToolNameTable;
  readonly dropped: DroppedFields;
}

export function writeResponsesRequest(request: HubRequest, target: WriteTarget): WrittenRequest {
  if (request.settings.choices > 1) throw unsupportedField("n", "Send one request for each choice.");
  const dropped = new DroppedFields(request.unread);
  const names = new ToolNameTable(request.tools, request.items);
  const options: ItemOptions = { target, names, dropped };
  const native = hostedTools(request, "responses").map(({ json }) => json);
  const offered = { ...request, tools: request.tools.filter((tool) => !isNative(tool)) };
  const selection = selectTools(withoutWebSearch(offered), dropped);
  const tools = [
    ...selection.tools.map((tool) => writeTool(tool, options)),
    ...native,
    ...writeWebSearch(offered, dropped),
  ];
  const { instructions, input } = writeInput(request, options);
  const body: Record<string, unknown> = {
    model: target.upstreamModel,
    ...(instructions === "" ? {} : { instructions }),
    input,
    ...(tools.length === 0 ? {} : { tools }),
    ...(tools.length === 0 || selection.choice === null
      ? {}
      : { tool_choice: writeToolChoice(selection.choice, options, request.tools) }),
    ...(tools.length === 0 || request.settings.parallelCalls === null
      ? {}
      : { parallel_tool_calls: request.settings.parallelCalls }),
    ...(target.webSearchesMax === null || findWebSearch(request) === null
      ? {}
      : { max_tool_calls: target.webSearchesMax }),
    ...writeResponsesSettings(request, target, dropped),
    // The gateway keeps the conversation itself, because the next turn may go to another account.
    store: false,
    stream: request.stream,
  };
  return { body, headers: {}, dropped: dropped.list(), toolNames: names };
}

/** The API rejects an empty input: instructions alone are a message of the developer. */
function writeInput(
  request: HubRequest,
  options: ItemOptions,
): { readonly instructions: string; readonly input: readonly Item[] } {
  const instructions = request.instructions.map(({ text }) => text).join("\n\n");
  const input = request.items.flatMap((item) => writeItem(item, options));
  if (input.length > 0 || instructions === "") return { instructions, input };
  const content = [{ type: "input_text", text: instructions }];
  return { instructions: "", input: [{ type: "message", role: "developer", content }] };
}

/** The search of another dialect. */
function writeWebSearch(request: HubRequest, dropped: DroppedFields): Item[] {
  const search = findWebSearch(request);
  if (search === null) return [];
  const { allowed_domains, ...options } = pickOptions(search, SEARCH_OPTIONS, dropped);
  const filters = allowed_domains === undefined ? {} : { filters: { allowed_domains } };
  return [{ type: "web_search", ...filters, ...options }];
}

const SEARCH_OPTIONS = ["allowed_domains", "user_location", "search_context_size"] as const;

function isNative(tool: HubTool): boolean {
  return tool.kind === "hosted" && tool.dialect === "responses";
}

function writeItem(item: HubItem, options: ItemOptions): Item[] {
  switch (item.kind) {
    case "message": {
      const role = item.role === "system" ? "developer" : item.role;
      const parts = role === "assistant" ? keepTexts(item.parts, options.dropped) : item.parts;
      return [{ type: "message", role, content: parts.map((part) => writePart(part, item.role)) }];
    }
    case "reasoning":
      return writeReasoning(item, options);
    case "call":
      return [writeCall(item, options)];
    case "call_output":
      return [writeOutput(item, options)];
    // The id of the upstream's own record is not known, so the record cannot be sent back.
    case "search":
      options.dropped.add(SEARCH_NAME);
      return [];
    case "foreign":
      if (item.dialect === "responses") return [{ ...asRecord(item.json) }];
      options.dropped.add(item.path);
      return [];
  }
}

function asRecord(json: unknown): Record<string, unknown> {
  return typeof json === "object" && json !== null ? { ...json } : {};
}

/** Reasoning without the state that the account itself issued cannot be sent back. */
function writeReasoning({ text, opaque }: ReasoningItem, { target, dropped }: ItemOptions): Item[] {
  const state = opaque === null ? null : target.sealer.open(opaque);
  if (state?.field !== "encrypted_content") {
    dropped.add(opaque === null ? "reasoning" : "reasoning.state");
    return [];
  }
  const summary = text === "" ? [] : [{ type: "summary_text", text }];
  return [{ type: "reasoning", summary, encrypted_content: state.value }];
}

function writeCall(call: CallItem, { names, target }: ItemOptions): Item {
  const { callId, name, namespace, tool, input } = call;
  const upstreamName = names.upstreamName(name, namespace);
  if (tool === "custom" && target.profile.customTools)
    return { type: "custom_tool_call", call_id: callId, name: upstreamName, input };
  const text = tool === "custom" ? wrapCustomInput(input) : input === "" ? "{}" : input;
  return { type: "function_call", call_id: callId, name: upstreamName, arguments: text };
}

function writeOutput({ callId, tool, parts, isError }: CallOutputItem, { target }: ItemOptions): Item {
  const isCustom = tool === "custom" && target.profile.customTools;
  const texts = parts.every(({ kind }) => kind === "text");
  const text = parts.flatMap((part) => (part.kind === "text" ? [part.text] : [])).join("\n");
  return {
    type: isCustom ? "custom_tool_call_output" : "function_call_output",
    call_id: callId,
    output: texts ? (isError ? `Error: ${text}` : text) : parts.map((part) => writePart(part, "user")),
  };
}

function writePart(part: HubPart, role: "user" | "assistant" | "system"): Item {
  switch (part.kind) {
    case "text":
      return role === "assistant"
        ? {
            type: "output_text",
            text: part.text,
            annotations: (part.citations ?? []).map(writeUrlCitation),
          }
        : { type: "input_text", text: part.text };
    case "refusal":
      return { type: "refusal", refusal: part.text };
    case "image": {
      const url = formatMediaUrl(part.source);
      if (url === null) throw unsupportedField("image", "Send the image as a data URL.");
      return { type: "input_image", image_url: url, detail: part.detail ?? "auto" };
    }
    case "file":
      if (part.source.kind === "file_id") throw unsupportedField("file", "Send the file as a data URL.");
      return part.source.kind === "url"
        ? { type: "input_file", file_url: part.source.url }
        : {
            type: "input_file",
            filename: part.filename ?? "file",
            file_data: formatMediaUrl(part.source),
          };
    case "audio":
      throw unsupportedField("input_audio", "Send the text of the recording instead.");
  }
}

function writeTool(
  tool: Exclude<HubTool, { kind: "hosted" }>,
  { names, target, dropped }: ItemOptions,
): Item {
  const name = names.upstreamName(tool.name, tool.namespace);
  const description = tool.description === null ? {} : { description: tool.description };
  if (tool.kind === "function") return writeFunction(tool, name, target.profile, dropped);
  if (!target.profile.customTools)
    return { type: "function", name, ...description, parameters: customToolSchema(tool), strict: false };
  const { grammar, grammarSyntax = "lark" } = tool;
  const format =
    grammar === null ? {} : { format: { type: "grammar", syntax: grammarSyntax, definition: grammar } };
  return { type: "custom", name, ...description, ...format };
}

function writeFunction(
  tool: Extract<HubTool, { kind: "function" }>,
  name: string,
  profile: AccountProfile,
  dropped: DroppedFields,
): Item {
  if (tool.strict === true && !profile.strictSchema) dropped.add("tools.strict");
  return {
    type: "function",
    name,
    ...(tool.description === null ? {} : { description: tool.description }),
    parameters: tool.parameters ?? { type: "object", properties: {} },
    // Responses defaults to strict, Chat does not: the schema of the client may not be strict.
    strict: tool.strict === true && profile.strictSchema,
  };
}

function writeToolChoice(
  choice: NonNullable<ReturnType<typeof selectTools>["choice"]>,
  { names, target }: ItemOptions,
  tools: readonly HubTool[],
): unknown {
  if (choice.kind !== "tool") return choice.kind;
  if (isSearchChoice(choice, tools)) return { type: "web_search" };
  const isCustom = tools.some((tool) => tool.kind === "custom" && tool.name === choice.name);
  const type = isCustom && target.profile.customTools ? "custom" : "function";
  return { type, name: names.upstreamName(choice.name, choice.namespace) };
}
