/** Writes output items of a response for a client. */

import type { ClientTarget } from "../hub/dialect-codec.ts";
import type {
  BuiltInTool,
  CallItem,
  Citation,
  HubPart,
  OpaqueState,
  ReasoningItem,
  SearchItem,
} from "../hub/hub-request.ts";
import { parseObject, readArray } from "../hub/json-values.ts";
import { opaqueText } from "../hub/sealed-state.ts";
import { writeUrlCitation } from "../openai/openai-annotations.ts";

type Item = Record<string, unknown>;
export type ItemStatus = "in_progress" | "completed" | "incomplete";

export function messageItem(id: string, status: ItemStatus, content: readonly Item[]): Item {
  return { id, type: "message", status, role: "assistant", content };
}

export function outputTextPart(text: string, citations: readonly Citation[] = []): Item {
  return { type: "output_text", text, annotations: citations.map(writeUrlCitation), logprobs: [] };
}

export function refusalPart(text: string): Item {
  return { type: "refusal", refusal: text };
}

export function writeOutputPart(part: HubPart): Item[] {
  if (part.kind === "text") return [outputTextPart(part.text, part.citations)];
  return part.kind === "refusal" ? [refusalPart(part.text)] : [];
}

/** All reasoning is written as a summary, which is what clients show. */
export function reasoningItem(
  id: string,
  { text, opaque }: Pick<ReasoningItem, "text" | "opaque">,
  { request }: ClientTarget,
): Item {
  return {
    id,
    type: "reasoning",
    summary: text === "" ? [] : [{ type: "summary_text", text }],
    ...encryptedContent(opaque, request.settings.wantsEncryptedReasoning),
  };
}

/** Reasoning without text is written for its state alone. */
export function isVisibleReasoning(
  { text, opaque }: Pick<ReasoningItem, "text" | "opaque">,
  { request }: ClientTarget,
): boolean {
  return text !== "" || (opaque !== null && request.settings.wantsEncryptedReasoning);
}

const SOURCES = "web_search_call.action.sources";

/** What the client's request says about items: read once, because both lists may be long. */
export interface ItemOptions {
  /** The pages that searches found are listed if the client requests them. */
  readonly listsSources: boolean;
  /** The built-in tools that functions stand in for, by the names of the functions. */
  readonly builtIns: ReadonlyMap<string, BuiltInTool>;
}

export function readItemOptions({ request }: ClientTarget): ItemOptions {
  const builtIns = new Map<string, BuiltInTool>();
  for (const tool of request.tools)
    if (tool.kind === "function" && tool.builtIn !== undefined && !builtIns.has(tool.name))
      builtIns.set(tool.name, tool.builtIn);
  return { listsSources: readArray(request.original.include).includes(SOURCES), builtIns };
}

export function searchItem(
  { id, query, urls, status }: Pick<SearchItem, "query" | "urls"> & { id: string; status: ItemStatus },
  { listsSources }: ItemOptions,
): Item {
  const sources = listsSources ? { sources: urls.map((url) => ({ type: "url", url })) } : {};
  return { id, type: "web_search_call", status, action: { type: "search", query, ...sources } };
}

function encryptedContent(opaque: OpaqueState | null, isWanted: boolean): Item {
  return opaque === null || !isWanted ? {} : { encrypted_content: opaqueText(opaque) };
}

export type StartedCall = Pick<CallItem, "callId" | "name" | "namespace" | "tool">;

/** The built-in tool that a function stands in for; null for the client's own tools. */
export function findBuiltIn({ name, namespace }: StartedCall, { builtIns }: ItemOptions): BuiltInTool | null {
  return namespace === null ? (builtIns.get(name) ?? null) : null;
}

export function callItem(id: string, call: StartedCall, input: string, status: ItemStatus): Item {
  const { callId, name, namespace, tool } = call;
  const space = namespace === null ? {} : { namespace };
  return tool === "custom"
    ? { id, type: "custom_tool_call", status, call_id: callId, ...space, name, input }
    : { id, type: "function_call", status, call_id: callId, ...space, name, arguments: input };
}

export function builtInCallItem(
  id: string,
  { callId }: StartedCall,
  { builtIn, input, status }: { builtIn: BuiltInTool; input: string; status: ItemStatus },
): Item {
  const action = parseObject(input) ?? {};
  const common = { id, status, call_id: callId };
  switch (builtIn) {
    case "tool_search":
      return { ...common, type: "tool_search_call", execution: "client", arguments: action };
    case "local_shell":
      return { ...common, type: "local_shell_call", action: { type: "exec", env: {}, ...action } };
    case "shell":
      return {
        ...common,
        type: "shell_call",
        action: { timeout_ms: null, max_output_length: null, ...action },
      };
    case "apply_patch":
      return { ...common, type: "apply_patch_call", operation: action };
  }
}
