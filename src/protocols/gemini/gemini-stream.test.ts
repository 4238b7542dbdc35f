import { describe, expect, test } from "bun:test";
import { joinParts } from "../../base/parts.ts";
import { ApiError } from "../../errors.ts";
import type { StreamReader } from "../shared/stream.ts";
import { openGeminiReader } from "./gemini-stream.ts";

const open = (choices = 1) => openGeminiReader({ publicModel: "public", choices, depthMax: 32 });

/** Reads an event. Returns its phase and the text that the client receives. */
function read(reader: StreamReader, event: object): [phase: string, text: string] {
  const bytes = Buffer.from(`data: ${JSON.stringify(event)}\n\n`);
  const verdict = reader.read(bytes, 0, bytes.length - 2);
  const replacement = "replacement" in verdict ? verdict.replacement : null;
  return [verdict.phase, replacement === null ? "" : new TextDecoder().decode(joinParts(replacement))];
}

const candidate = (parts: readonly object[], finishReason?: string, index = 0) => ({
  content: { role: "model", parts },
  ...(finishReason === undefined ? {} : { finishReason }),
  index,
});
const usageMetadata = {
  promptTokenCount: 7,
  candidatesTokenCount: 3,
  thoughtsTokenCount: 2,
  totalTokenCount: 12,
};
const text = (value: string) => [{ text: value }];

describe("a stream", () => {
  test("ends with the event that has the finish reason and the usage", () => {
    const reader = open();
    expect(read(reader, { candidates: [candidate(text("Hi"))] })[0]).toBe("content");
    expect(reader.isEnding()).toBe(false);
    expect(read(reader, { candidates: [candidate(text("!"), "STOP")], usageMetadata })[0]).toBe("terminal");
    expect(reader.outcome).toBe("completed");
    expect(reader.usage).toMatchObject({
      inputTokens: 7,
      outputTokens: 5,
      reasoningTokens: 2,
      isEarly: false,
    });
  });

  test("without usage in its last event ends when the upstream closes", () => {
    const reader = open();
    expect(read(reader, { candidates: [candidate(text("Hi"), "STOP")] })[0]).toBe("content");
    expect(reader.isCompleteWithoutTerminal("closed")).toBe(true);
    expect(reader.outcome).toBe("completed");
  });

  test("that closes before its finish reason is incomplete, and its usage is early", () => {
    const reader = open();
    read(reader, { candidates: [candidate(text("Hi"))], usageMetadata });
    expect(reader.isCompleteWithoutTerminal("closed")).toBe(false);
    expect(reader.usage?.isEarly).toBe(true);
  });

  test("with several candidates ends when all of them have", () => {
    const reader = open(2);
    expect(read(reader, { candidates: [candidate(text("a"), "STOP")], usageMetadata })[0]).toBe("content");
    expect(read(reader, { candidates: [candidate(text("b"), "STOP", 1)], usageMetadata })[0]).toBe(
      "terminal",
    );
  });

  test("shows the public name of the model", () => {
    const [, sent] = read(open(), { candidates: [candidate(text("Hi"))], modelVersion: "gemini-secret" });
    expect(sent).toContain('"modelVersion":"public"');
    expect(sent).not.toContain("secret");
  });
});

describe("before any content", () => {
  test("an event with nothing is held back", () => {
    expect(read(open(), { candidates: [candidate([])], usageMetadata })[0]).toBe("lifecycle");
    expect(read(open(), { candidates: [candidate(text(""))] })[0]).toBe("lifecycle");
  });

  test("a normal end without any part is a failure: another account may do better", () => {
    expect(read(open(), { candidates: [candidate([], "STOP")], usageMetadata })[0]).toBe("failed");
  });

  test.each([
    ["a blocked prompt", { promptFeedback: { blockReason: "SAFETY" }, usageMetadata }],
    ["a filtered response", { candidates: [candidate([], "SAFETY")], usageMetadata }],
  ])("%s is a response", (_, event) => {
    const reader = open();
    expect(read(reader, event)[0]).toBe("content");
    expect(reader.isCompleteWithoutTerminal("closed")).toBe(true);
    expect(reader.outcome).toBe("incomplete");
  });

  test("a call is content", () => {
    const call = [{ functionCall: { name: "f", args: {} } }];
    expect(read(open(), { candidates: [candidate(call)] })[0]).toBe("content");
  });
});

test("an error in place of content is read with its status", () => {
  const bytes = Buffer.from(`data: {"error":{"code":503,"message":"Overloaded.","status":"UNAVAILABLE"}}`);
  expect(open().read(bytes, 0, bytes.length)).toMatchObject({
    phase: "failed",
    error: { code: "503", type: "UNAVAILABLE" },
  });
});

test("an event that is not JSON is dropped and counted", () => {
  const reader = open();
  const bytes = Buffer.from('data: {"candidates":[');
  expect(reader.read(bytes, 0, bytes.length).phase).toBe("dropped");
  expect(reader.badEvents).toBe(1);
});

test("a broken stream ends with an event that Google's clients recognize as an error", () => {
  const error = new ApiError("rate_limit_exceeded", "Wait.", { headers: { "retry-after": "7" } });
  const sent = new TextDecoder().decode(open().failure(error, "req_1"));
  expect(sent).toStartWith("data: {");
  expect(JSON.parse(sent.slice(6))).toMatchObject({
    error: {
      code: 429,
      status: "RESOURCE_EXHAUSTED",
      details: [{ metadata: { request_id: "req_1" } }, { retryDelay: "7s" }],
    },
  });
});
