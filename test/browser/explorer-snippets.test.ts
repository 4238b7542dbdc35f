/**
 * Snippets are copied from the page and run unchanged. curl, TypeScript, fetch, PHP and Ruby always run, Java only
 * where it is installed. Python is always compiled, and run only where its `openai` package is installed, which Debian
 * lacks. Go is parsed where it is installed, because building it takes a minute. C# is not checked.
 */

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { readProcessResult } from "../support/process-result.ts";
import { TEST_KEY } from "../support/running-gateway.ts";
import { type ExplorerUnderTest, setBodyText, startExplorer } from "./explorer-page.ts";

const PNG = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);
/** Characters that have a special meaning in some language. */
// biome-ignore lint/suspicious/noTemplateCurlyInString: it must stay text.
const INPUT = 'it\'s "quoted" \\ `tick` $HOME #{1} ${2} %s @x <b> 你好\nsecond line';

interface Runner {
  label: string;
  file: string;
  command: readonly string[];
  isThere(): boolean;
}

const has = (program: string) => () => Bun.which(program) !== null;
const BUN = process.execPath;
const RUNNERS: readonly Runner[] = [
  { label: "curl", file: "snippet.sh", command: ["sh", "snippet.sh"], isThere: has("curl") },
  { label: "TypeScript", file: "sdk.ts", command: [BUN, "sdk.ts"], isThere: () => true },
  { label: "fetch", file: "fetch.mjs", command: [BUN, "fetch.mjs"], isThere: () => true },
  { label: "Python", file: "snippet.py", command: ["python3", "snippet.py"], isThere: hasPythonSdk },
  { label: "Java", file: "Main.java", command: ["java", "Main.java"], isThere: has("java") },
  { label: "PHP", file: "snippet.php", command: ["php", "snippet.php"], isThere: has("php") },
  { label: "Ruby", file: "snippet.rb", command: ["ruby", "snippet.rb"], isThere: has("ruby") },
];
const THERE = RUNNERS.filter(({ isThere }) => isThere());

function hasPythonSdk(): boolean {
  return Bun.which("python3") !== null && Bun.spawnSync(["python3", "-c", "import openai"]).success;
}

const folder = mkdtempSync(join(tmpdir(), "gateway-snippets-"));
let explorer: ExplorerUnderTest;
let page: Page;

beforeAll(async () => {
  symlinkSync(join(import.meta.dir, "../clients/node_modules"), join(folder, "node_modules"));
  for (const name of ["house.png", "mask.png"]) writeFileSync(join(folder, name), PNG);
  explorer = await startExplorer();
  page = await explorer.open();
});
afterAll(async () => {
  await explorer.stop();
  rmSync(folder, { recursive: true });
});

async function show(operation: string, body: object): Promise<void> {
  await page.evaluate(`location.hash = "#${operation}"`);
  await page.locator(`.explorer-endpoints a[href="#${operation}"][aria-current]`).waitFor();
  await setBodyText(page, JSON.stringify(body));
}

async function snippet(label: string): Promise<string> {
  const tabs = page.getByRole("tablist", { name: "Code" });
  await tabs.getByRole("tab", { name: label, exact: true }).click();
  return page.getByRole("region", { name: label, exact: true }).locator("code").innerText();
}

/** Returns the output, and throws if the program fails. */
async function run({ file, command }: Runner, code: string): Promise<string> {
  writeFileSync(join(folder, file), code);
  const child = Bun.spawn([...command], {
    cwd: folder,
    env: { ...process.env, MODEL_GATEWAY_KEY: TEST_KEY },
    stdout: "pipe",
    stderr: "pipe",
  });
  const { out, err, code: status } = await readProcessResult(child);
  if (status !== 0) throw new Error(`${command.join(" ")} ended with ${status}: ${err}\n${code}`);
  return out;
}

