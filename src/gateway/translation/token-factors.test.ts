import { describe, expect, test } from "bun:test";
import { MESSAGES } from "../../protocols/messages/messages-endpoints.ts";
import { readJsonRequest } from "../../protocols/shared/json-request.ts";
import type { ModelRequest } from "../../protocols/shared/request.ts";
import { INPUT_COUNTER } from "../metering/input-counter.test-support.ts";
import { TokenFactors } from "./token-factors.ts";

const TEXT = "The quick brown fox jumps over the lazy dog. ".repeat(40);

function readMessages(change: Record<string, unknown> = {}): ModelRequest {
  const body = { model: "m", max_tokens: 9, messages: [{ role: "user", content: TEXT }], ...change };
  const bytes = Buffer.from(JSON.stringify(body));
  return readJsonRequest({ bytes, start: 0, end: bytes.length }, MESSAGES, {
    depthMax: 16,
    modelNameCharsMax: 32,
  });
}

/** Learns from one request whose upstream reports `share` times the gateway's own count. */
async function learn(factors: TokenFactors, share: number, request = readMessages()): Promise<void> {
  const own = await INPUT_COUNTER.countRequest({ request, output: "text", owner: "a" });
  await factors.learn(request, "text", Math.round(own * share));
}

describe("the count of tokens for a model", () => {
  test("is the gateway's own before anything is learnt", () => {
    expect(new TokenFactors(() => 0, INPUT_COUNTER).correct("m", 1_000)).toBe(1_000);
  });

  test("is corrected by what the upstream of the model reports", async () => {
    const factors = new TokenFactors(() => 0, INPUT_COUNTER);
    await learn(factors, 1.25);
    expect(factors.correct("m", 1_000)).toBeCloseTo(1_250, -1);
    expect(factors.correct("other", 1_000)).toBe(1_000);
  });

  test("follows later reports slowly, one in half a minute", async () => {
    let nowMs = 0;
    const factors = new TokenFactors(() => nowMs, INPUT_COUNTER);
    await learn(factors, 1);
    await learn(factors, 1.5);
    expect(factors.correct("m", 1_000)).toBe(1_000);
    nowMs = 30_000;
    await learn(factors, 1.5);
    expect(factors.correct("m", 1_000)).toBeCloseTo(1_100, -1);
  });

  test.each([
    ["that counts something else", 5, {}],
    ["that counts almost nothing", 0.01, {}],
    ["of a short text", 1.5, { messages: [{ role: "user", content: "Hello" }] }],
    [
      "of a request with an image",
      1.5,
      {
        messages: [
          {
            role: "user",
            content: [
              { type: "text", text: TEXT },
              { type: "image", source: { type: "base64", media_type: "image/png", data: "aGk=" } },
            ],
          },
        ],
      },
    ],
    [
      "of a request with a hosted tool",
      1.5,
      { tools: [{ type: "web_search_20250305", name: "web_search" }] },
    ],
    ["of a long request", 1.5, { messages: [{ role: "user", content: TEXT.repeat(50) }] }],
  ])("learns nothing from a report %s", async (_, share, change) => {
    const factors = new TokenFactors(() => 0, INPUT_COUNTER);
    await learn(factors, share, readMessages(change));
    expect(factors.correct("m", 1_000)).toBe(1_000);
  });

  test("is remembered for a bounded number of models", async () => {
    let nowMs = 0;
    const factors = new TokenFactors(() => nowMs++, INPUT_COUNTER);
    for (let at = 0; at <= 1_000; at++) await learn(factors, 1.25, readMessages({ model: `m${at}` }));
    expect(factors.correct("m0", 1_000)).toBe(1_000);
    expect(factors.correct("m1000", 1_000)).toBeCloseTo(1_250, -1);
  });
});
