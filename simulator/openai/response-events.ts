/** The event stream of a simulated response. */

import type { Call } from "../endpoint.ts";
import { computeLogProbabilities } from "../model/log-probabilities.ts";
import type { Fault } from "../model/model-name.ts";
import { splitText } from "../model/text.ts";
import { type EventsReply, eventsReply, type Frame, frame, NO_USAGE, outputFrame } from "../reply.ts";
import {
  failedResponse,
  itemObject,
  messageLogprobs,
  type OutputItem,
  type PlannedResponse,
  planResponse,
  responseObject,
  textPart,
} from "./response-object.ts";
import type { StoredResponse } from "./response-store.ts";

/** The names and arguments of calls follow, two lanes for each item. */
const LANE = { text: 0, reasoning: 1, calls: 2 } as const;

type ItemFrames = Generator<Frame>;
type NextFrame = (type: string, fields: string, outputText?: string, lane?: number) => Frame;

/** The events of one response: created, in progress, its items, exactly one end. OpenAI sends no `[DONE]` here. */
export function* responseEvents(
  planned: PlannedResponse,
  events: number | null,
  fault: Fault | null,
): Generator<Frame> {
  let sequence = 0;
  const next: NextFrame = (type, fields, outputText = "", lane = 0) => {
    const data = `{"type":"${type}","sequence_number":${sequence++},${fields}}`;
    return outputFrame(type, data, outputText, lane, type === "response.output_text.delta");
  };

  yield next("response.created", `"response":${responseObject(planned, "in_progress")}`);
  if (fault?.name === "capacity-in-stream") {
    const failed = failedResponse(
      planned,
      "server_is_overloaded",
      "Our servers are currently overloaded. Please try again later.",
    );
    yield next("response.failed", `"response":${failed}`);
    return;
  }
  yield next("response.in_progress", `"response":${responseObject(planned, "in_progress")}`);
  for (const [index, item] of planned.items.entries()) {
    yield next(
      "response.output_item.added",
      `"output_index":${index},"item":${itemObject(item, false)}`,
      item.kind === "call" ? item.name : "",
      LANE.calls + 2 * index,
    );
    yield* itemEvents(item, index, events, next);
    yield next("response.output_item.done", `"output_index":${index},"item":${itemObject(item, true)}`);
  }
  yield next(`response.${planned.end}`, `"response":${responseObject(planned, planned.end)}`);
}

function itemEvents(item: OutputItem, index: number, events: number | null, next: NextFrame): ItemFrames {
  const position = `"item_id":"${item.id}","output_index":${index}`;
  switch (item.kind) {
    case "reasoning":
      return reasoningEvents(item.text, position, next);
    case "message":
      return messageEvents(item, position, events, next);
    case "search":
      return searchEvents(position, next);
    case "call":
      return callEvents(item, position, LANE.calls + 2 * index + 1, next);
  }
}

function* reasoningEvents(text: string, position: string, next: NextFrame): ItemFrames {
  const part = `${position},"summary_index":0`;
  const type = "response.reasoning_summary";
  yield next(`${type}_part.added`, `${part},"part":{"type":"summary_text","text":""}`);
  for (const piece of splitText(text, null)) {
    yield next(`${type}_text.delta`, `${part},"delta":${JSON.stringify(piece)}`, piece, LANE.reasoning);
  }
  yield next(`${type}_text.done`, `${part},"text":${JSON.stringify(text)}`);
  yield next(`${type}_part.done`, `${part},"part":{"type":"summary_text","text":${JSON.stringify(text)}}`);
}

function* messageEvents(
  item: Extract<OutputItem, { kind: "message" }>,
  position: string,
  events: number | null,
  next: NextFrame,
): ItemFrames {
  const { text, topLogprobs } = item;
  const part = `${position},"content_index":0`;
  yield next("response.content_part.added", `${part},"part":${textPart("", "[]")}`);
  for (const piece of splitText(text, events)) {
    const logprobs =
      topLogprobs === null ? "[]" : JSON.stringify(computeLogProbabilities(piece, topLogprobs));
    const delta = `${part},"delta":${JSON.stringify(piece)},"logprobs":${logprobs}`;
    yield next("response.output_text.delta", delta, piece, LANE.text);
  }
  const all = messageLogprobs(item);
  yield next("response.output_text.done", `${part},"text":${JSON.stringify(text)},"logprobs":${all}`);
  yield next("response.content_part.done", `${part},"part":${textPart(text, all)}`);
}

function* searchEvents(position: string, next: NextFrame): ItemFrames {
  for (const state of ["in_progress", "searching", "completed"])
    yield next(`response.web_search_call.${state}`, position);
}

function* callEvents(
  { name, arguments: args }: Extract<OutputItem, { kind: "call" }>,
  position: string,
  lane: number,
  next: NextFrame,
): ItemFrames {
  const type = "response.function_call_arguments";
  for (const piece of splitText(args, null)) {
    yield next(`${type}.delta`, `${position},"delta":${JSON.stringify(piece)}`, piece, lane);
  }
  yield next(
    `${type}.done`,
    `${position},"arguments":${JSON.stringify(args)},"name":${JSON.stringify(name)}`,
  );
}

/** `generate: false`: no output and no usage, but the response can be continued. */
export function warmUpEvents(call: Call, keep: (response: StoredResponse) => void): EventsReply {
  const nothing = { reasoning: "", text: "", calls: [], cut: false, topLogprobs: null };
  const planned = { ...planResponse(call, nothing, NO_USAGE), items: [] };
  keep({ planned, status: "completed", events: null });
  const frames = ["in_progress", "completed"] as const;
  return eventsReply(
    frames.map((status, sequence) => {
      const type = status === "completed" ? "response.completed" : "response.created";
      const fields = `"response":${responseObject(planned, status)}`;
      return frame(type, `{"type":"${type}","sequence_number":${sequence},${fields}}`);
    }),
    NO_USAGE,
  );
}
