/** The Python examples of the documentation are valid, and those that call the gateway run against it. */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { Glob } from "bun";
import { type RunningGateway, startTestGateway, TEST_KEY } from "../support/running-gateway.ts";

const ROOT = resolve(import.meta.dir, "../..");
const ADDRESS = /http:\/\/127\.0\.0\.1:8787|https:\/\/gateway\.example\.com/g;

interface Example {
  readonly page: string;
  readonly code: string;
}

const EXAMPLES: readonly Example[] = [
  "README.md",
  ...[...new Glob("docs/**/*.md").scanSync(ROOT)].toSorted(),
].flatMap((page) =>
  [...readFileSync(join(ROOT, page), "utf8").matchAll(/```python\n(.*?)```/gs)].map(([, code = ""]) => ({
    page,
    code,
  })),
);
const CLIENT_EXAMPLES = EXAMPLES.filter(({ code }) => code.includes("from openai import"));

let folder: string;
let gateway: RunningGateway;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "python-examples-"));
  copyFileSync(join(import.meta.dir, "openai-standin.py"), join(folder, "openai.py"));
  const models = { "sim-fast": "sim-fast", "fast-chat": "sim-fast" };
  const url = ["$", "{SIMULATOR_URL}"].join("");
  gateway = await startTestGateway({
    file: JSON.stringify({
      models: Object.keys(models).map((id) => ({ id, interfaces: ["chat", "responses"] })),
      accounts: [{ name: "sim", kind: "openai", base_url: url, private_network: true, models }],
      groups: [{ name: "default", models: Object.keys(models), accounts: ["sim"] }],
      keys: [{ name: "test", group: "default", secret: TEST_KEY }],
    }),
  });
});
afterAll(async () => {
  await gateway.stop();
  rmSync(folder, { recursive: true, force: true });
});

async function run(command: readonly string[]): Promise<string> {
  const child = Bun.spawn(["python3", ...command], {
    cwd: folder,
    env: { ...process.env, KEY: TEST_KEY, MODEL_GATEWAY_KEY: TEST_KEY },
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

test("the pages have examples", () => {
  expect(EXAMPLES.length).toBeGreaterThanOrEqual(4);
  expect(CLIENT_EXAMPLES.map(({ page }) => page)).toEqual(["README.md", "docs/clients.md"]);
});

describe.each(EXAMPLES.map(({ page, code }) => [page, code] as const))("%s", (_, code) => {
  test("is valid Python", async () => {
    writeFileSync(join(folder, "example.py"), code);
    await run(["-m", "py_compile", "example.py"]);
  });
});

describe.each(CLIENT_EXAMPLES.map(({ page, code }) => [page, code] as const))("%s", (_, code) => {
  test("prints a response of the gateway", async () => {
    writeFileSync(join(folder, "example.py"), code.replaceAll(ADDRESS, gateway.url));
    expect(await run(["example.py"])).toContain("built-in simulator");
  });
});
