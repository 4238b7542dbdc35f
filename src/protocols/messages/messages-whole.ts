/** Reads and writes whole messages. */

import { CallIds } from "../hub/call-ids.ts";
import { parseCallInput } from "../hub/call-input.ts";
import { ANNOTATIONS, withCitations } from "../hub/citations.ts";
import { unwrapCustomInput } from "../hub/custom-input.ts";
import type { ClientTarget, ResponseReadOptions } from "../hub/dialect-codec.ts";
import type { HubResponse, OutputItem } from "../hub/hub-response.ts";
import { type Json, readObject, readString } from "../hub/json-values.ts";
import { ResponseBounds } from "../hub/response-bounds.ts";
import { resolveStop } from "../hub/stream-events.ts";
import { resolveTool } from "../hub/tool-names.ts";
import { SEARCH_NAME } from "../hub/turns.ts";
import { readStopReason } from "./messages-hub-reader.ts";
import { formatOpaque, writeStopReason } from "./messages-hub-writer.ts";
import { isSearchCall, readCitations, Searches } from "./messages-sources.ts";
import { readMessagesUsage, writeMessagesUsage } from "./messages-usage.ts";

export function readMessagesResponse(json: Json, options: ResponseReadOptions): HubResponse | null {
  if (!Array.isArray(json.content)) return null;
  const bounds = new ResponseBounds();
  const callIds = new CallIds(readString(json.id), bounds);
  const searches = new Searches(bounds);
  const blocks = bounds
    .readList(json.content)
    .flatMap((block) => readBlock(block, options, { bounds, callIds, searches }));
  const items = [...blocks, ...searches.takeOpen()];
  for (const _ of items) bounds.addItem();
  const hasCalls = items.some(({ kind }) => kind === "call");
  return {
    responseId: readString(json.id),
    createdAtSeconds: null,
    items,
    stop: resolveStop(readStopReason(json.stop_reason), hasCalls),
    stopSequence: readString(json.stop_sequence),
    usage: readMessagesUsage(json.usage),
  };
}

interface ReadState {
  readonly bounds: ResponseBounds;
  readonly callIds: CallIds;
  readonly searches: Searches;
}

function readBlock(
  block: Json,
  { sealer, toolNames, dropped }: ResponseReadOptions,
  { bounds, callIds, searches }: ReadState,
): OutputItem[] {
  switch (block.type) {
    case "text": {
      const text = readString(block.text) ?? "";
      if (text === "") return [];
      const onDropped = () => dropped.add("citations");
      const citations = readCitations(block, text.length, { bounds, onDropped });
      const part = { kind: "text" as const, text, cacheHint: null, ...withCitations(citations) };
      return [{ kind: "message", role: "assistant", parts: [part] }];
    }
    case "thinking": {
      const signature = readString(block.signature);
      const opaque = signature ? sealer.seal({ field: "signature", value: signature }) : null;
      return [{ kind: "reasoning", text: readString(block.thinking) ?? "", isSummary: false, opaque }];
    }
    case "redacted_thinking": {
      const data = readString(block.data) ?? "";
      const opaque = sealer.seal({ field: "redacted_thinking", value: data });
      return [{ kind: "reasoning", text: "", isSummary: false, isRedacted: true, opaque }];
    }
    case "tool_use": {
      const tool = resolveTool(toolNames, readString(block.name) ?? "");
      const json = JSON.stringify(block.input ?? {});
      const input = tool.tool === "custom" ? unwrapCustomInput(json) : json;
      return [{ kind: "call", callId: callIds.assign(block.id), ...tool, input, opaque: null }];
    }
    case "web_search_tool_result":
      return [searches.addResult(block)];
    default:
      if (isSearchCall(block)) searches.addCall(block.id, readObject(block.input));
      else dropped.add(`output.${readString(block.type) ?? "block"}`);
      return [];
  }
}

export function writeMessagesResponse(response: HubResponse, client: ClientTarget): Record<string, unknown> {
  return {
    id: client.responseId,
    type: "message",
    role: "assistant",
    model: client.publicModel,
    content: orderItems(response.items).flatMap((item) => writeBlocks(item, client)),
    stop_reason: writeStopReason(response.stop),
    stop_sequence: response.stopSequence,
    usage:
      response.usage === null
        ? { input_tokens: client.inputTokensEstimate, output_tokens: 0 }
        : writeMessagesUsage(response.usage),
  };
}

/** State that follows a text moves in front of it: a message does not end with thinking. */
function orderItems(items: readonly OutputItem[]): readonly OutputItem[] {
  const at = items.findLastIndex((item) => item.kind === "reasoning" && item.text === "");
  const [before, state] = items.slice(Math.max(0, at - 1), at + 1);
  const rest = items.slice(at + 1);
  if (before?.kind !== "message" || state === undefined || rest.some(({ kind }) => kind === "call"))
    return items;
  return [...items.slice(0, at - 1), state, before, ...rest];
}

/** Citations and results of searches need a state that only Anthropic issues, so they are dropped. */
function writeBlocks(item: OutputItem, { dropped }: ClientTarget): object[] {
  switch (item.kind) {
    case "message":
      return item.parts.flatMap((part) => {
        if (part.kind !== "text" && part.kind !== "refusal") return [];
        if (part.kind === "text" && part.citations) dropped.add(ANNOTATIONS);
        return part.text === "" ? [] : [{ type: "text", text: part.text }];
      });
    case "search":
      dropped.add(SEARCH_NAME);
      return [];
    case "reasoning":
      return item.text === "" && item.opaque === null
        ? []
        : [{ type: "thinking", thinking: item.text, signature: formatOpaque(item.opaque) }];
    case "call":
      return [{ type: "tool_use", id: item.callId, name: item.name, input: parseCallInput(item.input) }];
    case "foreign":
      return [];
  }
}
