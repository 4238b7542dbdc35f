/** The response object of the Responses API, as the gateway writes it for a client. */

import type { ClientTarget } from "../hub/dialect-codec.ts";
import type { HubStop } from "../hub/hub-response.ts";
import { type Json, readArray, readObject } from "../hub/json-values.ts";
import { formatTier } from "../shared/service-tier.ts";
import type { TokenUsage } from "../shared/usage.ts";
import { emptyResponse } from "./generated-events.ts";

/** Settings of the request that the response repeats, if they have a type that strict clients accept. */
const REPEATED: readonly (readonly [name: string, type: string])[] = [
  ["instructions", "string"],
  ["truncation", "string"],
  ["parallel_tool_calls", "boolean"],
  ["top_p", "number"],
  ["temperature", "number"],
  ["max_output_tokens", "number"],
  ["max_tool_calls", "number"],
  ["metadata", "object"],
  ["safety_identifier", "string"],
  ["prompt_cache_key", "string"],
];

/** The members of the response that do not change. */
export function buildResponseBase(client: ClientTarget, createdAtSeconds: number): Record<string, unknown> {
  const { original } = client.request;
  const base: Record<string, unknown> = {
    ...emptyResponse(client.publicModel, createdAtSeconds, ""),
    id: client.responseId,
    previous_response_id: client.previousResponseId,
    store: original.store !== false,
  };
  for (const [name, type] of REPEATED) if (typeof original[name] === type) base[name] = original[name] ?? {};
  base.tools = readArray(original.tools).map(completeTool);
  if (original.tool_choice != null) base.tool_choice = original.tool_choice;
  const text = readObject(original.text);
  if (text !== null) base.text = { format: { type: "text" }, ...text };
  const reasoning = readObject(original.reasoning);
  if (reasoning !== null) base.reasoning = { effort: null, summary: null, ...reasoning };
  return base;
}

/** Strict clients want members that a request may leave out. */
function completeTool(tool: unknown): unknown {
  const fields = readObject(tool);
  return fields?.type === "function"
    ? { description: null, parameters: null, strict: null, ...fields }
    : tool;
}

/** The members of a response that has ended. */
export function buildEnd(stop: HubStop, completedAtSeconds: number): Json {
  const reason = incompleteReason(stop);
  return reason === null
    ? { status: "completed", completed_at: completedAtSeconds }
    : { status: "incomplete", incomplete_details: { reason } };
}

export function incompleteReason(stop: HubStop): string | null {
  switch (stop) {
    case "length":
    case "context":
      return "max_output_tokens";
    case "filtered":
      return "content_filter";
    default:
      return null;
  }
}

export function writeUsage(usage: TokenUsage): Record<string, unknown> {
  return {
    ...(usage.tier === null ? {} : { service_tier: formatTier(usage.tier) }),
    usage: writeResponsesUsage(usage),
  };
}

function writeResponsesUsage(usage: TokenUsage): Record<string, unknown> {
  return {
    input_tokens: usage.inputTokens,
    input_tokens_details: {
      cached_tokens: usage.cachedTokens,
      cache_write_tokens: usage.cacheWriteTokens,
    },
    output_tokens: usage.outputTokens,
    output_tokens_details: { reasoning_tokens: usage.reasoningTokens },
    total_tokens: usage.inputTokens + usage.outputTokens,
  };
}
