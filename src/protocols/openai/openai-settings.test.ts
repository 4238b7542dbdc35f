import { describe, expect, test } from "bun:test";
import { OPENAI_PROFILE } from "../../accounts/profiles.ts";
import { lookUpCodec } from "../codecs.ts";
import { hubRequest, message, NO_SETTINGS, writeTarget } from "../hub/codec.test-support.ts";

function write(dialect: "chat" | "responses", upstreamModel: string) {
  const settings = { ...NO_SETTINGS, temperature: 0.5, topP: 0.95 };
  const request = hubRequest("gemini", { items: [message("user", "hi")], settings });
  const written = lookUpCodec(dialect).writeRequest(
    request,
    writeTarget({ profile: OPENAI_PROFILE, upstreamModel }),
  );
  return [written.body.temperature, written.body.top_p, written.dropped];
}

describe.each(["chat", "responses"] as const)("temperature and top_p of a %s request", (dialect) => {
  test.each(["o3", "o4-mini", "gpt-5", "gpt-5.2-codex", "openai/gpt-5-mini"])(
    "are dropped for %s",
    (model) => {
      expect(write(dialect, model)).toEqual([undefined, undefined, ["temperature", "top_p"]]);
    },
  );

  test.each(["gpt-4o-mini", "gpt-4.1", "gpt-5-chat-latest", "gpt-oss-120b", "omni"])(
    "are sent to %s",
    (model) => {
      expect(write(dialect, model)).toEqual([0.5, 0.95, []]);
    },
  );
});

test("stop sequences and penalties are dropped for reasoning models", () => {
  const settings = { ...NO_SETTINGS, stop: ["END"], presencePenalty: 0.1, frequencyPenalty: 0.2 };
  const request = hubRequest("gemini", { items: [message("user", "hi")], settings });
  const target = { profile: OPENAI_PROFILE, upstreamModel: "gpt-5" };
  const { body, dropped } = lookUpCodec("chat").writeRequest(request, writeTarget(target));
  expect([body.stop, body.presence_penalty, body.frequency_penalty]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
  expect(dropped).toEqual(["stop", "presence_penalty", "frequency_penalty"]);
});

describe("the reasoning that Claude Code requests with each message", () => {
  const reasoning = { effort: "high", budgetTokens: null, isShown: true } as const;
  const request = hubRequest("messages", {
    items: [message("user", "hi")],
    settings: { ...NO_SETTINGS, reasoning },
  });

  test.each(["gpt-4o-mini", "gpt-4.1", "chatgpt-4o-latest", "gpt-5-chat-latest"])(
    "is dropped for %s, which rejects it",
    (upstreamModel) => {
      const target = writeTarget({ profile: OPENAI_PROFILE, upstreamModel });
      const chat = lookUpCodec("chat").writeRequest(request, target);
      expect([chat.body.reasoning_effort, chat.dropped]).toEqual([undefined, ["reasoning.effort"]]);
      const { body, dropped } = lookUpCodec("responses").writeRequest(request, target);
      expect([body.reasoning, body.include, dropped]).toEqual([undefined, undefined, ["reasoning.effort"]]);
    },
  );

  test.each(["gpt-5.2", "a-deployment"])("is sent to %s", (upstreamModel) => {
    const target = writeTarget({ profile: OPENAI_PROFILE, upstreamModel });
    expect(lookUpCodec("chat").writeRequest(request, target).body.reasoning_effort).toBe("high");
    expect(lookUpCodec("responses").writeRequest(request, target).body).toMatchObject({
      reasoning: { effort: "high", summary: "auto" },
      include: ["reasoning.encrypted_content"],
    });
  });
});
