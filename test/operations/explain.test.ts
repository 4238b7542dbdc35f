/** The `explain` command as an operator runs it: what happened to a request, and what a key may call. */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Simulator, startSimulator } from "../../simulator/simulator.ts";
import { eventually } from "../support/eventually.ts";
import { type GatewayProcess, runCommand, startGatewayProcess } from "../support/gateway-process.ts";
import { askGateway, poolFile } from "../support/pooled-gateway.ts";

setDefaultTimeout(30_000);

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

async function requestId(ask: Parameters<typeof askGateway>[1]): Promise<string> {
  const response = await askGateway(gateway.url, ask);
  await response.text();
  const id = response.headers.get("x-request-id") ?? "";
  // Asking for usage writes what is on its way first.
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

test("another process on the same folder is refused, and leaves the first one's socket alone", async () => {
  const refused = await runCommand(["start", "--config", "gateway.yaml"], { folder });
  expect(refused.code).not.toBe(0);
  expect(refused.output).toContain("is in use by process");
  const { output } = await explain("--key", await keyId("a"), "--model", "pooled");
  expect(output).toContain("account now");
});

test("a door that a killed process left behind is taken over", async () => {
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
    expect(explained.output).toContain("account now");
    expect(await next.stop()).toBe(0);
    expect(existsSync(join(other, "data/control.sock"))).toBe(false);
  } finally {
    rmSync(other, { recursive: true, force: true });
  }
});

describe("explain REQUEST_ID", () => {
  test("shows every attempt with its account, its timing and why it failed, and what was weighed", async () => {
    const id = await requestId({ key: "a" });
    const { code, output } = await explain(id);
    expect([code, output]).toEqual([0, output]);
    const lines = output.split("\n");
    expect(lines[0]).toStartWith(id);
    expect(lines[1]).toBe("chat.completions pooled");
    expect(lines[2]).toMatch(/^200 completed after \d+ ms, 0 ms of it waiting$/);
    expect(lines[3]).toMatch(/^tokens: \d+ in \(0 cached\), \d+ out \(0 reasoning\)$/);
    expect(output).toMatch(/^ *1 +account-0 +fault\/500 +\d+ ms +- +500 +server: status 500 *$/m);
    expect(output).toMatch(/^ *2 +account-1 +sim-other +\d+ ms +\d+ ms +200 +served *$/m);
    expect(output).toMatch(/^ *account-0 +fault\/500 +1 +- +tried *$/m);
    expect(output).toMatch(/^ *account-1 +sim-other +2 +[\d.]+ +eligible *$/m);
  });

  test("shows why a request was refused", async () => {
    await requestId({ key: "limited" });
    const id = await requestId({ key: "limited", stream: true });
    const { code, output } = await explain(id);
    expect(code).toBe(0);
    expect(output).toContain("chat.completions pooled, streamed");
    expect(output).toContain("429 refused (rate_limit_exceeded)");
    expect(output).not.toContain("account-0");
  });

  test("says so when there is no such request", async () => {
    const { code, output } = await explain("req_unknown");
    expect(code).not.toBe(0);
    expect(output).toContain("There is no request req_unknown.");
  });
});

describe("explain --key --model", () => {
  test("shows the steps, and the accounts that would be asked", async () => {
    const { code, output } = await explain("--key", await keyId("a"), "--model", "alone");
    expect([code, output]).toEqual([0, output]);
    expect(output).toContain("✓ the key is active");
    expect(output).toContain("✓ its group is default");
    expect(output).toContain("✓ 1 of 2 accounts in the pool can serve it");
    expect(output).toMatch(/^ *account-0 +sim-alone +1 +1 +eligible *$/m);
    expect(output).toMatch(/^ *account-1 +- +2 +1 +no_model *$/m);
    expect(output).toContain("This key may call alone.");
  });

  test("names the step that refuses, and ends there", async () => {
    const { code, output } = await explain("--key", await keyId("a"), "--model", "nonsense");
    expect(code).toBe(1);
    expect(output).toContain("✗ there is no model nonsense");
    expect(output).not.toContain("the model serves");
    expect(output).toContain("This key may not call nonsense.");
  });

  test("takes the interface into account", async () => {
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
    [["--key", "nobody00", "--model", "pooled"], "There is no key nobody00."],
    [["--key", "nobody00"], "Name a request id, or --key and --model."],
    [["--key", "nobody00", "--model", "pooled", "--interface", "telepathy"], "--interface must be one of"],
  ])("%j is answered with what to do", async (args, told) => {
    const { code, output } = await explain(...args);
    expect(code).not.toBe(0);
    expect(output).toContain(told);
  });
});

describe("while the server runs, a dry run tells how things stand now", () => {
  test("the limits in use and the health of each account", async () => {
    const key = await keyId("limited");
    await (await askGateway(gateway.url, { key: "limited" })).text();
    const { code, output } = await explain("--key", key, "--model", "pooled");
    expect(code).toBe(0);
    expect(output).toContain("key: 1 of 1 requests in the last minute");
    expect(output).toMatch(/account-0 .*(?:eligible|cooling)/);
    expect(output).toMatch(/account-1 .*eligible/);
  });

  test("a failing account with the failure that it cools down after", async () => {
    const key = await keyId("a");
    const { output } = await eventually(async () => {
      await (await askGateway(gateway.url, { key: "a" })).text();
      const explained = await explain("--key", key, "--model", "pooled");
      return explained.output.includes("cooling") ? explained : null;
    });
    expect(output).toMatch(/account-0 +- +cooling: server +\d+ s/);
  });
});
