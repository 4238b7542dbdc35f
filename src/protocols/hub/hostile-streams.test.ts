/** Whatever an upstream sends, its reader reports events in their order, and clients receive a valid stream. */

import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { responseBounds } from "../../count-limits.ts";
import { lookUpCodec } from "../codecs.ts";
import { clientTarget, hubRequest, NO_SETTINGS, NO_TOOL_NAMES } from "./codec.test-support.ts";
import { HOSTILE_EVENTS } from "./hostile-streams.test-support.ts";
import type { Dialect } from "./hub-request.ts";
import type { HubEvent } from "./hub-response.ts";
import {
  checkChatStream,
  checkGeminiStream,
  checkMessagesStream,
  checkResponsesStream,
} from "./stream-grammar.test-support.ts";

const CHECKS: Readonly<Record<Dialect, (text: string) => void>> = {
  chat: checkChatStream,
  responses: checkResponsesStream,
  messages: checkMessagesStream,
  gemini: checkGeminiStream,
};
const DIALECTS = ["chat", "responses", "messages", "gemini"] as const;
const SHOWN = { ...NO_SETTINGS, reasoning: { effort: null, budgetTokens: null, isShown: true } };

function read(dialect: Dialect, events: readonly unknown[]): HubEvent[] {
  const reader = lookUpCodec(dialect).openStreamReader(NO_TOOL_NAMES);
  return [...events.flatMap((event) => reader.read(JSON.stringify(event), null)), ...reader.close()];
}

/** The order that `HubEvent` promises to writers. */
function checkOrder(events: readonly HubEvent[]): void {
  const order: { state: "new" | "between" | "item" | "over" } = { state: "new" };
  const callIds = new Set<string>();
  const move = (event: HubEvent, from: readonly (typeof order.state)[], to: typeof order.state) => {
    if (!from.includes(order.state)) throw new Error(`${event.type} in state ${order.state}`);
    order.state = to;
  };
  for (const event of events) {
    if (event.type === "start") move(event, ["new"], "between");
    else if (event.type === "item_start") {
      move(event, ["between"], "item");
      if (event.item.kind !== "call") continue;
      const { callId } = event.item;
      if (callId === "" || callIds.has(callId)) throw new Error(`the call id '${callId}' is used twice`);
      callIds.add(callId);
    } else if (event.type === "delta") {
      move(event, ["item"], "item");
      if (event.text === "") throw new Error("an empty delta");
    } else if (event.type === "item_end") move(event, ["item"], "between");
    else if (event.type === "end") move(event, ["between"], "over");
    else if (event.type === "error") move(event, ["new", "between", "item"], "over");
    else if (order.state === "over") throw new Error("usage after the end");
  }
  if (order.state !== "over") throw new Error(`ends in state ${order.state}`);
}

describe.each(DIALECTS)("a hostile upstream with %s", (upstream) => {
  test("is read as events in their order, with distinct ids of calls", () => {
    fc.assert(
      fc.property(HOSTILE_EVENTS[upstream], (events) => checkOrder(read(upstream, events))),
      { numRuns: 2_000 },
    );
  });

  test.each(DIALECTS)("gives clients of %s a valid stream", (client) => {
    fc.assert(
      fc.property(HOSTILE_EVENTS[upstream], (raw) => {
        const events = read(upstream, raw);
        // The gateway writes the end of a broken stream itself.
        fc.pre(events.at(-1)?.type === "end");
        const request = hubRequest(client, { settings: SHOWN });
        const writer = lookUpCodec(client).openStreamWriter(clientTarget(request));
        CHECKS[client](events.map((event) => writer.write(event)).join(""));
      }),
      { numRuns: 500 },
    );
  });
});

test("the check of the order rejects what writers cannot express", () => {
  const start: HubEvent = { type: "start", responseId: null, createdAtSeconds: null };
  const item: HubEvent = { type: "item_start", item: { kind: "text" } };
  const end: HubEvent = { type: "end", stop: "end", stopSequence: null };
  for (const events of [[end], [start, start, end], [start, item, end], [start, item, item], [start]])
    expect(() => checkOrder(events)).toThrow(" state ");
});

/** What a client receives of each call, and how it ends: `look_up {"a":1}`. */
function describeCalls(events: readonly HubEvent[]): string[] {
  const calls: string[] = [];
  let isCall = false;
  for (const event of events) {
    if (event.type === "item_start") isCall = event.item.kind === "call";
    if (event.type === "item_start" && event.item.kind === "call") calls.push(`${event.item.name} `);
    else if (event.type === "delta" && isCall) calls.push((calls.pop() ?? "") + event.text);
    else if (event.type === "item_end" && isCall && event.isCut) calls.push(`${calls.pop()} (cut)`);
  }
  return calls;
}

const chunk = (...tool_calls: object[]) => ({ choices: [{ delta: { tool_calls } }] });
const part = (members: object, name: string | undefined, text: string) => ({
  ...members,
  function: { name, arguments: text },
});

