/** Reads and writes whole Chat Completions responses. */

import { CallIds } from "../hub/call-ids.ts";
import { moveCitations, withCitations } from "../hub/citations.ts";
import { isCutInput } from "../hub/custom-input.ts";
import type { ClientTarget, ResponseReadOptions } from "../hub/dialect-codec.ts";
import type { CallItem } from "../hub/hub-request.ts";
import type { HubResponse, HubStop, OutputItem } from "../hub/hub-response.ts";
import { type Json, readNumber, readObject, readString } from "../hub/json-values.ts";
import { ResponseBounds } from "../hub/response-bounds.ts";
import { resolveStop } from "../hub/stream-events.ts";
import { REDACTED_NAME, SEARCH_NAME } from "../hub/turns.ts";
import { readAnnotations } from "../openai/openai-annotations.ts";
import { readUsage, withTier } from "../shared/usage.ts";
import { withImpliedSearch } from "../shared/web-searches.ts";
import { writeAnnotations } from "./chat-annotations.ts";
import { readCallInput, readChatCall, resolveCall } from "./chat-calls.ts";
import { type ContentText, noteLogprobs, noteMessageLosses, readContent } from "./chat-content.ts";
import { readStop } from "./chat-hub-reader.ts";
import { writeFinishReason } from "./chat-hub-writer.ts";
import { writeUsageMembers } from "./chat-usage.ts";

export function readChatResponse(json: Json, options: ResponseReadOptions): HubResponse | null {
  const bounds = new ResponseBounds();
  const choice = bounds.readFirstChoice(json.choices);
  const message = readObject(choice?.message);
  if (choice === undefined || message === null) return null;
  const responseId = readString(json.id);
  const stop = readStop(choice.finish_reason) ?? "end";
  noteLogprobs(choice, options.dropped);
  noteMessageLosses(message, options.dropped);
  const calls = readCalls(message, { callIds: new CallIds(responseId, bounds), bounds, stop }, options);
  return {
    responseId,
    createdAtSeconds: readNumber(json.created),
    items: [...readTexts(message, bounds, options), ...calls],
    stop: resolveStop(stop, calls.length > 0),
    stopSequence: null,
    usage: withImpliedSearch(withTier(readUsage(json.usage), json.service_tier), readString(json.model)),
  };
}

function readTexts(message: Json, bounds: ResponseBounds, { dropped }: ResponseReadOptions): OutputItem[] {
  const items: OutputItem[] = [];
  const texts = readContent(message.content, dropped, bounds);
  const reasoning =
    readString(message.reasoning_content) || readString(message.reasoning) || join(texts, "reasoning");
  if (reasoning) items.push({ kind: "reasoning", text: reasoning, isSummary: false, opaque: null });
  const text = join(texts, "text");
  const citations = readAnnotations(bounds.readList(message.annotations), dropped, bounds);
  if (text !== "") {
    const part = { kind: "text" as const, text, cacheHint: null, ...withCitations(citations) };
    items.push({ kind: "message", role: "assistant", parts: [part] });
  }
  const refusal = readString(message.refusal);
  if (refusal)
    items.push({ kind: "message", role: "assistant", parts: [{ kind: "refusal", text: refusal }] });
  return items;
}

function join(texts: readonly ContentText[], kind: ContentText["kind"]): string {
  return texts.flatMap((one) => (one.kind === kind ? [one.text] : [])).join("");
}

/** A call that the output limit cut off cannot be run, so it is left out. */
function readCalls(
  message: Json,
  { callIds, bounds, stop }: { callIds: CallIds; bounds: ResponseBounds; stop: HubStop },
  { toolNames }: ResponseReadOptions,
): CallItem[] {
  const legacy = readObject(message.function_call);
  const calls = [...bounds.readList(message.tool_calls), ...(legacy === null ? [] : [{ function: legacy }])];
  return calls.flatMap((json: Json) => {
    const call = readChatCall(json);
    if (call.name === null || (stop === "length" && !call.isCustom && isCutInput(call.text))) return [];
    const tool = resolveCall(toolNames, call);
    const input = readCallInput(tool, call);
    return [{ kind: "call" as const, callId: callIds.assign(json.id), ...tool, input, opaque: null }];
  });
}

export function writeChatResponse(response: HubResponse, client: ClientTarget): Record<string, unknown> {
  return {
    id: client.responseId,
    object: "chat.completion",
    created: response.createdAtSeconds ?? Math.floor(client.nowMs / 1000),
    model: client.publicModel,
    choices: [
      {
        index: 0,
        message: writeMessage(response.items, client),
        logprobs: null,
        finish_reason: writeFinishReason(response.stop),
      },
    ],
    ...(response.usage === null ? {} : writeUsageMembers(response.usage)),
  };
}

function writeMessage(items: readonly OutputItem[], { dropped }: ClientTarget): Record<string, unknown> {
  let content: string | null = null;
  let refusal: string | null = null;
  let reasoning = "";
  const calls: Record<string, unknown>[] = [];
  const annotations: object[] = [];
  for (const item of items) {
    if (item.kind === "reasoning") {
      if (item.isRedacted) dropped.add(REDACTED_NAME);
      reasoning += reasoning === "" || item.text === "" ? item.text : `\n\n${item.text}`;
    } else if (item.kind === "call") calls.push(writeCall(item));
    else if (item.kind === "search") dropped.add(SEARCH_NAME);
    else if (item.kind === "message")
      for (const part of item.parts) {
        if (part.kind === "text") {
          annotations.push(...writeAnnotations(moveCitations(part.citations ?? [], content?.length ?? 0)));
          content = (content ?? "") + part.text;
        } else if (part.kind === "refusal") refusal = (refusal ?? "") + part.text;
      }
  }
  return {
    role: "assistant",
    content,
    refusal,
    ...(annotations.length === 0 ? {} : { annotations }),
    ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
}

function writeCall({ callId, name, tool, input }: CallItem): Record<string, unknown> {
  return tool === "custom"
    ? { id: callId, type: "custom", custom: { name, input } }
    : { id: callId, type: "function", function: { name, arguments: input === "" ? "{}" : input } };
}
