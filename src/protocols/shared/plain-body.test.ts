import { describe, expect, test } from "bun:test";
import { isPlainBody } from "./plain-body.ts";

const isPlain = (body: object | string) =>
  isPlainBody(Buffer.from(typeof body === "string" ? body : JSON.stringify(body)));

describe("a request body", () => {
  test.each<[string, object]>([
    ["a chat", { model: "m", messages: [{ role: "user", content: 'what is an "id": 1?' }], max_tokens: 5 }],
    ["text parts", { model: "m", messages: [{ role: "user", content: [{ type: "text", text: "hi" }] }] }],
    ["a response", { model: "m", input: '"tools": []', instructions: "be kind", stream: true }],
    ["an embedding", { model: "m", input: ["a", "b"], encoding_format: "base64", dimensions: 8 }],
    ["an image prompt", { model: "m", prompt: "a cat", n: 1, size: "1024x1024" }],
  ])("of text and settings only is plain: %s", (_, body) => {
    expect(isPlain(body)).toBe(true);
    expect(isPlain(JSON.stringify(body, null, 2))).toBe(true);
  });

  test.each<[string, object | string]>([
    ["a previous response", { input: "x", previous_response_id: "resp_1" }],
    ["a conversation", { input: "x", conversation: "conv_1" }],
    ["a stored prompt", { prompt: { id: "pmpt_1" } }],
    ["an item reference", { input: [{ type: "item_reference", id: "msg_1" }] }],
    ["an escaped item reference", '{"input":[{"\\u0069d":"msg_1"}]}'],
    ["an item reference with a space before the colon", '{"input":[{"id" \n: "msg_1"}]}'],
    ["a file", { input: [{ role: "user", content: [{ type: "input_file", file_id: "file-1" }] }] }],
    ["an image", { messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "u" } }] }] }],
    ["audio of an earlier turn", { messages: [{ role: "assistant", audio: { id: "audio_1" } }] }],
    ["tools", { messages: [], tools: [] }],
    ["a response format", { input: "x", text: { format: { type: "json_object" } } }],
    ["a parameter of some upstreams only", { messages: [], provider: { only: ["nobody"] } }],
    ["a very long name", `{"${"x".repeat(500)}":1}`],
  ])("with references or other features is not plain: %s", (_, body) => {
    expect(isPlain(body)).toBe(false);
  });
});
