/** What docs/clients.md says about Google's clients works exactly as printed. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { type RunningGateway, TEST_KEY } from "../support/running-gateway.ts";
import { geminiFile, startGeminiGateway } from "./gemini-gateway.ts";

const CLIENTS = resolve(import.meta.dir, "../clients");
const PAGE = readFileSync(resolve(import.meta.dir, "../../docs/clients.md"), "utf8");

function block(label: string): string {
  const [, text] = new RegExp(`\`\`\`${label}\\n(.*?)\`\`\``, "s").exec(PAGE) ?? [];
  if (text === undefined) throw new Error(`the page has no block ${label}`);
  return text.replaceAll("http://127.0.0.1:8787", gateway.url);
}

let gateway: RunningGateway;
let home: string;

beforeAll(async () => {
  gateway = await startGeminiGateway({ file: geminiFile({ "sim-fast": "sim-fast" }) });
  home = mkdtempSync(join(tmpdir(), "clients-page-"));
  symlinkSync(join(CLIENTS, "node_modules"), join(home, "node_modules"));
});

afterAll(async () => {
  rmSync(home, { recursive: true, force: true });
  await gateway.stop();
});

async function run(command: readonly string[]): Promise<string> {
  const child = Bun.spawn([...command], {
    cwd: home,
    env: { PATH: `${join(home, "bin")}:${process.env.PATH}`, HOME: home, MODEL_GATEWAY_KEY: TEST_KEY },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
  const [output, errors] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ]);
  if ((await child.exited) !== 0) throw new Error(errors);
  return output;
}

test("gemini-cli answers with the documented settings and environment", async () => {
  mkdirSync(join(home, ".gemini"));
  writeFileSync(join(home, ".gemini/settings.json"), block("json gemini-cli"));
  mkdirSync(join(home, "bin"));
  // An installed `gemini`. A test has no terminal that could ask whether its folder is trusted.
  const program = join(CLIENTS, "node_modules/@google/gemini-cli/bundle/gemini.js");
  writeFileSync(join(home, "bin/gemini"), `#!/bin/sh\nexec node ${program} --skip-trust "$@"\n`, {
    mode: 0o755,
  });
  expect(await run(["sh", "-c", block("sh gemini-cli")])).toContain("built-in simulator");
});

test("the documented program of the Google Gen AI SDK prints the answer", async () => {
  writeFileSync(join(home, "genai.mjs"), block("ts genai"));
  expect(await run(["node", "genai.mjs"])).toContain("built-in simulator");
});
