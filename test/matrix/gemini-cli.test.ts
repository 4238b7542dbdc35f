/** The real gemini-cli on accounts of every dialect. It takes seconds to start, so it has few scenarios. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { runGeminiCli } from "../gemini/google-clients.ts";
import type { RunningGateway } from "../support/running-gateway.ts";
import { modelName, startMatrixGateway, UPSTREAMS } from "./matrix-gateway.ts";

let gateway: RunningGateway;

beforeAll(async () => {
  gateway = await startMatrixGateway();
});

afterAll(() => gateway.stop());

describe.each(UPSTREAMS)("gemini-cli on an account with %s", (upstream) => {
  test("runs tools in three steps, and sends the state of the model back", async () => {
    const run = await runGeminiCli(gateway.url, {
      model: modelName(upstream, "agent"),
      prompt: "What is in this folder?",
    });
    expect(run).toMatchObject({ exitCode: 0, toolCalls: 3, toolSuccesses: 3 });
    expect(run.response).toContain("The tool answered");
  });
});

test("gemini-cli reports a full context in the words of the error", async () => {
  const run = await runGeminiCli(gateway.url, { model: modelName("messages", "full"), prompt: "Hello" });
  expect(run.exitCode).not.toBe(0);
  expect(run.errors).toMatch(/8192|too long|context/);
});
