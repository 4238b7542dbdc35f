import { expect, test } from "bun:test";
import { readWholeResponseTexts } from "./response-text.ts";

test("a chat completion says its contents, refusals and calls, and its reasoning apart", () => {
  const answer = {
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
  expect(readWholeResponseTexts(answer)).toEqual({ said: ["Hello", "part", "look", "{}"], reasoned: ["hm"] });
});

test("a response says the texts of its items, and its reasoning apart", () => {
  const answer = {
    output: [
      { type: "reasoning", summary: [{ type: "summary_text", text: "why" }] },
      { type: "message", role: "assistant", content: [{ type: "output_text", text: "Hello" }] },
      { type: "function_call", call_id: "c", name: "look", arguments: "{}" },
    ],
  };
  expect(readWholeResponseTexts(answer)).toEqual({ said: ["Hello", "look", "{}"], reasoned: ["why"] });
});

test("vectors, pictures and nonsense say nothing", () => {
  for (const answer of [
    null,
    [],
    "x",
    {},
    { data: [{ embedding: [1] }] },
    { data: [{ b64_json: "QUJD" }] },
  ]) {
    expect(readWholeResponseTexts(answer)).toEqual({ said: [], reasoned: [] });
  }
});
