import { describe, expect, test } from "bun:test";
import { ANTHROPIC_PROFILE } from "../../accounts/profiles.ts";
import { call, hubRequest, message, NO_SETTINGS, writeTarget } from "../hub/codec.test-support.ts";
import type { HubItem, HubSettings } from "../hub/hub-request.ts";
import { MESSAGES_CODEC } from "./messages-codec.ts";

const PROFILE = { ...ANTHROPIC_PROFILE, sampling: true };

interface Written {
  readonly body: Record<string, unknown>;
  readonly dropped: readonly string[];
}

function write(
  items: readonly HubItem[],
  settings: Partial<HubSettings> = {},
  upstreamModel = "claude-sonnet-4-5",
): Written {
  const request = hubRequest("chat", { items, settings: { ...NO_SETTINGS, ...settings } });
  return MESSAGES_CODEC.writeRequest(request, writeTarget({ upstreamModel, profile: PROFILE }));
}

const block = (text: string) => ({ type: "text", text });
const texts = (role: "user" | "assistant", ...all: readonly string[]): HubItem => ({
  kind: "message",
  role,
  parts: all.map((text) => ({ kind: "text", text, cacheHint: null })),
});

describe("white space", () => {
  test("alone is no message, and no block beside a call", () => {
    const { body } = write([
      message("user", "hi"),
      message("assistant", "\n\n"),
      call("c1"),
      message("user", " \t"),
    ]);
    expect(body.messages).toMatchObject([
      { role: "user", content: [block("hi")] },
      { role: "assistant", content: [{ type: "tool_use", id: "c1" }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "c1" }] },
    ]);
  });

  test("beside a text is kept, because it separates texts", () => {
    const { body } = write([texts("user", "one", "\n", "two")]);
    expect(body.messages).toEqual([{ role: "user", content: [block("one"), block("\n"), block("two")] }]);
  });

  test("at the end of a last turn of the assistant is removed with its blocks", () => {
    const { body } = write([message("user", "hi"), texts("assistant", "Well, ", "\n")]);
    expect(body.messages).toEqual([
      { role: "user", content: [block("hi")] },
      { role: "assistant", content: [block("Well,")] },
    ]);
  });

  test("from the user after the assistant leaves a turn of the user, which the model answers", () => {
    const { body } = write([message("user", "hi"), message("assistant", "Hello"), message("user", " ")]);
    expect(body.messages).toMatchObject([
      { role: "user" },
      { role: "assistant" },
      { role: "user", content: [block(".")] },
    ]);
  });

  test("is no stop sequence", () => {
    expect(write([message("user", "hi")], { stop: ["\n\n", "END"] })).toMatchObject({
      body: { stop_sequences: ["END"] },
      dropped: ["stop"],
    });
    const none = write([message("user", "hi")], { stop: ["\n"] });
    expect([none.body.stop_sequences, none.dropped]).toEqual([undefined, ["stop"]]);
  });
});

describe("temperature and top_p in one request", () => {
  test.each([
    [0.7, 1, { temperature: 0.7 }, ["top_p"]],
    [1, 0.95, { top_p: 0.95 }, ["temperature"]],
    [0.7, 0.9, { temperature: 0.7 }, ["top_p"]],
    [1, 1, { temperature: 1 }, ["top_p"]],
  ])(
    "%p and %p: models from Claude 4.1 on get the one that has an effect",
    (temperature, topP, sent, dropped) => {
      const { body, dropped: names } = write([message("user", "hi")], { temperature, topP });
      expect({ temperature: body.temperature, top_p: body.top_p }).toEqual({
        temperature: undefined,
        top_p: undefined,
        ...sent,
      });
      expect(names).toEqual(dropped);
    },
  );

  test.each(["claude-3-5-haiku-20241022", "claude-sonnet-4-20250514", "another-model"])(
    "%s gets both",
    (model) => {
      const { body, dropped } = write([message("user", "hi")], { temperature: 0.7, topP: 0.9 }, model);
      expect([body.temperature, body.top_p, dropped]).toEqual([0.7, 0.9, []]);
    },
  );
});
