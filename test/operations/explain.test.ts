/** The `explain` command for operators: the history of a request, and what a key may call. */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Simulator, startSimulator } from "../../simulator/simulator.ts";
import { eventually } from "../support/eventually.ts";
import { type GatewayProcess, runCommand, startGatewayProcess } from "../support/gateway-process.ts";
import { keySecret, poolFile, sendToGateway } from "../support/pooled-gateway.ts";

setDefaultTimeout(60_000);

let folder: string;
let upstreams: Simulator[];
let gateway: GatewayProcess;

const SETUP = {
  accounts: [
    { priority: 1, models: { pooled: "fault/500", alone: "sim-alone" } },
    { priority: 2, models: { pooled: "sim-other" } },
  ],
  keys: { a: {}, limited: { limits: { rpm: 1 } } },
};

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "model-gateway-explain-"));
  upstreams = SETUP.accounts.map((_, i) => startSimulator({ seed: i + 1 }));
  const file = poolFile(
    SETUP,
    upstreams.map(({ url }) => url),
  );
  await Bun.write(join(folder, "gateway.yaml"), file);
  gateway = await startGatewayProcess({ folder, args: ["--config", "gateway.yaml"] });
});

afterAll(async () => {
  await gateway.stop();
  await Promise.all(upstreams.map((upstream) => upstream.stop()));
  rmSync(folder, { recursive: true, force: true });
});

const explain = (...args: string[]) => runCommand(["explain", ...args], { folder });

async function requestId(ask: Parameters<typeof sendToGateway>[1]): Promise<string> {
  const response = await sendToGateway(gateway.url, ask);
  await response.text();
  const id = response.headers.get("x-request-id") ?? "";
  // Requesting the usage writes pending rows first.
  const headers = { authorization: "Bearer test-key-0123456789-0123456789-0123456789" };
  await fetch(`${gateway.url}/v1/usage`, { headers });
  return id;
}

async function keyId(name: string): Promise<string> {
  const { output } = await runCommand(["keys", "list"], { folder });
  const line = output.split("\n").find((row) => new RegExp(`\\b${name}\\b`).test(row)) ?? "";
  const id = /\b[0-9A-Za-z]{8}\b/.exec(line)?.[0];
  if (id === undefined) throw new Error(`no key ${name} in:\n${output}`);
  return id;
}

test("another process on the same folder is rejected and does not remove the operator's socket", async () => {
  const refused = await runCommand(["start", "--config", "gateway.yaml"], { folder });
  expect(refused.code).not.toBe(0);
  expect(refused.output).toContain("is in use by process");
  const { output } = await explain("--key", await keyId("a"), "--model", "pooled");
  expect(output).toContain("available in");
});

test("an operator's socket left by a killed process is replaced", async () => {
  const other = mkdtempSync(join(tmpdir(), "model-gateway-explain-"));
  try {
    const killed = await startGatewayProcess({ folder: other });
    process.kill(killed.pid, "SIGKILL");
    await killed.exited;
    expect(existsSync(join(other, "data/control.sock"))).toBe(true);
    const next = await startGatewayProcess({ folder: other });
    const { output } = await runCommand(["keys", "list"], { folder: other });
    const id = /\b[0-9A-Za-z]{8}\b/.exec(output)?.[0] ?? "";
    const explained = await runCommand(["explain", "--key", id, "--model", "sim-fast"], { folder: other });
    expect(explained.output).toContain("available in");
    expect(await next.stop()).toBe(0);
    expect(existsSync(join(other, "data/control.sock"))).toBe(false);
  } finally {
    rmSync(other, { recursive: true, force: true });
  }
});

