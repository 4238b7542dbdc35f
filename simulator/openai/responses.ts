/** The Responses interface of the simulator. */

import type { Call } from "../endpoint.ts";
import { createRejection, invalid, missing, notJson, type Rejection } from "../errors.ts";
import { isRecord, isTrue, parseJson, stringField } from "../json-fields.ts";
import { planOutput, type Usage } from "../model/model-output.ts";
import { eventsReply, jsonReply, NO_USAGE, type Reply, reportUsage } from "../reply.ts";
import { completeAfter, createDisconnectHandler } from "./disconnected-stream.ts";
import { responseEvents } from "./response-events.ts";
import { isSealedHere, planResponse, responseObject, responsesUsage, sealText } from "./response-object.ts";
import type { ResponseStore, StoredResponse } from "./response-store.ts";

/** `keep` is called for every response that is started, stored or not. */
export function createResponse(
  call: Call,
  store: ResponseStore,
  keep: (response: StoredResponse) => void = () => {},
): Reply {
  const { fields, behaviour, fault } = call;
  if (!fields.has("input")) return missing("input");
  if (isTrue(fields, "background") && fields.get("store") === "false") {
    return invalid("background", "Background responses require 'store' to be true.");
  }
  const previous = findPrevious(call, store);
  if (previous !== null && "kind" in previous) return previous;
  const orphan = rejectOrphanedOutput(fields.get("input") ?? "", previous);
  if (orphan !== null) return orphan;
  const unreadable = rejectForeignReasoning(fields.get("input") ?? "", call.seed);
  if (unreadable !== null) return unreadable;
  const previousTokens = previous === null ? 0 : previous.planned.usage.input + previous.planned.usage.output;
  const received = planOutput(call, "input", previousTokens);
  if ("kind" in received) return received;
  const planned = planResponse(call, received.choices[0], received.usage);
  const streams = isTrue(fields, "stream");
  const isQueued = planned.background && !streams;
  const response: StoredResponse = {
    planned,
    status: isQueued ? "queued" : planned.end,
    events: behaviour.events,
  };
  if (planned.background && behaviour.backgroundMs !== null) completeAfter(response, behaviour.backgroundMs);
  keep(response);
  if (fields.get("store") !== "false") store.put(response);
  if (streams) {
    const reply = eventsReply(responseEvents(planned, behaviour.events, fault), received.usage);
    return { ...reply, onDisconnect: createDisconnectHandler(response, store, behaviour.detachedMs) };
  }
  return jsonReply(responseObject(planned, isQueued ? "queued" : planned.end), received.usage);
}

function findPrevious(call: Call, store: ResponseStore): StoredResponse | Rejection | null {
  const id = stringField(call.fields, "previous_response_id");
  if (id === null) return null;
  return (
    store.get(id) ??
    createRejection(400, {
      message: `Previous response with id '${id}' not found.`,
      param: "previous_response_id",
      code: "previous_response_not_found",
    })
  );
}

/** Reasoning that another organization has encrypted cannot be read. */
function rejectForeignReasoning(input: string, seed: number): Rejection | null {
  if (!input.includes('"encrypted_content"')) return null;
  const items = parseJson(input);
  const isForeign = (item: unknown) =>
    isRecord(item) &&
    item.type === "reasoning" &&
    item.encrypted_content != null &&
    !isSealedHere(seed, item.encrypted_content);
  if (!Array.isArray(items) || !items.some(isForeign)) return null;
  const message =
    "The encrypted content could not be verified. Reason: Encrypted content could not be decrypted.";
  return createRejection(400, { message, param: null, code: "invalid_encrypted_content" });
}

/** A tool output needs its call, in the input or in the previous turn. */
function rejectOrphanedOutput(input: string, previous: StoredResponse | null): Rejection | null {
  if (!input.includes('"function_call_output"')) return null;
  const items = parseJson(input);
  if (!Array.isArray(items)) return null;
  const callIds = new Set<unknown>(
    (previous?.planned.items ?? []).map((item) => (item.kind === "call" ? item.callId : null)),
  );
  for (const item of items) {
    if (!isRecord(item)) continue;
    if (item.type === "function_call") callIds.add(item.call_id);
    if (item.type === "function_call_output" && !callIds.has(item.call_id)) {
      const message = `No tool call found for function call output with call_id ${String(item.call_id)}.`;
      return createRejection(400, { message, param: "input" });
    }
  }
  return null;
}

export function countInputTokens(call: Call): Reply {
  return jsonReply(
    `{"object":"response.input_tokens","input_tokens":${call.tokens.ofPrompt(call.fields)}}`,
    NO_USAGE,
  );
}

