/** Reads the output of a Responses upstream: its items, and why it ended. */

import { unwrapCustomInput } from "../hub/custom-input.ts";
import type { ClientTool, ResponseReadOptions, ToolNames } from "../hub/dialect-codec.ts";
import type { HubPart } from "../hub/hub-request.ts";
import type { HubStop, OutputItem } from "../hub/hub-response.ts";
import { type Json, readObject, readObjects, readString } from "../hub/json-values.ts";

export function readOutputItems(output: readonly Json[], options: ResponseReadOptions): OutputItem[] {
  return output.flatMap((item) => readOutputItem(item, options) ?? []);
}

/** Null for records of hosted tools, which other dialects do not have. */
function readOutputItem(item: Json, { toolNames, sealer }: ResponseReadOptions): OutputItem | null {
  switch (item.type) {
    case "message":
      return { kind: "message", role: "assistant", parts: readObjects(item.content).flatMap(readPart) };
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
      return null;
  }
}

/** A name that the request does not contain is passed on: the client reports it to the model. */
export function resolveCall(item: Json, toolNames: ToolNames): ClientTool {
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

function readPart(part: Json): HubPart[] {
  const text = readString(part.text);
  if (text !== null) return [{ kind: "text", text, cacheHint: null }];
  const refusal = readString(part.refusal);
  return refusal === null ? [] : [{ kind: "refusal", text: refusal }];
}

function joinTexts(parts: unknown): string {
  return readObjects(parts)
    .map(({ text }) => readString(text) ?? "")
    .filter((text) => text !== "")
    .join("\n\n");
}
