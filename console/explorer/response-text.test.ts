import { describe, expect, test } from "bun:test";
import { readPictures, readText, readVectors } from "./response-text.ts";

describe("the text of a response", () => {
  test.each<[string, unknown, string]>([
    ["a chat completion", { object: "chat.completion", choices: [{ message: { content: "Hi" } }] }, "Hi"],
    [
      "a chat completion chunk",
      { object: "chat.completion.chunk", choices: [{ delta: { content: "H" } }] },
      "H",
    ],
    ["a chunk without choices", { object: "chat.completion.chunk", choices: [] }, ""],
    ["a tool call", { object: "chat.completion", choices: [{ message: { content: null } }] }, ""],
    ["an event", { type: "response.output_text.delta", delta: "i" }, "i"],
    [
      "a response",
      {
        object: "response",
        output: [
          { type: "reasoning", summary: [] },
          {
            type: "message",
            content: [
              { type: "output_text", text: "Hi" },
              { type: "output_text", text: "!" },
            ],
          },
        ],
      },
      "Hi!",
    ],
    ["something else", { object: "list", data: [] }, ""],
    ["nothing", null, ""],
  ])("is read from %s", (_, value, text) => {
    expect(readText(value)).toBe(text);
  });
});

describe("images", () => {
  test("get their media type from their first bytes", () => {
    const data = [{ b64_json: "iVBORw0" }, { b64_json: "/9j/4A" }, { b64_json: "UklGRiQ" }];
    expect(readPictures({ data })).toEqual([
      "data:image/png;base64,iVBORw0",
      "data:image/jpeg;base64,/9j/4A",
      "data:image/webp;base64,UklGRiQ",
    ]);
  });

  test("with a remote URL are not loaded", () => {
    expect(readPictures({ data: [{ url: "https://pictures.example.com/1.png" }] })).toEqual([]);
  });
});

describe("vectors", () => {
  test("are read from numbers or from Base64", () => {
    const packed = Buffer.from(new Float32Array([0.5, -2]).buffer).toString("base64");
    expect(readVectors({ data: [{ embedding: [0.5, -2] }, { embedding: packed }] })).toEqual([
      [0.5, -2],
      [0.5, -2],
    ]);
    expect(readVectors({ data: [{ id: "a model" }] })).toEqual([]);
  });
});
