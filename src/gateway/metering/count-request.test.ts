import { expect, test } from "bun:test";
import { countTokens } from "gpt-tokenizer/encoding/o200k_base";
import { lookUpEndpoint } from "../../protocols/endpoints.ts";
import type { EndpointName } from "../../protocols/shared/endpoint.ts";
import { GEMINI_MEDIA_EXAMPLES, MEDIA_EXAMPLES } from "../../protocols/shared/media-members.test-support.ts";
import { MEDIA_TOKENS } from "../../protocols/shared/media-members.ts";
import { corpusText, createRandom } from "./corpus.test-support.ts";
import { countResponse, countTexts } from "./count-request.ts";
import { INPUT_COUNTER } from "./input-counter.test-support.ts";

const countBody = (body: Uint8Array, endpoint: EndpointName) =>
  INPUT_COUNTER.countBody({ body, output: lookUpEndpoint(endpoint).output, owner: "a" });

const input = (json: unknown, endpoint: EndpointName) =>
  countBody(Buffer.from(JSON.stringify(json)), endpoint);

test("a chat counts its messages and their framing", async () => {
  const messages = [
    { role: "system", content: "Be brief." },
    { role: "user", content: [{ type: "text", text: "What is the capital of Portugal?" }] },
  ];
  const words = countTokens("Be brief.") + countTokens("What is the capital of Portugal?");
  expect(await input({ model: "m", messages }, "chat.completions")).toBe(words + 4 + 4 + 3);
});

test("an image has a fixed count, independent of its bytes", async () => {
  const message = (bytes: number) => ({
    messages: [
      {
        role: "user",
        content: [
          {
            type: "image_url",
            image_url: { url: `data:image/png;base64,${"A".repeat(bytes)}`, detail: "low" },
          },
        ],
      },
    ],
  });
  expect(await input(message(10), "chat.completions")).toBe(MEDIA_TOKENS + 7);
  expect(await input(message(1_000_000), "chat.completions")).toBe(MEDIA_TOKENS + 7);
});

test.each(MEDIA_EXAMPLES)("`$name` has a fixed count, inline: $isInline", async ({ part }) => {
  const body = { messages: [{ role: "user", content: [part] }] };
  expect(await input(body, "chat.completions")).toBe(MEDIA_TOKENS + 7);
});

test.each(GEMINI_MEDIA_EXAMPLES)("Gemini's `$name` has a fixed count", async ({ part }) => {
  const body = { contents: [{ role: "user", parts: [part] }] };
  expect(await input(body, "gemini.generate_content")).toBe(MEDIA_TOKENS + 7);
});

test("the input of a response counts its items, instructions and tools", async () => {
  const tools = [{ type: "function", name: "look", parameters: { type: "object", properties: {} } }];
  const body = { input: "Hello there", instructions: "Be kind.", tools };
  const words = ["Hello there", "Be kind.", JSON.stringify(tools)].map((one) => countTokens(one));
  expect(await input(body, "responses")).toBe(words.reduce((a, b) => a + b) + 4 + 4 + 3);
  const items = [
    { type: "function_call", call_id: "call_9", name: "look", arguments: '{"a":1}' },
    { type: "function_call_output", call_id: "call_9", output: "found it" },
  ];
  const expected = countTokens("look") + countTokens('{"a":1}') + countTokens("found it") + 4 + 4 + 3;
  expect(await input({ input: items }, "responses")).toBe(expected);
});

test("an embedding counts the tokens of its texts, or the tokens that the client sent", async () => {
  expect(await input({ input: "Hello there" }, "embeddings")).toBe(countTokens("Hello there"));
  expect(await input({ input: ["Hello there", "you"] }, "embeddings")).toBe(countTokens("Hello there") + 1);
  expect(await input({ input: [1, 2, 3] }, "embeddings")).toBe(3);
  expect(await input({ input: [[1, 2], [3]] }, "embeddings")).toBe(3);
});

test("the prompt of an image counts", async () => {
  expect(await input({ prompt: "a red fox" }, "images.generations")).toBe(countTokens("a red fox"));
});

test("a response counts its text and its reasoning", async () => {
  const response = { choices: [{ message: { role: "assistant", content: "Lisbon.", reasoning: "easy" } }] };
  expect(await countResponse(Buffer.from(JSON.stringify(response)))).toEqual({
    outputTokens: countTokens("Lisbon.") + countTokens("easy"),
    reasoningTokens: countTokens("easy"),
  });
});

test("invalid JSON counts as zero tokens", async () => {
  expect(await countBody(Buffer.from("nonsense"), "responses")).toBe(0);
  expect(await countResponse(Buffer.from("nonsense"))).toEqual({ outputTokens: 0, reasoningTokens: 0 });
});

test("a form counts its text fields", async () => {
  const inputText = { kind: "texts", texts: ["a cat"], formDigest: null } as const;
  expect(await INPUT_COUNTER.countRequest({ request: { inputText }, output: "image", owner: "a" })).toBe(2);
});

test("counting megabytes of input does not block the event loop", async () => {
  const text = corpusText("mixed", 400_000, createRandom(4));
  let turns = 0;
  const timer = setInterval(() => turns++, 0);
  const tokens = await countTexts([text, "and a little more"]);
  clearInterval(timer);
  expect(turns).toBeGreaterThan(3);
  expect(tokens).toBe(countTokens(text) + 4);
});

test("a long body has the sum of its parts, and parsing does not block the event loop", async () => {
  const text = corpusText("prose", 300_000, createRandom(5));
  const messages = Array.from({ length: 40 }, () => ({ role: "user", content: text }));
  const body = Buffer.from(JSON.stringify({ model: "m", messages }));
  let longestMs = 0;
  let lastMs = performance.now();
  const timer = setInterval(() => {
    longestMs = Math.max(longestMs, performance.now() - lastMs);
    lastMs = performance.now();
  }, 1);
  const tokens = await countBody(body, "chat.completions");
  clearInterval(timer);
  expect(tokens).toBe(40 * (countTokens(text) + 4) + 3);
  console.log(`12 MB counted: the event loop was held for ${longestMs.toFixed(0)} ms at most`);
  // Counting without pauses takes more than a second; the margin is for a busy machine.
  expect(longestMs).toBeLessThan(500);
});