test("the fallback steps of a key are listed, with what keeps requests from them", async () => {
  const other = mkdtempSync(join(tmpdir(), "model-gateway-explain-"));
  try {
    const file = `
models: [{ id: fast, interfaces: [chat] }]
accounts: [{ name: sim, kind: simulator }]
groups:
  - { name: saver, models: [fast], accounts: [sim], fallback: [{ group: standard, when: [busy, failing], stay: 10m }] }
  - { name: standard, models: [fast] }
keys: [{ name: ci, group: saver }]`;
    await Bun.write(join(other, "gateway.yaml"), file);
    await runCommand(["apply", "gateway.yaml"], { folder: other });
    const { output } = await runCommand(["keys", "list"], { folder: other });
    const id = /\b[0-9A-Za-z]{8}\b/.exec(output)?.[0] ?? "";
    const explained = await runCommand(["explain", "--key", id, "--model", "fast"], { folder: other });
    expect(explained.output).toMatch(
      /^ *1 +standard +fast +busy, failing +none +- +- +10m +no_account_serves *$/m,
    );
  } finally {
    rmSync(other, { recursive: true, force: true });
  }
});

test("a key without a user is created in a group with a charging step only if it denies fallback", async () => {
  const other = mkdtempSync(join(tmpdir(), "model-gateway-explain-"));
  try {
    const file = `
models: [{ id: fast, interfaces: [chat], price: { input: "1" } }]
accounts: [{ name: sim, kind: simulator }]
groups:
  - { name: saver, models: [fast], accounts: [sim], fallback: [{ group: paid, when: [busy] }] }
  - { name: paid, models: [fast], accounts: [sim], billing: { charge: balance } }`;
    await Bun.write(join(other, "gateway.yaml"), file);
    await runCommand(["apply", "gateway.yaml"], { folder: other });
    const create = (...more: string[]) =>
      runCommand(["keys", "create", "--name", "ci", "--group", "saver", ...more], { folder: other });
    const rejected = await create();
    expect(rejected.code).not.toBe(0);
    expect(rejected.output).toContain('A fallback step of the group "saver" charges');
    expect((await create("--fallback", "deny")).code).toBe(0);
    const { output } = await runCommand(["keys", "list"], { folder: other });
    const id = /\b[0-9A-Za-z]{8}\b/.exec(output)?.[0] ?? "";
    const explained = await runCommand(["explain", "--key", id, "--model", "fast"], { folder: other });
    expect(explained.output).toContain("denied_by_key");
  } finally {
    rmSync(other, { recursive: true, force: true });
  }
});

describe("explain REQUEST_ID", () => {
  test("shows the steps of a request with fallback", async () => {
    // Accounts and groups of its own: the failures of this test must not cool down the account of the next one.
    const file = `
accounts:
  - name: failing
    kind: openai
    base_url: ${upstreams[0]?.url}
    private_network: true
    models: { pooled: fault/500 }
groups:
  - name: leaving
    interfaces: [chat]
    models: [pooled]
    accounts: [failing]
    fallback: [{ group: arriving, when: [failing] }]
  - { name: arriving, interfaces: [chat], models: [pooled], accounts: [account-1] }
keys: [{ name: leaving, group: leaving, secret: ${keySecret("leaving")} }]`;
    await Bun.write(join(folder, "leaving.yaml"), file);
    expect(await runCommand(["apply", "leaving.yaml"], { folder })).toMatchObject({ code: 0 });
    const send = () => sendToGateway(gateway.url, { key: "leaving" });
    await eventually(async () => (await send()).status, { equals: 200 });
    const { output } = await explain(await requestId({ key: "leaving" }));
    expect(output).toMatch(/^0 +leaving +pooled +\d+ ms +failed +failing +-\s*$/m);
    expect(output).toMatch(/^1 +arriving +pooled +\d+ ms +served +failing +-\s*$/m);
  });

  test("shows every attempt with its account, timing and failure, and all candidates", async () => {
    const id = await requestId({ key: "a" });
    const { code, output } = await explain(id);
    expect([code, output]).toEqual([0, output]);
    const lines = output.split("\n");
    expect(lines[0]).toStartWith(id);
    expect(lines[1]).toBe("chat.completions pooled");
    expect(lines[2]).toMatch(/^200 completed after \d+ ms, including 0 ms in the queue$/);
    expect(lines[3]).toMatch(/^tokens: \d+ in \(0 cached\), \d+ out \(0 reasoning\)$/);
    expect(output).toMatch(/^ *1 +account-0 +fault\/500 +\d+ ms +- +500 +server: status 500 *$/m);
    expect(output).toMatch(/^ *2 +account-1 +sim-other +\d+ ms +\d+ ms +200 +served *$/m);
    expect(output).toMatch(/^ *account-0 +fault\/500 +1 +- +tried *$/m);
    expect(output).toMatch(/^ *account-1 +sim-other +2 +[\d.]+ +eligible *$/m);
  });

  test("shows why a request was rejected", async () => {
    await requestId({ key: "limited" });
    const id = await requestId({ key: "limited", stream: true });
    const { code, output } = await explain(id);
    expect(code).toBe(0);
    expect(output).toContain("chat.completions pooled, streamed");
    expect(output).toContain("429 refused (rate_limit_exceeded)");
    expect(output).not.toContain("account-0");
  });

  test("reports an unknown request", async () => {
    const { code, output } = await explain("req_unknown");
    expect(code).not.toBe(0);
    expect(output).toContain("Request req_unknown does not exist.");
  });
});

