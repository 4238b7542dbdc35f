/** The real Claude Code on accounts of every dialect. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { type ClaudeCodeHome, openClaudeCode } from "../messages/claude-code.ts";
import type { RunningGateway } from "../support/running-gateway.ts";
import {
  type ModelBehaviour,
  modelName,
  startMatrixGateway,
  UPSTREAMS,
  type Upstream,
} from "./matrix-gateway.ts";

let gateway: RunningGateway;
const homes: ClaudeCodeHome[] = [];

beforeAll(async () => {
  gateway = await startMatrixGateway();
});

afterAll(async () => {
  for (const home of homes) home.remove();
  await gateway.stop();
});

function open(upstream: Upstream, behaviour: ModelBehaviour): ClaudeCodeHome {
  const home = openClaudeCode({ url: gateway.url, model: modelName(upstream, behaviour) });
  homes.push(home);
  return home;
}

describe.each(UPSTREAMS)("Claude Code on an account with %s", (upstream) => {
  test("runs a tool, thinking included, and answers with its result in two requests", async () => {
    const home = open(upstream, "reader");
    const path = JSON.stringify({ file_path: join(home.workspace, "notes.txt") });
    const before = gateway.simulator.ledger.totals().requests;
    const answer = await home.ask(`Please call Read ${path}`, ["--allowedTools", "Read"]);
    expect(answer).toMatchObject({ exitCode: 0, isError: false, turns: 2 });
    expect(answer.text).toContain("The code word is periwinkle.");
    // A stream that it cannot read would be repeated as a whole request.
    expect(gateway.simulator.ledger.totals().requests - before).toBe(2);
  });

  test("learns from one request that the context is full", async () => {
    const before = gateway.simulator.ledger.totals().requests;
    const answer = await open(upstream, "full").ask("Hello");
    expect(answer.isError).toBe(true);
    expect(answer.text).toMatch(/prompt is too long/i);
    expect(gateway.simulator.ledger.totals().requests - before).toBe(1);
  });
});
