/** The real Codex on accounts of every dialect. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type CodexHome, openCodex } from "../codex/codex.ts";
import type { RunningGateway } from "../support/running-gateway.ts";
import { modelName, startMatrixGateway, UPSTREAMS, type Upstream } from "./matrix-gateway.ts";

let gateway: RunningGateway;
const homes: CodexHome[] = [];

beforeAll(async () => {
  gateway = await startMatrixGateway();
});

afterAll(async () => {
  for (const home of homes) home.remove();
  await gateway.stop();
});

function open(upstream: Upstream, transport: "http" | "websocket"): CodexHome {
  const home = openCodex({ url: gateway.url, model: modelName(upstream, "reader"), transport });
  homes.push(home);
  return home;
}

const COMMAND = 'Please call exec_command {"cmd":"echo $((6 * 7))"}';

describe.each(UPSTREAMS)("Codex on an account with %s", (upstream) => {
  test("runs a command and continues the conversation over HTTP", async () => {
    const home = open(upstream, "http");
    const first = await home.ask(COMMAND);
    expect(first).toMatchObject({ exitCode: 0, failure: null, commands: [{ output: "42\n" }] });
    expect(first.messages.join(" ")).toContain("42");
    const second = await home.resume(first.threadId, "Thank you");
    expect(second).toMatchObject({ exitCode: 0, failure: null });
  });
});

/** The tests of Codex cover Responses, and those of translation cover Chat. */
test.each(["messages", "gemini"] as const)(
  "Codex runs a command over a WebSocket on an account with %s",
  async (upstream) => {
    const run = await open(upstream, "websocket").ask(COMMAND);
    expect(run).toMatchObject({ exitCode: 0, failure: null, commands: [{ output: "42\n" }] });
  },
);