/** The last body that the upstream received. */
function lastBody(): string {
  const { ledger } = explorer.gateway.simulator;
  return Buffer.from(ledger.findBody(ledger.last()?.id ?? "") ?? []).toString("latin1");
}

test.each(THERE)("$label creates a response with exactly the typed text", async (runner) => {
  await show("createResponse", { model: "fast-chat", input: INPUT });
  expect(await run(runner, await snippet(runner.label))).toContain("resp_");
  const sent = JSON.parse(Buffer.from(lastBody(), "latin1").toString());
  expect(sent.input).toBe(INPUT);
});

test.each(THERE)("$label prints a stream", async (runner) => {
  await show("createChatCompletion", {
    model: "fast-chat",
    messages: [{ role: "user", content: INPUT }],
    stream: true,
  });
  expect(await run(runner, await snippet(runner.label))).toContain("chat.completion.chunk");
});

/** Java's standard library does not support forms. */
const WITH_FORMS = THERE.filter(({ label }) => label !== "Java");

test.each(WITH_FORMS)("$label edits an image with files", async (runner) => {
  await show("editImages", { model: "fast-chat", prompt: "@house.png; type=text/html", n: 1 });
  const file = (name: string) => ({ name, mimeType: "image/png", buffer: PNG });
  // A PHP form has each name only once.
  const pictures = runner.label === "PHP" ? ["house.png"] : ["house.png", "mask.png"];
  await page.getByLabel("Images to edit").setInputFiles(pictures.map(file));
  await page.getByLabel(/^Mask/).setInputFiles([file("mask.png")]);
  expect(await run(runner, await snippet(runner.label))).toContain("b64_json");
  const sent = lastBody();
  expect(sent).toContain("@house.png; type=text/html");
  expect(sent.match(/name="?image/g)?.length).toBe(pictures.length);
  expect(sent).toMatch(/name="?mask"?/);
});

/** The SDKs have no call for the gateway's own endpoints. */
const WITHOUT_SDK = THERE.filter(({ label }) => label !== "Python" && label !== "TypeScript");

test.each(WITHOUT_SDK)("$label sends a request without a body", async (runner) => {
  await page.evaluate('location.hash = "#getUsage"');
  await page.locator('.explorer-endpoints a[href="#getUsage"][aria-current]').waitFor();
  expect(await run(runner, await snippet(runner.label))).toContain("gateway.usage");
});

const PYTHON: Runner = {
  label: "Python",
  file: "compiled.py",
  command: ["python3", "-c", "compile(open('compiled.py').read(), 'compiled.py', 'exec')"],
  isThere: has("python3"),
};
const GO: Runner = {
  label: "Go",
  file: "main.go",
  command: ["gofmt", "-e", "main.go"],
  isThere: has("gofmt"),
};

describe.each([PYTHON, GO].filter(({ isThere }) => isThere()))("snippets in $label", (runner) => {
  const text = { model: "m", input: INPUT, metadata: { a: null, b: [true, 1.5, {}] } };

  test.each([
    ["createResponse", text],
    ["createChatCompletion", { model: "m", messages: [{ role: "user", content: INPUT }], stream: true }],
    ["generateImages", { model: "m", prompt: INPUT }],
  ])("of %s can be parsed", async (operation, body) => {
    await show(operation, body);
    await run(runner, await snippet(runner.label));
  });
});

test("a WebSocket turn is valid Python", async () => {
  await show("openResponsesSocket", { type: "response.create", model: "m", input: INPUT });
  await run(PYTHON, await snippet("Python"));
});

test("a WebSocket turn runs with the SDK", async () => {
  await show("openResponsesSocket", { type: "response.create", model: "fast-chat", input: INPUT });
  const sdk = RUNNERS.find(({ label }) => label === "TypeScript");
  if (sdk === undefined) throw new Error("There is no TypeScript.");
  expect(await run(sdk, await snippet("TypeScript"))).toContain("response.completed");
});
