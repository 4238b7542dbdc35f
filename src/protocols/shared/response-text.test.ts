import { expect, test } from "bun:test";
import { readWholeResponseTexts } from "./response-text.ts";

test("a chat completion contains content, refusals and tool calls, with reasoning separate", () => {
  const response = {
    choices: [
      { message: { role: "assistant", content: "Hello", reasoning_content: "hm", refusal: null } },
      {
        message: {
          content: [{ type: "text", text: "part" }],
          tool_calls: [{ id: "c", type: "function", function: { name: "look", arguments: "{}" } }],
        },
      },
    ],
  };
  expect(readWholeResponseTexts(response)).toEqual({
    outputTexts: ["Hello", "part", "look", "{}"],
    reasoningTexts: ["hm"],
  });
});

test("a response contains the texts of its items, with reasoning separate", () => {
  const response = {
    output: [
      { type: "reasoning", summary: [{ type: "summary_text", text: "why" }] },
      { type: "message", role: "assistant", content: [{ type: "output_text", text: "Hello" }] },
      { type: "function_call", call_id: "c", name: "look", arguments: "{}" },
    ],
  };
  expect(readWholeResponseTexts(response)).toEqual({
    outputTexts: ["Hello", "look", "{}"],
    reasoningTexts: ["why"],
  });
});

test("embeddings, images and invalid responses contain no text", () => {
  for (const response of [
    null,
    [],
    "x",
    {},
    { data: [{ embedding: [1] }] },
    { data: [{ b64_json: "QUJD" }] },
  ]) {
    expect(readWholeResponseTexts(response)).toEqual({ outputTexts: [], reasoningTexts: [] });
  }
});
