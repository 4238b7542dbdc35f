import { expect, test } from "bun:test";
import { clientTarget, hubRequest, parseSse } from "../hub/codec.test-support.ts";
import type { HubEvent } from "../hub/hub-response.ts";
import { CHAT_CODEC } from "./chat-codec.ts";

interface Chunk {
  readonly choices: readonly { readonly delta: { readonly tool_calls?: readonly CallDelta[] } }[];
}

interface CallDelta {
  readonly index: number;
  readonly function?: { readonly arguments: string };
  readonly custom?: { readonly input: string };
}

/** What a client collects of the calls of a stream, by their index. */
function collectCalls(events: readonly HubEvent[]): string[] {
  const writer = CHAT_CODEC.openStreamWriter(clientTarget(hubRequest("chat")));
  const calls: string[] = [];
  for (const { data } of parseSse(events.map((event) => writer.write(event)).join(""))) {
    if (data === "[DONE]") continue;
    const chunk: Chunk = JSON.parse(data);
    for (const call of chunk.choices.flatMap(({ delta }) => delta.tool_calls ?? []))
      calls[call.index] = (calls[call.index] ?? "") + (call.function?.arguments ?? call.custom?.input ?? "");
  }
  return calls;
}

const start: HubEvent = { type: "start", responseId: null, createdAtSeconds: null, model: null };
const end: HubEvent = { type: "end", stop: "tools", stopSequence: null };

function call(tool: "function" | "custom", ...deltas: readonly string[]): HubEvent[] {
  const item = { kind: "call", callId: "c", name: "look_up", namespace: null, tool } as const;
  return [
    { type: "item_start", item },
    ...deltas.map((text): HubEvent => ({ type: "delta", text })),
    { type: "item_end", opaque: null, isCut: false },
  ];
}

test("a call without arguments has an empty object, which clients can parse", () => {
  const events = [start, ...call("function"), ...call("function", '{"a":', "1}"), ...call("custom"), end];
  expect(collectCalls(events)).toEqual(["{}", '{"a":1}', ""]);
});

test("a call that was cut off before its arguments keeps none", () => {
  const cut: HubEvent = { type: "item_end", opaque: null, isCut: true };
  expect(collectCalls([start, ...call("function").slice(0, 1), cut, end])).toEqual([""]);
});
