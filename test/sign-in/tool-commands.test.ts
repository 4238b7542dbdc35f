/** `login`, `token`, `logout`, `setup` and `run`, as a developer calls them on the own computer. */

import { afterAll, afterEach, beforeAll, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { type SignedInClient, signInAs } from "../support/console-client.ts";
import { type ProcessResult, readProcessResult } from "../support/process-result.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";
import { ToolClient } from "../support/tool-client.ts";

// Every command is a separate process, and the machine may be busy.
setDefaultTimeout(120_000);

const LAUNCHER = resolve(import.meta.dir, "../../bin/model-gateway");

let gateway: RunningGateway;
let ada: SignedInClient;
let home: string;

beforeAll(async () => {
  gateway = await startTestGateway();
  ada = await signInAs(gateway, "ada@example.com");
  await gateway.apply("tool_sign_in: {}");
  const tool = new ToolClient(gateway.url);
  await tool.ready();
});
afterAll(() => gateway.stop());

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "model-gateway-home-"));
});
afterEach(() => rmSync(home, { recursive: true }));

function spawn(args: string[], environment: Readonly<Record<string, string>> = {}) {
  return Bun.spawn([LAUNCHER, ...args], {
    cwd: home,
    env: { PATH: `${join(home, "bin")}:${process.env.PATH}`, HOME: home, ...environment },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
}

function run(...args: string[]): Promise<ProcessResult> {
  return readProcessResult(spawn(args));
}

const credentialsPath = () => join(home, ".config/model-gateway/credentials.json");

async function logIn(name: string): Promise<void> {
  const child = spawn(["login", gateway.url]);
  const reader = child.stderr.getReader();
  let text = "";
  while (!/user_code=\S{9}/.test(text)) {
    const { value, done } = await reader.read();
    if (done) throw new Error(`The command ended: ${text}`);
    text += new TextDecoder().decode(value);
  }
  const userCode = /user_code=(\S{9})/.exec(text)?.[1] ?? "";
  await ada.call("tools.approve", { body: { user_code: userCode, name, group: "default" } });
  expect(await child.exited).toBe(0);
}

interface Stored {
  gateways: Record<string, { access_token: string; expires_at: number; refresh_token: string }>;
}

function editCredentials(edit: (tokens: Stored["gateways"][string]) => void): void {
  const stored: Stored = JSON.parse(readFileSync(credentialsPath(), "utf8"));
  for (const tokens of Object.values(stored.gateways)) edit(tokens);
  writeFileSync(credentialsPath(), JSON.stringify(stored));
}

test("login stores tokens for this user only, token prints one, logout ends the sign-in", async () => {
  await logIn("cli");
  expect(statSync(credentialsPath()).mode & 0o777).toBe(0o600);
  const printed = await run("token");
  expect(printed).toMatchObject({ code: 0, err: "" });
  // The address as it may be copied from another tool.
  expect(await run("token", "--url", `${gateway.url}/v1/`)).toMatchObject({ code: 0, out: printed.out });
  const access = printed.out.trim();
  const tool = new ToolClient(gateway.url);
  expect((await tool.callModel(access)).status).toBe(200);
  expect((await run("logout")).code).toBe(0);
  expect((await tool.callModel(access)).status).toBe(401);
  const after = await run("token");
  expect(after.code).toBe(1);
  expect(after.err).toContain("is not signed in");
});

test("two commands at once refresh once, and both print a token that works", async () => {
  await logIn("parallel");
  editCredentials((tokens) => {
    tokens.expires_at = Date.now() + 1_000;
  });
  const printed = await Promise.all([run("token"), run("token"), run("token")]);
  const tokens = printed.map(({ out }) => out.trim());
  expect(new Set(tokens).size).toBe(1);
  expect((await new ToolClient(gateway.url).callModel(tokens[0] ?? "")).status).toBe(200);
  expect(statSync(credentialsPath()).mode & 0o777).toBe(0o600);
});

test("a sign-in that was ended in the console asks to sign in again", async () => {
  await logIn("ended");
  const tools = (await ada.call("tools.list")).data;
  const id = tools.find(({ name }) => name === "ended")?.id ?? "";
  await ada.call("keys.revoke", { params: { id } });
  editCredentials((tokens) => {
    tokens.expires_at = 0;
  });
  const printed = await run("token");
  expect(printed).toMatchObject({ code: 1, out: "" });
  expect(printed.err).toContain(`login ${gateway.url}`);
});

test("without the gateway, a token that still works is printed with a note", async () => {
  await logIn("offline");
  editCredentials((tokens) => {
    tokens.expires_at = Date.now() + 60_000;
    Object.assign(tokens, { token_endpoint: "http://127.0.0.1:9/oauth/token" });
  });
  const printed = await run("token");
  expect(printed.code).toBe(0);
  expect(printed.out.trim()).toStartWith("gwk_");
  expect(printed.err).toContain("could not be refreshed");
});

test("setup shows the change, keeps other settings, and writes nothing twice", async () => {
  await logIn("setup");
  mkdirSync(join(home, ".claude"));
  const claude = join(home, ".claude/settings.json");
  writeFileSync(claude, JSON.stringify({ theme: "dark", env: { A: "1" } }));
  const shown = await run("setup", "claude", "--dry-run");
  expect(shown.out).toContain(`+     "ANTHROPIC_BASE_URL": "${gateway.url}"`);
  expect(JSON.parse(readFileSync(claude, "utf8"))).toEqual({ theme: "dark", env: { A: "1" } });
  expect((await run("setup", "claude", "--yes")).code).toBe(0);
  expect(JSON.parse(readFileSync(claude, "utf8"))).toMatchObject({
    theme: "dark",
    env: { A: "1", ANTHROPIC_BASE_URL: gateway.url },
    apiKeyHelper: expect.stringContaining(`token --url ${gateway.url}`),
  });
  expect((await run("setup", "claude", "--yes")).out).toContain("up to date");

  mkdirSync(join(home, ".codex"));
  const codex = join(home, ".codex/config.toml");
  const profile = '[profiles.direct]\nmodel_provider = "openai"\n';
  writeFileSync(
    codex,
    `model = "a"\nmodel_provider = "openai"\n\n[analytics]\nenabled = false\n\n${profile}`,
  );
  for (let i = 0; i < 2; i++) expect((await run("setup", "codex", "--yes")).code).toBe(0);
  expect(Bun.TOML.parse(readFileSync(codex, "utf8"))).toMatchObject({
    model: "a",
    model_provider: "model-gateway",
    analytics: { enabled: false },
    profiles: { direct: { model_provider: "openai" } },
    model_providers: { "model-gateway": { base_url: `${gateway.url}/v1` } },
  });

  expect((await run("setup", "gemini", "--yes")).code).toBe(0);
  expect((await run("setup", "opencode", "--yes")).code).toBe(0);
  const opencode = JSON.parse(readFileSync(join(home, ".config/opencode/opencode.json"), "utf8"));
  expect(opencode.provider["model-gateway"].models).toHaveProperty("fast-chat");
  const refused = await run("setup", "claude", "--yes", "--url", "https://other.example.com");
  expect(refused.code).toBe(1);
});

test("run passes address, token and arguments, and returns the exit code of the tool", async () => {
  await logIn("run");
  mkdirSync(join(home, "bin"));
  writeFileSync(
    join(home, "bin/gemini"),
    '#!/bin/sh\necho "$GOOGLE_GEMINI_BASE_URL $GEMINI_API_KEY $@"\nexit 3\n',
  );
  chmodSync(join(home, "bin/gemini"), 0o755);
  const ran = await run("run", "gemini", "--", "-p", "say hello");
  expect(ran.code).toBe(3);
  expect(ran.out).toStartWith(`${gateway.url} gwk_`);
  expect(ran.out.trim()).toEndWith("-p say hello");
  expect(existsSync(join(home, ".gemini"))).toBe(false);
});

test("a credential of another provider in the shell is not sent to the gateway by Claude Code", async () => {
  await logIn("claude");
  mkdirSync(join(home, "bin"));
  writeFileSync(
    join(home, "bin/claude"),
    '#!/bin/sh\necho "$ANTHROPIC_BASE_URL [$ANTHROPIC_API_KEY$ANTHROPIC_AUTH_TOKEN]"\n',
  );
  chmodSync(join(home, "bin/claude"), 0o755);
  const shell = { ANTHROPIC_API_KEY: "key-of-the-vendor", ANTHROPIC_AUTH_TOKEN: "token-of-the-vendor" };
  const ran = await readProcessResult(spawn(["run", "claude"], shell));
  expect(ran.out).toBe(`${gateway.url} []\n`);
  const shown = await readProcessResult(spawn(["setup", "claude", "--yes"], shell));
  expect(shown.code).toBe(0);
  expect(shown.err).toContain("ANTHROPIC_API_KEY and ANTHROPIC_AUTH_TOKEN");
});

test("login refuses an address to which tokens would be sent in the clear", async () => {
  const refused = await run("login", "http://llm.example.com");
  expect(refused).toMatchObject({ code: 2 });
  expect(refused.err).toContain("https://");
});