describe("calls of a chat upstream", () => {
  test("that all have the index 0 are distinct calls", () => {
    const events = [
      chunk(part({ index: 0, id: "c1" }, "first", '{"a":1}')),
      chunk(part({ index: 0, id: "c2" }, "second", '{"b":')),
      chunk(part({ index: 0, id: "c2" }, undefined, "2}")),
      chunk(part({ index: 0 }, "third", "{}")),
    ];
    expect(describeCalls(read("chat", events))).toEqual(['first {"a":1}', 'second {"b":2}', "third {}"]);
  });

  test("may have another id in each piece", () => {
    const events = [
      chunk(part({ index: 0, id: "c1" }, "first", '{"a":')),
      chunk(part({ index: 0, id: "c2" }, "first", "1")),
      chunk(part({ index: 0, id: "c3" }, undefined, "}")),
    ];
    expect(describeCalls(read("chat", events))).toEqual(['first {"a":1}']);
  });

  test("without an index go on by their id, or with the last call", () => {
    const events = [
      chunk(part({ id: "c1" }, "first", '{"a":')),
      chunk(part({}, undefined, "1")),
      chunk(part({ id: "c1" }, undefined, "}")),
      chunk(part({ id: "c2" }, "second", "{}")),
    ];
    expect(describeCalls(read("chat", events))).toEqual(['first {"a":1}', "second {}"]);
  });

  test("keep their arguments if all of them are announced first", () => {
    const events = [
      chunk(part({ index: 0, id: "c1" }, "first", "")),
      chunk(part({ index: 1, id: "c2" }, "second", "")),
      chunk(part({ index: 0 }, undefined, '{"a":1}')),
      chunk(part({ index: 1 }, undefined, '{"b":2}')),
      { choices: [{ delta: {}, finish_reason: "tool_calls" }] },
    ];
    expect(describeCalls(read("chat", events))).toEqual(['first {"a":1}', 'second {"b":2}']);
  });
});

describe("a Messages upstream", () => {
  const PATCH = {
    ...NO_TOOL_NAMES,
    toolNames: { resolve: (name: string) => ({ name, namespace: null, tool: "custom" as const }) },
  };

  test("that stops a block in the middle of its arguments has cut the call off", () => {
    const reader = lookUpCodec("messages").openStreamReader(PATCH);
    const events = [
      { type: "message_start", message: { id: "m" } },
      { type: "content_block_start", index: 0, content_block: { type: "tool_use", id: "t", name: "patch" } },
      { type: "content_block_delta", index: 0, delta: { partial_json: '{"input":"half of' } },
      { type: "content_block_stop", index: 0 },
      { type: "message_delta", delta: { stop_reason: "max_tokens" }, usage: { output_tokens: 7 } },
      { type: "message_stop" },
    ].flatMap((event) => reader.read(JSON.stringify(event), null));
    expect(describeCalls(events)).toEqual(["patch  (cut)"]);
    expect(events.at(-1)).toMatchObject({ type: "end", stop: "length" });
  });

  test("without a count of the output at the end reports it as early, so that the output is counted", () => {
    const start = { type: "message_start", message: { usage: { input_tokens: 9, output_tokens: 1 } } };
    const stop = { type: "message_delta", delta: { stop_reason: "end_turn" } };
    const usages = (usage: object | undefined) =>
      read("messages", [start, { ...stop, usage }, { type: "message_stop" }]).flatMap((event) =>
        event.type === "usage" ? [event.usage.isEarly] : [],
      );
    expect(usages(undefined)).toEqual([true]);
    expect(usages({})).toEqual([true, true]);
    expect(usages({ output_tokens: 5 })).toEqual([true, false]);
  });
});

test("feedback of a Gemini upstream that only rates the prompt does not end the response", () => {
  const events = read("gemini", [
    { promptFeedback: { safetyRatings: [] }, usageMetadata: { promptTokenCount: 3 } },
    { candidates: [{ content: { parts: [{ text: "Hello" }] }, finishReason: "STOP" }] },
  ]);
  expect(events.flatMap((event) => (event.type === "delta" ? [event.text] : []))).toEqual(["Hello"]);
});

/** One more than a response may have in progress. */
const MANY = responseBounds.openItemsMax + 1;

describe("items that are never complete are bounded", () => {
  test.each([
    [
      "chat",
      (index: number) => chunk(part({ index, id: `c${index}` }, "look_up", '{"a":"')),
      (index: number) => chunk(part({ index }, undefined, "more")),
    ],
    [
      "messages",
      (index: number) => ({
        type: "content_block_start",
        index,
        content_block: { type: "tool_use", name: "a" },
      }),
      (index: number) => ({ type: "content_block_delta", index, delta: { partial_json: '{"a' } }),
    ],
    [
      "responses",
      (output_index: number) => ({
        type: "response.output_item.added",
        output_index,
        item: { type: "function_call", name: "a" },
      }),
      (output_index: number) => ({
        type: "response.function_call_arguments.delta",
        output_index,
        delta: "{",
      }),
    ],
  ] as const)("by the reader of %s", (dialect, begin, more) => {
    const reader = lookUpCodec(dialect).openStreamReader(NO_TOOL_NAMES);
    for (let index = 0; index < MANY - 1; index++) reader.read(JSON.stringify(begin(index)), null);
    for (let index = 0; index < MANY - 1; index++) reader.read(JSON.stringify(more(index)), null);
    expect(() => reader.read(JSON.stringify(begin(MANY)), null)).toThrow("The response has more than 256 ");
  });
});
