/** The configuration of Codex in docs/clients.md works exactly as printed. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { openScene, type Scene } from "./codex-setup.ts";

const PAGE = readFileSync(resolve(import.meta.dir, "../../docs/clients.md"), "utf8");
const [CONFIG = "", PROGRAM = ""] = [...PAGE.matchAll(/```toml\n(.*?)```/gs)].map(([, text]) => text);

let scene: Scene;

beforeAll(async () => {
  scene = await openScene({ accounts: [{ models: { "sim-fast": "sim-fast" } }] });
});

afterAll(() => scene.close());

test.each([
  ["from the environment", CONFIG],
  ["from a program", CONFIG.replace(/^env_key.*\n/m, "") + PROGRAM],
])("the documented configuration works with a key %s", async (_, config) => {
  const before = scene.tap.requests.length;
  const codex = scene.codex({ config: config.replaceAll("http://127.0.0.1:8787", scene.tap.url) });
  const asked = await codex.ask("Say hello");
  expect(asked).toMatchObject({
    exitCode: 0,
    failure: null,
    messages: [expect.stringContaining("Say hello")],
  });
  const requests = scene.tap.requests.slice(before);
  expect(requests).toContain("GET /v1/responses");
  expect(requests).not.toContain("POST /v1/responses");
  expect(requests.some((line) => line.startsWith("GET /v1/models"))).toBe(config.includes("command"));
});
