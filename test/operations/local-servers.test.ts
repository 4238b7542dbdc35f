/** Accounts on this machine or in its network: every place that meets the address rule says what to change. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Simulator, startSimulator } from "../../simulator/simulator.ts";
import { type GatewayProcess, runCommand, startGatewayProcess } from "../support/gateway-process.ts";
import { TEST_KEY } from "../support/running-gateway.ts";

setDefaultTimeout(120_000);

const folder = mkdtempSync(join(tmpdir(), "model-gateway-local-"));
const ADVICE = "Add `private_network: true` to the account in the configuration file, and apply the file.";
let simulator: Simulator;
let gateway: GatewayProcess;

const file = (account: string) => `models: [{ id: m, interfaces: [chat] }]
accounts:
  - { name: local, kind: openai, ${account}, models: { m: sim-fast } }
groups: [{ name: default, interfaces: [chat], models: [m], accounts: [local] }]
keys: [{ name: ci, group: default, secret: ${TEST_KEY} }]
`;

beforeAll(async () => {
  simulator = startSimulator({ seed: 1 });
  await Bun.write(join(folder, "gateway.yaml"), file(`base_url: "${simulator.url}"`));
  gateway = await startGatewayProcess({ folder, args: ["--config", "gateway.yaml"] });
});
afterAll(async () => {
  await gateway?.stop();
  await simulator?.stop();
  rmSync(folder, { recursive: true, force: true });
});

test.each(["ollama", "vllm", "lmstudio"])(
  "the preset %s is rejected without private_network, with the line and the change",
  async (vendor) => {
    const data = ["--data", join(folder, "new")];
    await Bun.write(join(folder, "local.yaml"), file(`vendor: ${vendor}`));
    const rejected = await runCommand(["apply", "local.yaml", "--dry-run", ...data], { folder });
    expect(rejected.code).toBe(1);
    expect(rejected.output).toMatch(
      /local\.yaml:3:\d+ {2}accounts\[0\]\.private_network: must be true, because/,
    );
    expect(rejected.output).toContain(ADVICE);
    await Bun.write(join(folder, "local.yaml"), file(`vendor: ${vendor}, private_network: true`));
    expect(await runCommand(["apply", "local.yaml", "--dry-run", ...data], { folder })).toMatchObject({
      code: 0,
    });
    await Bun.write(
      join(folder, "local.yaml"),
      file(`vendor: ${vendor}, base_url: "https://llm.example/v1"`),
    );
    expect(await runCommand(["apply", "local.yaml", "--dry-run", ...data], { folder })).toMatchObject({
      code: 0,
    });
  },
);

test("a start and an apply with a blocked address say what to change", async () => {
  expect(gateway.output()).toContain(ADVICE);
  const { code, output } = await runCommand(["apply", "gateway.yaml"], { folder });
  expect([code, output]).toEqual([0, expect.stringContaining(ADVICE)]);
});

test("a request to a blocked address, and a dry run, explain what to change", async () => {
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${TEST_KEY}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "m", messages: [{ role: "user", content: "Hello" }] }),
  });
  expect(response.status).toBeGreaterThanOrEqual(500);
  // Callers are not operators: they learn nothing about the address.
  expect(await response.text()).not.toContain("127.0.0.1");
  const id = response.headers.get("x-request-id") ?? "";
  const explained = await runCommand(["explain", id], { folder });
  expect(explained.output).toContain("private_network: true for the account in the configuration file");
  const keys = JSON.parse((await runCommand(["keys", "list", "--json"], { folder })).output);
  const dry = await runCommand(["explain", "--key", keys[0].public_id, "--model", "m"], { folder });
  expect(dry.output).toContain(ADVICE);
  expect(dry.output).toContain("but the address of every account is blocked");
  expect(dry).toMatchObject({ code: 1 });
});