describe("explain --key --model", () => {
  test("shows the steps and the accounts that would be tried", async () => {
    const { code, output } = await explain("--key", await keyId("a"), "--model", "alone");
    expect([code, output]).toEqual([0, output]);
    expect(output).toContain("✓ the key is active");
    expect(output).toContain("✓ the key belongs to group default");
    expect(output).toContain("✓ 1 of 2 accounts of the group can serve the model");
    expect(output).toMatch(/^ *account-0 +sim-alone +1 +1 +eligible *$/m);
    expect(output).toMatch(/^ *account-1 +- +2 +1 +no_model *$/m);
    expect(output).toContain("Result: this key can call alone.");
  });

  test("names the step that rejects, and ends there", async () => {
    const { code, output } = await explain("--key", await keyId("a"), "--model", "nonsense");
    expect(code).toBe(1);
    expect(output).toContain("✗ the model nonsense does not exist");
    expect(output).not.toContain("the model supports");
    expect(output).toContain("Result: this key cannot call nonsense.");
  });

  test("considers the interface", async () => {
    const { code, output } = await explain(
      "--key",
      await keyId("a"),
      "--model",
      "pooled",
      "--interface",
      "embeddings",
    );
    expect(code).toBe(1);
    expect(output).toContain("✗ the group does not include embeddings");
  });

  test.each([
    [["--key", "nobody00", "--model", "pooled"], "Key nobody00 does not exist."],
    [["--key", "nobody00"], "Missing arguments: set a request id, or --key and --model."],
    [["--key", "nobody00", "--model", "pooled", "--interface", "telepathy"], "--interface must be one of"],
  ])("%j results in a hint", async (args, expectedHint) => {
    const { code, output } = await explain(...args);
    expect(code).not.toBe(0);
    expect(output).toContain(expectedHint);
  });
});

describe("while the server runs, a dry run shows the live state", () => {
  test("of limits and the health of each account", async () => {
    const key = await keyId("limited");
    await (await sendToGateway(gateway.url, { key: "limited" })).text();
    const { code, output } = await explain("--key", key, "--model", "pooled");
    expect(code).toBe(0);
    expect(output).toContain("key: 1 of 1 requests in the last minute");
    expect(output).toMatch(/account-0 .*(?:eligible|cooling)/);
    expect(output).toMatch(/account-1 .*eligible/);
  });

  test("of a failing account with the cause of its cool-down", async () => {
    const key = await keyId("a");
    const { output } = await eventually(async () => {
      await (await sendToGateway(gateway.url, { key: "a" })).text();
      const explained = await explain("--key", key, "--model", "pooled");
      return explained.output.includes("cooling") ? explained : null;
    });
    expect(output).toMatch(/account-0 +- +cooling: server +\d+ s/);
  });
});
