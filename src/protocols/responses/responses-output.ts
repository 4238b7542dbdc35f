/** Reads the output of a Responses upstream: its items, and why it ended. */

import { withCitations } from "../hub/citations.ts";
import { unwrapCustomInput } from "../hub/custom-input.ts";
import type { ClientTool, ResponseReadOptions, ToolNames } from "../hub/dialect-codec.ts";
import type { HubPart, SearchItem } from "../hub/hub-request.ts";
import type { HubStop, OutputItem } from "../hub/hub-response.ts";
import { type Json, readObject, readObjects, readString } from "../hub/json-values.ts";
import type { ResponseBounds } from "../hub/response-bounds.ts";
import { readAnnotations } from "../openai/openai-annotations.ts";

export function readOutputItems(
  output: readonly Json[],
  bounds: ResponseBounds,
  options: ResponseReadOptions,
): OutputItem[] {
  return output.flatMap((item) => readOutputItem(item, bounds, options) ?? []);
}

/** Null for records of hosted tools that other dialects do not have. */
function readOutputItem(item: Json, bounds: ResponseBounds, options: ResponseReadOptions): OutputItem | null {
  const { toolNames, sealer, dropped } = options;
  switch (item.type) {
    case "message": {
      const parts = bounds.readList(item.content).flatMap((part) => readPart(part, bounds, options));
      return { kind: "message", role: "assistant", parts };
    }
    case "web_search_call":
      return readSearch(item, bounds);
    case "reasoning": {
      const content = joinTexts(item.content);
      const encrypted = readString(item.encrypted_content);
      return {
        kind: "reasoning",
        text: content === "" ? joinTexts(item.summary) : content,
        isSummary: content === "",
        opaque: encrypted === null ? null : sealer.seal({ field: "encrypted_content", value: encrypted }),
      };
    }
    case "function_call":
    case "custom_tool_call": {
      const tool = resolveCall(item, toolNames);
      const text = readString(item.type === "custom_tool_call" ? item.input : item.arguments) ?? "";
      const callId = readString(item.call_id) ?? readString(item.id) ?? "";
      const input = isWrappedCall(item, tool) ? unwrapCustomInput(text) : text;
      return { kind: "call", callId, ...tool, input, opaque: null };
    }
    default:
      dropped.add(`output.${readString(item.type) ?? "item"}`);
      return null;
  }
}

/** Opening a found page is a call of its own, without a query. */
export function readSearch({ action }: Json, bounds: ResponseBounds): SearchItem {
  const json = readObject(action);
  const urls = bounds.readList(json?.sources).flatMap(({ url }) => readString(url) ?? []);
  const page = readString(json?.url);
  if (page !== null) urls.push(page);
  const query = readString(json?.query) ?? "";
  bounds.addSearch(query);
  bounds.addAddresses(urls);
  return { kind: "search", query, urls };
}

/** A name that the request does not contain is passed on: the client reports it to the model. */
export function resolveCall(item: Json, toolNames: Pick<ToolNames, "resolve">): ClientTool {
  const name = readString(item.name) ?? "";
  return (
    toolNames.resolve(name) ?? {
      name,
      namespace: readString(item.namespace),
      tool: item.type === "custom_tool_call" ? "custom" : "function",
    }
  );
}

/** A function stands in for the custom tool. */
export function isWrappedCall(item: Json, { tool }: ClientTool): boolean {
  return tool === "custom" && item.type === "function_call";
}

export function readResponsesStop({ incomplete_details: details, status }: Json): HubStop {
  if (status === "completed") return "end";
  return readObject(details)?.reason === "content_filter" ? "filtered" : "length";
}

function readPart(part: Json, bounds: ResponseBounds, { dropped }: ResponseReadOptions): HubPart[] {
  const text = readString(part.text);
  const citations = readAnnotations(bounds.readList(part.annotations), dropped, bounds);
  noteLogprobs(part, dropped);
  if (text !== null) return [{ kind: "text", text, cacheHint: null, ...withCitations(citations) }];
  const refusal = readString(part.refusal);
  return refusal === null ? [] : [{ kind: "refusal", text: refusal }];
}

/** The log probabilities of a text, which other dialects have in other forms. */
export function noteLogprobs({ logprobs }: Json, dropped: ResponseReadOptions["dropped"]): void {
  if (Array.isArray(logprobs) && logprobs.length > 0) dropped.add("logprobs");
}

/** Of summaries or contents, as paragraphs. */
export function joinTexts(parts: unknown): string {
  return readObjects(parts)
    .map(({ text }) => readString(text) ?? "")
    .filter((text) => text !== "")
    .join("\n\n");
}
