import { describe, expect, test } from "bun:test";
import { lookUpEndpoint } from "../endpoints.ts";
import { GEMINI_MEDIA_EXAMPLES, MEDIA_EXAMPLES } from "../shared/media-members.test-support.ts";
import { GEMINI_MEDIA_MEMBERS } from "../shared/media-members.ts";
import { apply, rejection, type Tested } from "./apply-rules.test-support.ts";

describe("inputs", () => {
  const inputsMax = { images: 1, files: 0, urls: 0, audio: 0 };
  const check = (tested: Tested, body: object) => rejection(tested, body, { inputsMax })?.code ?? null;
  const data = "data:image/png;base64,AAAA";
  const chat = (...content: object[]) => ({ messages: [{ role: "user", content }] });
  const responses = (...content: object[]) => ({ input: [{ role: "user", content }] });
  const messages = (...content: object[]) => ({ messages: [{ role: "user", content }] });
  const gemini = (...parts: object[]) => ({ contents: [{ parts }] });
  const base64 = { type: "base64", media_type: "image/png", data: "AAAA" };

  test("inputs within the limits pass", () => {
    expect(check("responses", responses({ type: "input_image", image_url: data }))).toBeNull();
    expect(check("chat", chat({ type: "image_url", image_url: { url: data } }))).toBeNull();
    expect(check("messages", messages({ type: "image", source: base64 }))).toBeNull();
    expect(check("gemini", gemini({ inlineData: { mimeType: "image/png", data: "AAAA" } }))).toBeNull();
    const text = { type: "document", source: { type: "text", media_type: "text/plain", data: "x" } };
    expect(check("messages", messages(text))).toBeNull();
  });

  test.each([
    [
      "responses",
      responses({ type: "input_image", image_url: data }, { type: "input_image", image_url: data }),
    ],
    ["responses", responses({ type: "input_image", image_url: "https://example.com/a.png" })],
    ["responses", responses({ type: "input_file", file_id: "file_1" })],
    [
      "responses",
      {
        input: [
          { type: "function_call_output", call_id: "c", output: [{ type: "input_file", file_data: "x" }] },
        ],
      },
    ],
    ["chat", chat({ type: "image_url", image_url: { url: "https://example.com/a.png" } })],
    ["chat", chat({ type: "input_audio", input_audio: { data: "x", format: "wav" } })],
    ["chat", chat({ type: "file", file: { file_data: "x" } })],
    ["chat", chat({ type: "document_url", document_url: "https://example.com/a.pdf" })],
    [
      "responses",
      { prompt: { id: "pmpt_1", variables: { text: "x", page: { type: "input_file", file_id: "f" } } } },
    ],
    ["messages", messages({ type: "image", source: { type: "url", url: "https://example.com/a.png" } })],
    [
      "messages",
      messages({ type: "document", source: { type: "base64", media_type: "application/pdf", data: "x" } }),
    ],
    [
      "messages",
      messages({
        type: "tool_result",
        tool_use_id: "t",
        content: [
          { type: "image", source: base64 },
          { type: "image", source: base64 },
        ],
      }),
    ],
    ["gemini", gemini({ file_data: { file_uri: "gs://a", mime_type: "image/png" } })],
    ["gemini", gemini({ inlineData: { mimeType: "audio/wav", data: "x" } })],
    ["gemini", gemini({ inline_data: { mime_type: "application/pdf", data: "x" } })],
  ] as const)("more are rejected: %s %j", (tested, body) => {
    expect(check(tested, body)).toBe("policy_violation");
  });

  test.each(MEDIA_EXAMPLES)("`$name` counts as what it holds, inline: $isInline", (example) => {
    const { name, kind, part, isInline, holds } = example;
    const others = { images: 0, files: 0, audio: 0, [kind]: 1 };
    const code = (tested: object, max: object) => rejection("chat", chat(tested), { inputsMax: max })?.code;
    expect(code(part, others)).toBeUndefined();
    expect(code(part, { [kind]: 0 })).toBe("policy_violation");
    expect(code(part, { urls: 0 })).toBe(isInline || holds !== "address" ? undefined : "policy_violation");
    expect(code({ type: name }, { [kind]: 0 })).toBe(example.isPartType ? "policy_violation" : undefined);
  });

  test.each(GEMINI_MEDIA_EXAMPLES)("Gemini's `$name` counts by its media type", ({ part, isInline }) => {
    const code = (max: object) => rejection("gemini", gemini(part), { inputsMax: max })?.code;
    expect(code({ images: 1, files: 0, audio: 0 })).toBeUndefined();
    expect(code({ images: 0 })).toBe("policy_violation");
    expect(code({ urls: 0 })).toBe(isInline ? undefined : "policy_violation");
  });

  test("Gemini's members are rejected in two spellings at once", () => {
    for (const { name, snakeName } of GEMINI_MEDIA_MEMBERS)
      expect(check("gemini", gemini({ [name]: {}, [snakeName]: {} }))).toBe("duplicate_parameter");
  });

  test("Gemini's embeddings have images, too", () => {
    const parts = [{ inlineData: { mimeType: "audio/wav", data: "x" } }];
    for (const [name, body] of [
      ["gemini.embed_content", { content: { parts } }],
      ["gemini.batch_embed_contents", { requests: [{ model: "models/m", content: { parts } }] }],
    ] as const) {
      const endpoint = { ...lookUpEndpoint(name), model: "m" };
      expect(() => apply("gemini", JSON.stringify(body), { inputsMax }, endpoint)).toThrow(/audio/);
    }
  });

  test("arguments of calls are data", () => {
    const call = { type: "tool_use", id: "t", name: "n", input: { type: "file", file_id: "x" } };
    expect(check("messages", { messages: [{ role: "assistant", content: [call] }] })).toBeNull();
  });
});
