/** The real Claude Code on an Anthropic account. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import type { RunningGateway } from "../support/running-gateway.ts";
import { type ClaudeCodeHome, openClaudeCode } from "./claude-code.ts";
import { startMessagesGateway } from "./messages-gateway.ts";

const MODELS = {
  "claude-fast": "sim-fast",
  "claude-tools": "sim-tools",
  "claude-thinker": "sim-tools-reason",
  "claude-full": "fault/context",
  "claude-broken": "fault/error-in-stream",
};

let gateway: RunningGateway;
const homes: ClaudeCodeHome[] = [];

beforeAll(async () => {
  gateway = await startMessagesGateway({ models: MODELS });
});

afterAll(async () => {
  for (const home of homes) home.remove();
  await gateway.stop();
});

function open(model: keyof typeof MODELS, more: object = {}): ClaudeCodeHome {
  const home = openClaudeCode({ url: gateway.url, model, ...more });
  homes.push(home);
  return home;
}

/** The requests of this test at the upstream. */
async function upstreamRequests<T>(run: () => Promise<T>): Promise<{ result: T; requests: number }> {
  const before = gateway.simulator.ledger.totals().requests;
  const result = await run();
  return { result, requests: gateway.simulator.ledger.totals().requests - before };
}

describe("Claude Code", () => {
  test.each(["token", "key"] as const)("gets an answer, authenticated by its %s", async (auth) => {
    const home = open("claude-fast", { auth });
    expect(await home.ask("What is the capital of France?")).toMatchObject({
      exitCode: 0,
      isError: false,
      text: expect.stringContaining("What is the capital of France?"),
    });
    const { headers, path } = gateway.simulator.ledger.last() ?? {};
    expect(path).toBe("/v1/messages");
    // The list is open: it changes with every release.
    expect(headers?.["anthropic-beta"]).toContain("claude-code-");
    expect(headers?.["x-api-key"]).toBeDefined();
    expect(headers?.["x-claude-code-session-id"]).toBeUndefined();
  });

  test("runs a tool and answers with its result, thinking included", async () => {
    const home = open("claude-thinker");
    const path = JSON.stringify({ file_path: join(home.workspace, "notes.txt") });
    const { result, requests } = await upstreamRequests(() =>
      home.ask(`Please call Read ${path}`, ["--allowedTools", "Read"]),
    );
    expect(result).toMatchObject({ exitCode: 0, isError: false, turns: 2 });
    expect(result.text).toContain("The code word is periwinkle.");
    expect(requests).toBe(2);
  });

  test("continues a conversation", async () => {
    const home = open("claude-fast");
    const first = await home.ask("Remember the word heliotrope.");
    const second = await home.ask("Which word?", ["--resume", first.sessionId]);
    expect(second).toMatchObject({ exitCode: 0, isError: false });
    const body = gateway.simulator.ledger.findBody(gateway.simulator.ledger.last()?.id ?? "");
    expect(Buffer.from(body ?? []).toString()).toContain("heliotrope");
  });

  test("stops at a full context with one request, and shows the reason", async () => {
    const { result, requests } = await upstreamRequests(() => open("claude-full").ask("Hello"));
    expect(result).toMatchObject({ isError: true });
    expect(result.text).toMatch(/prompt is too long/i);
    expect(requests).toBe(1);
  });
});

test("Claude Code with an empty balance sends one request and reports the balance", async () => {
  const paid = await startMessagesGateway({
    models: { "claude-fast": "sim-fast" },
    modelFields: { "claude-fast": { price: { input: "3", output: "15" } } },
    group: { billing: { charge: "balance" } },
  });
  const home = openClaudeCode({ url: paid.url, model: "claude-fast" });
  try {
    const response = await home.ask("Hello");
    expect(response).toMatchObject({ isError: true });
    expect(response.text).toMatch(/balance/i);
    expect(await paid.usageRows()).toMatchObject([{ status: 402, error_code: "insufficient_quota" }]);
    expect(paid.simulator.ledger.totals().requests).toBe(0);
  } finally {
    home.remove();
    await paid.stop();
  }
});
