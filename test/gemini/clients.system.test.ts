/** Google's own clients on an account of kind gemini. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { RunningGateway } from "../support/running-gateway.ts";
import { geminiFile, MODELS, startGeminiGateway } from "./gemini-gateway.ts";
import { type GenaiResult, runGeminiCli, runGenai } from "./google-clients.ts";

let gateway: RunningGateway;
beforeAll(async () => {
  gateway = await startGeminiGateway({
    file: geminiFile({ ...MODELS, slow: "sim-fast@events=40,interval=50ms", limited: "fault/429@retry=7" }),
  });
});
afterAll(() => gateway.stop());

describe("@google/genai", () => {
  let results: GenaiResult[];
  beforeAll(async () => {
    results = await runGenai(gateway.url, [
      { run: "plain", model: "gemini-2.5-flash" },
      { run: "stream", model: "gemini-3-pro", config: { thinkingConfig: { includeThoughts: true } } },
      { run: "tool", model: "gemini-3-agent" },
      { run: "tool", model: "gemini-2.5-pro", stream: false },
      { run: "image", model: "gemini-2.5-flash" },
      { run: "json", model: "gemini-2.5-flash" },
      { run: "cancel", model: "slow" },
      { run: "count", model: "gemini-2.5-flash" },
      { run: "embed", model: "gemini-embedding-001", dimensions: 256 },
      { run: "models" },
      { run: "plain", model: "limited" },
      { run: "stream", model: "nope" },
    ]);
  });

  test("receives a whole response with its usage", () => {
    expect(results[0]).toMatchObject({ text: expect.stringContaining("Hello"), finish: "STOP" });
    expect(results[0]?.usage?.promptTokenCount).toBeGreaterThan(0);
  });

  test("receives a stream with thoughts", () => {
    expect(results[1]).toMatchObject({ text: expect.stringContaining("Hello"), finish: "STOP" });
    expect(results[1]?.thoughts).toContain("Hello");
  });

  test.each([
    [2, "streamed, with signed calls"],
    [3, "whole"],
  ])("runs a tool loop: scenario %d, %s", (at) => {
    const turns = results[Number(at)]?.turns ?? [];
    expect(turns[0]?.calls).toMatchObject([{ name: "get_weather" }]);
    expect(turns[1]).toMatchObject({ text: expect.stringContaining("sunny"), calls: [] });
  });

  test("sends images and receives structured output", () => {
    expect(results[4]?.text).toContain("What is this?");
    expect(JSON.parse(results[5]?.text ?? "")).toHaveProperty("word");
  });

  test("cancels a stream, which ends it upstream", async () => {
    expect(results[6]).toMatchObject({ cancelled: true });
    const entry = gateway.simulator.ledger.snapshot().entries.find(({ model }) => model.includes("interval"));
    expect(entry?.abortedByClient).toBe(true);
  });

  test("counts tokens, embeds texts and lists all pages of models", () => {
    expect(results[7]?.totalTokens).toBeGreaterThan(0);
    expect(results[8]?.vectors?.map((vector) => vector.length)).toEqual([256, 256]);
    expect(results[9]?.names).toEqual(
      [...Object.keys(MODELS), "slow", "limited"].map((id) => `models/${id}`),
    );
  });

  test("receives errors with their status", () => {
    expect(results[10]?.error).toMatchObject({ name: "ApiError", status: 429 });
    expect(results[10]?.error?.message).toContain("RESOURCE_EXHAUSTED");
    expect(results[11]?.error).toMatchObject({ name: "ApiError", status: 404 });
  });
});

describe("gemini-cli", () => {
  test("answers a prompt", async () => {
    const run = await runGeminiCli(gateway.url, { model: "gemini-2.5-flash", prompt: "Hello there" });
    expect(run).toMatchObject({ exitCode: 0, response: expect.stringContaining("built-in simulator") });
  });
});
