/** The instructions of docs/clients.md for Google's clients work exactly as printed. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import { CLIENTS, ClientsPage } from "../support/clients-page.ts";
import type { RunningGateway } from "../support/running-gateway.ts";
import { geminiFile, startGeminiGateway } from "./gemini-gateway.ts";

let gateway: RunningGateway;
let page: ClientsPage;

beforeAll(async () => {
  gateway = await startGeminiGateway({ file: geminiFile({ "sim-fast": "sim-fast" }) });
  page = new ClientsPage(gateway.url);
});

afterAll(async () => {
  page.remove();
  await gateway.stop();
});

test("gemini-cli answers with the documented settings and environment", async () => {
  page.write(".gemini/settings.json", page.block("json gemini-cli"));
  page.install("gemini", `node ${join(CLIENTS, "node_modules/@google/gemini-cli/bundle/gemini.js")}`);
  expect(await page.run(["sh", "-c", page.block("sh gemini-cli")])).toContain("built-in simulator");
});

test("the documented program of the Google Gen AI SDK prints the answer", async () => {
  page.write("genai.mjs", page.block("ts genai"));
  expect(await page.run(["node", "genai.mjs"])).toContain("built-in simulator");
});
