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

const COMMAND = 'Please call exec_command {"cmd":"echo $((6 * 7))"}';

describe.each(UPSTREAMS)("Codex on an account with %s", (upstream) => {
  const open = (transport: "http" | "websocket", from: Upstream = upstream) => {
    const home = openCodex({ url: gateway.url, model: modelName(from, "reader"), transport });
    homes.push(home);
    return home;
  };

  test("runs a command and continues the conversation over HTTP", async () => {
    const home = open("http");
    const first = await home.ask(COMMAND);
    expect(first).toMatchObject({ exitCode: 0, failure: null, commands: [{ output: "42\n" }] });
    expect(first.said.join(" ")).toContain("42");
    const second = await home.resume(first.threadId, "Thank you");
    expect(second).toMatchObject({ exitCode: 0, failure: null });
  });

  test("runs a command over a WebSocket", async () => {
    const run = await open("websocket").ask(COMMAND);
    expect(run).toMatchObject({ exitCode: 0, failure: null, commands: [{ output: "42\n" }] });
  });
});