export function compact(call: Call, store: ResponseStore): Reply {
  const earlier = findPrevious(call, store);
  if (earlier !== null && "kind" in earlier) return earlier;
  const value = parseJson(call.fields.get("input") ?? "[]");
  if (value === undefined) return notJson();
  const userItems = inputItems(value, call.newId).filter((item) => item.role === "user");
  const summary = sealText(call.seed, `compacted ${userItems.length} user messages`);
  const output = [...userItems, { id: call.newId("cmp_"), type: "compaction", encrypted_content: summary }];
  const usage: Usage = { input: call.tokens.ofPrompt(call.fields), cached: 0, output: 16, reasoning: 0 };
  const reportedUsage = reportUsage(usage, call.fault);
  return jsonReply(
    `{"id":"${call.newId("resp_")}","object":"response.compaction","created_at":${call.createdAt},"output":${JSON.stringify(output)},"usage":${reportedUsage === null ? "null" : responsesUsage(reportedUsage)}}`,
    usage,
  );
}

/** `GET`, `DELETE`, `/cancel` and `/input_items` of one response. */
export function storedResponse(
  store: ResponseStore,
  method: string,
  id: string,
  action: string | null,
  query: URLSearchParams,
): Reply | null {
  const stored = store.get(id);
  if (stored === undefined) {
    return createRejection(404, { message: `Response with id '${id}' not found.`, param: "id" });
  }
  const route = `${method} ${action ?? ""}`.trim();
  switch (route) {
    case "GET":
      return retrieve(stored, query);
    case "DELETE":
      store.delete(id);
      return jsonReply(`{"id":"${id}","object":"response","deleted":true}`, NO_USAGE);
    case "POST cancel":
      return cancel(stored);
    case "GET input_items":
      return listItems(stored, query);
    default:
      return null;
  }
}

/** Without a time of its own, a background response is complete when it is first retrieved. */
function retrieve(stored: StoredResponse, query: URLSearchParams): Reply {
  if (stored.status === "queued") stored.status = stored.planned.end;
  if (query.get("stream") !== "true")
    return jsonReply(responseObject(stored.planned, stored.status), NO_USAGE);
  const after = Number(query.get("starting_after") ?? "-1");
  const frames = responseEvents(stored.planned, stored.events, null).filter(
    (one) => !(Number(/"sequence_number":(\d+)/.exec(one.data)?.[1] ?? "Infinity") <= after),
  );
  return eventsReply(frames, NO_USAGE);
}

function cancel(stored: StoredResponse): Reply {
  if (!stored.planned.background) return invalid("id", "Cannot cancel a synchronous response.");
  if (stored.status === "queued" || stored.status === "in_progress") stored.status = "cancelled";
  if (stored.status !== "cancelled") return invalid("id", "Cannot cancel a completed response.");
  return jsonReply(responseObject(stored.planned, "cancelled"), NO_USAGE);
}

interface InputItem extends Record<string, unknown> {
  id: string;
}

function listItems(stored: StoredResponse, query: URLSearchParams): Reply {
  let number = 0;
  const tag = stored.planned.id.slice("resp_".length);
  const items = inputItems(parseJson(stored.planned.input), (prefix) => `${prefix}${tag}${number++}`);
  if (query.get("order") !== "asc") items.reverse();
  const after = items.findIndex((item) => item.id === query.get("after"));
  const limit = Math.min(Math.max(Number(query.get("limit") ?? 20) || 20, 1), 100);
  const page = items.slice(after + 1, after + 1 + limit);
  const list = {
    object: "list",
    data: page,
    first_id: page[0]?.id ?? null,
    last_id: page.at(-1)?.id ?? null,
    has_more: after + 1 + limit < items.length,
  };
  return jsonReply(JSON.stringify(list), NO_USAGE);
}

/** The input in the form in which the API returns it: items with ids, text in parts. */
function inputItems(input: unknown, newId: (prefix: string) => string): InputItem[] {
  if (typeof input === "string") {
    return [
      { id: newId("msg_"), type: "message", role: "user", status: "completed", content: inputText(input) },
    ];
  }
  if (!Array.isArray(input)) return [];
  return input.filter(isRecord).map((item) => {
    const isMessage = item.type === undefined || item.type === "message";
    const id = typeof item.id === "string" ? item.id : newId(isMessage ? "msg_" : "item_");
    if (!isMessage) return { ...item, id };
    const content = typeof item.content === "string" ? inputText(item.content) : item.content;
    return { ...item, id, type: "message", status: "completed", content };
  });
}

function inputText(text: string): unknown[] {
  return [{ type: "input_text", text }];
}
