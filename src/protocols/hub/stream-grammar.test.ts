/** Every stream that a dialect writes is accepted by its clients, whatever the upstream sends. */

import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { ApiError } from "../../errors.ts";
import { CHAT_CODEC } from "../chat/chat-codec.ts";
import { GEMINI_CODEC } from "../gemini/gemini-codec.ts";
import { MESSAGES_CODEC } from "../messages/messages-codec.ts";
import { RESPONSES_CODEC } from "../responses/responses-codec.ts";
import { clientTarget, functionStreams, hubRequest, NO_SETTINGS, streams } from "./codec.test-support.ts";
import type { DialectCodec } from "./dialect-codec.ts";
import type { HubEvent } from "./hub-response.ts";
import {
  checkChatStream,
  checkGeminiStream,
  checkMessagesStream,
  checkResponsesStream,
} from "./stream-grammar.test-support.ts";
import { UPSTREAM_STREAMS } from "./upstream-streams.test-support.ts";

const error = new ApiError("upstream_error", "The upstream failed.");

const DIALECTS: readonly [string, DialectCodec, (text: string) => void][] = [
  ["Chat Completions", CHAT_CODEC, checkChatStream],
  ["Responses", RESPONSES_CODEC, checkResponsesStream],
  ["Messages", MESSAGES_CODEC, checkMessagesStream],
  ["Gemini", GEMINI_CODEC, checkGeminiStream],
];

const SHOWN = { ...NO_SETTINGS, reasoning: { effort: null, budgetTokens: null, isShown: true } };

function write(codec: DialectCodec, events: readonly HubEvent[]): string {
  const request = hubRequest(codec.dialect, { settings: SHOWN });
  const writer = codec.openStreamWriter(clientTarget(request));
  return events.map((event) => writer.write(event)).join("");
}

describe.each(DIALECTS)("%s", (_, codec, check) => {
  const isOpenai = codec === CHAT_CODEC || codec === RESPONSES_CODEC;

  test("writes valid streams of all events", () => {
    fc.assert(fc.property(isOpenai ? streams : functionStreams, (events) => check(write(codec, events))));
  });

  test.each(UPSTREAM_STREAMS)("writes valid streams of any upstream with %s", (__, upstream) => {
    fc.assert(
      fc.property(upstream, (events) => {
        // The gateway writes the end of a broken stream itself.
        fc.pre(events.at(-1)?.type === "end");
        check(write(codec, events));
      }),
      { numRuns: 300 },
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
        for (const end of ["response.completed", "message_stop", "finishReason"])
          expect(text).not.toContain(end);
      }),
    );
  });
});

test("the machines reject the faults that other gateways had", () => {
  const start = { type: "message_start", message: { content: [], usage: { input_tokens: 1 } } };
  const block = (index: number, type: string) => ({
    type: "content_block_start",
    index,
    content_block: { type, input: {} },
  });
  const delta = (index: number, type: string) => ({
    type: "content_block_delta",
    index,
    delta: { type, partial_json: "{}" },
  });
  const format = (events: readonly { type: string }[]) =>
    events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join("");
  const rejects = (...events: readonly { type: string }[]) =>
    expect(() => checkMessagesStream(format([start, ...events]))).toThrow("event ");
  rejects(start);
  rejects(block(1, "text"));
  rejects(block(0, "text"), delta(0, "thinking_delta"));
  rejects(block(0, "text"), block(1, "tool_use"));
  rejects(block(0, "text"), { type: "content_block_stop" });
  rejects({ type: "message_stop" });
  const chunk = (candidate: object) => `data: ${JSON.stringify({ candidates: [candidate] })}\n\n`;
  const content = { role: "model", parts: [{ text: "a" }] };
  expect(() => checkGeminiStream(chunk({ content, index: 0 }))).toThrow("finish reason");
  const finished = chunk({ content, index: 0, finishReason: "STOP" });
  expect(() => checkGeminiStream(finished)).not.toThrow();
  expect(() => checkGeminiStream(finished + finished)).toThrow("finish reason");
});
