/** `init` in a terminal, against a vendor: the simulator, at a public address on this machine's loopback device. */

import { afterAll, afterEach, beforeAll, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { type Simulator, startSimulator } from "../../simulator/simulator.ts";
import { addVendorAddress, removeVendorAddress, VENDOR_ADDRESS } from "../../test/support/vendor-address.ts";

setDefaultTimeout(120_000);

const CREDENTIAL = 'sk-"quoted"-$HOME-`x`';
const MAIN = resolve(import.meta.dir, "main.ts");
const INPUTS_MAX = 3;
const VENDORS = resolve(import.meta.dir, "../accounts/vendors.ts");

let vendor: Simulator;
let folder = "";

beforeAll(() => {
  addVendorAddress();
  vendor = startSimulator({ hostname: VENDOR_ADDRESS, credential: CREDENTIAL });
});
afterAll(async () => {
  await vendor.stop();
  removeVendorAddress();
});
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "model-gateway-init-"));
  const preset = `(await import(${JSON.stringify(VENDORS)})).VENDOR_PRESETS.openai`;
  writeFileSync(join(folder, "preload.ts"), `${preset}.baseUrl = ${JSON.stringify(vendor.url)};`);
});
afterEach(() => rmSync(folder, { recursive: true }));

/** Types a line after each prompt. Returns the exit code and everything that the terminal showed. */
async function runInTerminal(lines: readonly (readonly [prompt: string, typed: string])[]) {
  let shown = "";
  const waiting = [...lines];
  const child = Bun.spawn([process.execPath, "--preload", "./preload.ts", MAIN, "init"], {
    cwd: folder,
    env: { PATH: process.env.PATH ?? "" },
    terminal: {
      data(terminal, bytes) {
        shown += new TextDecoder().decode(bytes);
        const [next] = waiting;
        if (next === undefined || !shown.includes(next[0])) return;
        waiting.shift();
        terminal.write(`${next[1]}\r`);
      },
    },
  });
  return { code: await child.exited, shown };
}

const QUESTIONS = {
  vendor: ["Vendor, by number or name", ""],
  credential: ["API key of OpenAI", CREDENTIAL],
  models: ["Models to publish", "sim-fast, sim-embed"],
  group: ["Group", ""],
  key: ["Name of the first key", "laptop"],
} as const;

test("it writes a file without the credential, an environment file for its owner only, and applies both", async () => {
  const { code, shown } = await runInTerminal(Object.values(QUESTIONS));
  expect(shown).toContain("A key was created.");
  expect(code).toBe(0);
  expect(shown).not.toContain(CREDENTIAL);
  const file = readFileSync(join(folder, "gateway.yaml"), "utf8");
  expect(Bun.YAML.parse(file)).toMatchObject({
    accounts: [{ name: "openai", vendor: "openai", models: { "sim-fast": "sim-fast" } }],
    groups: [{ name: "team", models: ["sim-fast", "sim-embed"], accounts: ["openai"] }],
    keys: [{ name: "laptop", group: "team" }],
  });
  expect(file).toContain(["$", "{OPENAI_API_KEY}"].join(""));
  expect(statSync(join(folder, "gateway.env")).mode & 0o777).toBe(0o600);
  expect(existsSync(join(folder, "data"))).toBe(true);
  expect(shown).toMatch(/MODEL_GATEWAY_ENVIRONMENT_FILE=gateway.env .*start --config gateway.yaml/);
  // The files are complete: applying them again changes nothing.
  const again = Bun.spawn([process.execPath, "--preload", "./preload.ts", MAIN, "apply", "gateway.yaml"], {
    cwd: folder,
    env: { PATH: process.env.PATH ?? "", MODEL_GATEWAY_ENVIRONMENT_FILE: "gateway.env" },
    stdout: "pipe",
  });
  expect(await new Response(again.stdout).text()).toContain("No changes");
});

test("at most three inputs lead from an empty folder to a response of the vendor's model", async () => {
  const lines = [
    QUESTIONS.vendor,
    QUESTIONS.credential,
    // The models of the simulator have no list price, so that one must be named.
    ["Models to publish", "sim-fast"],
    QUESTIONS.group,
    ["Name of the first key", ""],
  ] as const;
  expect(lines.filter(([, typed]) => typed !== "").length).toBeLessThanOrEqual(INPUTS_MAX);
  const { shown } = await runInTerminal(lines);
  const [secret = ""] = /gwk_\w+/.exec(shown) ?? [];
  const gateway = Bun.spawn(
    [process.execPath, "--preload", "./preload.ts", MAIN, "start", "--config", "gateway.yaml"],
    {
      cwd: folder,
      env: { PATH: process.env.PATH ?? "", PORT: "0", MODEL_GATEWAY_ENVIRONMENT_FILE: "gateway.env" },
      stdout: "pipe",
      stderr: "ignore",
    },
  );
  try {
    const response = await fetch(`${await readAddress(gateway.stdout)}/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${secret}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "sim-fast", messages: [{ role: "user", content: "Hello" }] }),
    });
    expect(await response.text()).toContain("built-in simulator");
  } finally {
    gateway.kill();
    await gateway.exited;
  }
});

/** The address of the API that a starting gateway prints. */
async function readAddress(output: ReadableStream<Uint8Array>): Promise<string> {
  let text = "";
  for await (const bytes of output) {
    text += new TextDecoder().decode(bytes);
    const [, address] = /API +(http:\/\/\S+\/v1)/.exec(text) ?? [];
    if (address !== undefined) return address;
  }
  throw new Error(`the gateway did not start:\n${text}`);
}

test("it overwrites nothing", async () => {
  writeFileSync(join(folder, "gateway.env"), "KEPT=1\n");
  const { code, shown } = await runInTerminal([]);
  expect(code).toBe(1);
  expect(shown).toContain("The file gateway.env exists. Nothing was written.");
  expect(readFileSync(join(folder, "gateway.env"), "utf8")).toBe("KEPT=1\n");
});

test("Ctrl+C and Ctrl+D end it at each question, and write nothing", async () => {
  const { vendor, credential } = QUESTIONS;
  for (const key of ["\x03", "\x04"]) {
    for (const lines of [[[vendor[0], key]], [vendor, [credential[0], key]]] as const) {
      const { code, shown } = await runInTerminal(lines);
      expect([code, shown.includes("The question was not answered.")]).toEqual([130, true]);
    }
  }
  expect(existsSync(join(folder, "gateway.env"))).toBe(false);
});

test("a rejected credential writes nothing", async () => {
  const { code, shown } = await runInTerminal([QUESTIONS.vendor, ["API key of OpenAI", "wrong"]]);
  expect(code).toBe(1);
  expect(shown).toContain("rejected the credential");
  expect(existsSync(join(folder, "gateway.yaml"))).toBe(false);
  expect(existsSync(join(folder, "data"))).toBe(false);
});
