/** Reads and writes whole messages. */

import { CallIds } from "../hub/call-ids.ts";
import { parseCallInput } from "../hub/call-input.ts";
import { unwrapCustomInput } from "../hub/custom-input.ts";
import type { ClientTarget, ResponseReadOptions } from "../hub/dialect-codec.ts";
import type { HubResponse, OutputItem } from "../hub/hub-response.ts";
import { type Json, readObjects, readString } from "../hub/json-values.ts";
import { readMessagesUsage } from "../shared/messages-usage.ts";
import { readStopReason, resolveStop, resolveTool } from "./messages-hub-reader.ts";
import { formatOpaque, writeStopReason } from "./messages-hub-writer.ts";
import { writeMessagesUsage } from "./messages-usage.ts";

export function readMessagesResponse(json: Json, options: ResponseReadOptions): HubResponse | null {
  if (!Array.isArray(json.content)) return null;
  const callIds = new CallIds(readString(json.id));
  const items = readObjects(json.content).flatMap((block) => readBlock(block, options, callIds));
  const hasCalls = items.some(({ kind }) => kind === "call");
  return {
    responseId: readString(json.id),
    createdAtSeconds: null,
    items,
    stop: resolveStop(readStopReason(json.stop_reason), { hasCalls }),
    stopSequence: readString(json.stop_sequence),
    usage: readMessagesUsage(json.usage),
  };
}

function readBlock(block: Json, { sealer, toolNames }: ResponseReadOptions, callIds: CallIds): OutputItem[] {
  switch (block.type) {
    case "text": {
      const text = readString(block.text) ?? "";
      return text === ""
        ? []
        : [{ kind: "message", role: "assistant", parts: [{ kind: "text", text, cacheHint: null }] }];
    }
    case "thinking": {
      const signature = readString(block.signature);
      const opaque = signature ? sealer.seal({ field: "signature", value: signature }) : null;
      return [{ kind: "reasoning", text: readString(block.thinking) ?? "", isSummary: false, opaque }];
    }
    case "redacted_thinking": {
      const data = readString(block.data) ?? "";
      const opaque = sealer.seal({ field: "redacted_thinking", value: data });
      return [{ kind: "reasoning", text: "", isSummary: false, opaque }];
    }
    case "tool_use": {
      const tool = resolveTool(toolNames, readString(block.name) ?? "");
      const json = JSON.stringify(block.input ?? {});
      const input = tool.tool === "custom" ? unwrapCustomInput(json) : json;
      return [{ kind: "call", callId: callIds.assign(block.id), ...tool, input, opaque: null }];
    }
    default:
      return [];
  }
}

export function writeMessagesResponse(response: HubResponse, client: ClientTarget): Record<string, unknown> {
  return {
    id: client.responseId,
    type: "message",
    role: "assistant",
    model: client.publicModel,
    content: response.items.flatMap(writeBlocks),
    stop_reason: writeStopReason(response.stop),
    stop_sequence: response.stopSequence,
    usage:
      response.usage === null
        ? { input_tokens: client.inputTokensEstimate, output_tokens: 0 }
        : writeMessagesUsage(response.usage),
  };
}

function writeBlocks(item: OutputItem): object[] {
  switch (item.kind) {
    case "message":
      return item.parts.flatMap((part) =>
        (part.kind === "text" || part.kind === "refusal") && part.text !== ""
          ? [{ type: "text", text: part.text }]
          : [],
      );
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
