/** The instructions of docs/clients.md for Claude Code and the SDKs of Anthropic and OpenAI work exactly as printed. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { ClientsPage } from "../support/clients-page.ts";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";
import { CLAUDE } from "./claude-code.ts";

const MODELS = { "sim-fast": "sim-fast", "embed-small": "sim-embed" };

let gateway: RunningGateway;
let page: ClientsPage;

/** An account without Messages, as most are: the clients of Anthropic are translated. */
beforeAll(async () => {
  const url = ["$", "{SIMULATOR_URL}"].join("");
  const names = Object.keys(MODELS);
  const interfaces = ["chat", "responses", "embeddings"];
  gateway = await startTestGateway({
    file: JSON.stringify({
      models: names.map((id) => ({ id, interfaces: ["messages", ...interfaces] })),
      accounts: [{ name: "sim", kind: "openai", base_url: url, private_network: true, models: MODELS }],
      groups: [
        { name: "default", interfaces: ["messages", ...interfaces], models: names, accounts: ["sim"] },
      ],
      keys: [{ name: "test", group: "default", secret: TEST_KEY }],
    }),
  });
  page = new ClientsPage(gateway.url);
});

afterAll(async () => {
  page.remove();
  await gateway.stop();
});

test("Claude Code answers with the documented environment", async () => {
  page.install("claude", CLAUDE);
  const environment = { CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1", IS_SANDBOX: "1" };
  const output = await page.run(["sh", "-c", page.block("sh claude-code")], environment);
  expect(output).toContain("built-in simulator");
});

test("the documented program of Anthropic's SDK prints the answer", async () => {
  page.write("anthropic.mjs", page.block("ts anthropic"));
  expect(await page.run(["node", "anthropic.mjs"])).toContain("built-in simulator");
});

test("the documented program of OpenAI's SDK prints the answer and the length of the vector", async () => {
  page.write("openai.mjs", page.block("ts openai"));
  expect(await page.run(["node", "openai.mjs"])).toMatch(/built-in simulator[\s\S]*\n\d+ req_/);
});

test("the documented program over a WebSocket prints the answer", async () => {
  page.write("socket.mjs", page.block("ts openai-websocket"));
  expect(await page.run(["node", "socket.mjs"])).toContain("built-in simulator");
});
