/** Every stream that a dialect writes is accepted by its clients, whatever the upstream sends. */

import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { ApiError } from "../../errors.ts";
import { CHAT_CODEC } from "../chat/chat-codec.ts";
import { RESPONSES_CODEC } from "../responses/responses-codec.ts";
import { clientTarget, hubRequest, NO_TOOL_NAMES, streams } from "./codec.test-support.ts";
import type { DialectCodec } from "./dialect-codec.ts";
import type { HubEvent } from "./hub-response.ts";
import { checkChatStream, checkResponsesStream } from "./stream-grammar.test-support.ts";

const error = new ApiError("upstream_error", "The upstream failed.");

const DIALECTS: readonly [string, DialectCodec, (text: string) => void][] = [
  ["Chat Completions", CHAT_CODEC, checkChatStream],
  ["Responses", RESPONSES_CODEC, checkResponsesStream],
];

function write(codec: DialectCodec, events: readonly HubEvent[]): string {
  const writer = codec.openStreamWriter(clientTarget(hubRequest(codec.dialect)));
  return events.map((event) => writer.write(event)).join("");
}

/** Deltas of a chat upstream in any order: parallel calls are interleaved with text and with each other. */
const chatDeltas = fc.array(
  fc.oneof(
    fc.record({ content: fc.string() }),
    fc.record({ reasoning_content: fc.string() }),
    fc.record({ refusal: fc.constantFrom("", "no") }),
    fc
      .record({
        index: fc.nat(2),
        id: fc.constantFrom(undefined, "", "call_1"),
        name: fc.constantFrom(undefined, "", "look_up"),
        text: fc.constantFrom("", "{", "}", '{"a":', "1}"),
      })
      .map(({ index, id, name, text }) => ({
        tool_calls: [{ index, id, function: { name, arguments: text } }],
      })),
  ),
  { maxLength: 12 },
);

function readChat(deltas: readonly object[], finish: string | null): HubEvent[] {
  const reader = CHAT_CODEC.openStreamReader(NO_TOOL_NAMES);
  const chunk = (choice: object) => JSON.stringify({ id: "c", created: 1, choices: [choice] });
  return [
    ...deltas.flatMap((delta) => reader.read(chunk({ delta }), null)),
    ...reader.read(chunk({ delta: {}, finish_reason: finish }), null),
    ...reader.read("[DONE]", null),
  ];
}

describe.each(DIALECTS)("%s", (_, codec, check) => {
  test("writes valid streams of all events", () => {
    fc.assert(fc.property(streams, (events) => check(write(codec, events))));
  });

  test("writes valid streams of any chat upstream", () => {
    fc.assert(
      fc.property(chatDeltas, fc.constantFrom("stop", "length", "tool_calls", null), (deltas, finish) => {
        check(write(codec, readChat(deltas, finish)));
      }),
      { numRuns: 500 },
    );
  });

  test("ends a broken stream with one terminal event at any place", () => {
    fc.assert(
      fc.property(streams, fc.nat(20), (events, cut) => {
        const writer = codec.openStreamWriter(clientTarget(hubRequest(codec.dialect)));
        const begun = events
          .filter(({ type }) => type !== "end")
          .slice(0, cut)
          .map((event) => writer.write(event))
          .join("");
        const text = begun + writer.fail(error, "req_1");
        expect(text.match(/response\.failed"|"error":\{/g)?.length).toBeGreaterThan(0);
        expect(text).not.toContain("response.completed");
      }),
    );
  });
});
