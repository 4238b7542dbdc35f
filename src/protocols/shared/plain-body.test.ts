import { describe, expect, test } from "bun:test";
import { isPlainBody } from "./plain-body.ts";

const isPlain = (body: object | string) =>
  isPlainBody(Buffer.from(typeof body === "string" ? body : JSON.stringify(body)));

describe("a body", () => {
  test.each<[string, object]>([
    ["a chat", { model: "m", messages: [{ role: "user", content: 'what is an "id": 1?' }], max_tokens: 5 }],
    ["parts of text", { model: "m", messages: [{ role: "user", content: [{ type: "text", text: "hi" }] }] }],
    ["a response", { model: "m", input: '"tools": []', instructions: "be kind", stream: true }],
    ["an embedding", { model: "m", input: ["a", "b"], encoding_format: "base64", dimensions: 8 }],
    ["a picture that is asked for", { model: "m", prompt: "a cat", n: 1, size: "1024x1024" }],
  ])("of text and settings is plain: %s", (_, body) => {
    expect(isPlain(body)).toBe(true);
    expect(isPlain(JSON.stringify(body, null, 2))).toBe(true);
  });

  test.each<[string, object | string]>([
    ["a response before", { input: "x", previous_response_id: "resp_1" }],
    ["a conversation", { input: "x", conversation: "conv_1" }],
    ["a prompt that is kept", { prompt: { id: "pmpt_1" } }],
    ["an item", { input: [{ type: "item_reference", id: "msg_1" }] }],
    ["an item, escaped", '{"input":[{"\\u0069d":"msg_1"}]}'],
    ["an item, apart from its colon", '{"input":[{"id" \n: "msg_1"}]}'],
    ["a file", { input: [{ role: "user", content: [{ type: "input_file", file_id: "file-1" }] }] }],
    [
      "a picture",
      { messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "u" } }] }] },
    ],
    ["a sound that was said", { messages: [{ role: "assistant", audio: { id: "audio_1" } }] }],
    ["tools", { messages: [], tools: [] }],
    ["a form for the answer", { input: "x", text: { format: { type: "json_object" } } }],
    ["what only some upstreams know", { messages: [], provider: { only: ["nobody"] } }],
    ["a very long name", `{"${"x".repeat(500)}":1}`],
  ])("that names or asks for more is not: %s", (_, body) => {
    expect(isPlain(body)).toBe(false);
  });
});
