/** Several processes on one port: what clients and operators see while processes are killed, replaced and stopped. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type Simulator, startSimulator } from "../../simulator/simulator.ts";
import { openDb } from "../../src/store/engine/db.ts";
import { eventually } from "../support/eventually.ts";
import { isRunning, ProcessesGateway } from "../support/processes-gateway.ts";
import { gatewayFile, TEST_KEY } from "../support/running-gateway.ts";

setDefaultTimeout(400_000);

const COUNT = 4;
const CLIENTS = 6;
const SLOW = "sim-fast@events=20,interval=100ms";

let simulator: Simulator;
let gateway: ProcessesGateway;

beforeAll(async () => {
  simulator = startSimulator({ seed: 1 });
  const file = gatewayFile({ models: { "fast-chat": "sim-fast", slow: SLOW } });
  gateway = await ProcessesGateway.create({
    count: COUNT,
    file: file.replace("users:\n", "users:\n  - { email: root@example.com, role: admin }\n"),
    environment: { SIMULATOR_URL: simulator.url },
  });
  await gateway.start();
}, 300_000);

afterAll(async () => {
  await gateway?.remove();
  await simulator?.stop();
});

function send(body: object, init: RequestInit = {}): Promise<Response> {
  return fetch(`${gateway.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${TEST_KEY}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "fast-chat", messages: [{ role: "user", content: "Hello" }], ...body }),
    ...init,
  });
}

/** Clients that send one request after the other, half of them on a new connection each, until they are stopped. */
class Load {
  readonly failures: string[] = [];
  responses = 0;
  #isStopped = false;
  readonly #clients: Promise<void>[] = [];

  constructor() {
    for (let i = 0; i < CLIENTS; i += 1) this.#clients.push(this.#run(i % 2 === 0));
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.all(this.#clients);
  }

  async #run(keepalive: boolean): Promise<void> {
    while (!this.#isStopped) {
      try {
        const response = await send({}, { keepalive });
        const text = await response.text();
        if (response.status === 200 && text.includes('"usage"')) this.responses += 1;
        else this.failures.push(`${response.status} ${text}`);
      } catch (error) {
        this.failures.push(String(error));
      }
      await Bun.sleep(5);
    }
  }
}

test("all processes serve the port, and an operator who reaches any of them sees all", async () => {
  for (let i = 0; i < 40; i += 1) expect((await send({}, { keepalive: false })).status).toBe(200);
  const file = join(gateway.folder, "token");
  const created = await gateway.run(
    "tokens",
    "create",
    "--name",
    "t",
    "--user",
    "root@example.com",
    "--secret-file",
    file,
  );
  expect(created).toMatchObject({ code: 0 });
  const authorization = `Bearer ${readFileSync(file, "utf8").trim()}`;
  const numbers = Array.from({ length: COUNT }, (_, i) => i + 1);

  const metrics = await fetch(`${gateway.url}/metrics`, { headers: { authorization } });
  const text = await metrics.text();
  const served = [...text.matchAll(/^gateway_requests_total\{.*process="(\d)"\} (\d+)$/gm)];
  expect(served.reduce((sum, [, , count]) => sum + Number(count), 0)).toBe(40);
  // The kernel divides connections by their hash: that one of four gets none of 40 is unlikely (1 in 25,000).
  expect(served.map(([, process]) => Number(process)).sort()).toEqual(numbers);

  const ready = await fetch(`${gateway.url}/readyz`);
  expect(await ready.json()).toEqual({
    status: "ready",
    store: "ok",
    draining: false,
    processes: numbers.map((process) => ({ process, status: "ready" })),
  });

  const nodes: { address: string }[] = JSON.parse((await gateway.run("nodes", "--json")).output);
  expect(nodes.map(({ address }) => Number(address.split("/")[1])).sort()).toEqual(numbers);
  const explained = await gateway.run("explain", "--key", await findKeyId(), "--model", "fast-chat");
  expect(explained.output).toContain(`Process ${COUNT} of ${COUNT}`);
});

test("a killed process comes back, and requests of the others are unharmed", async () => {
  const [killed = 0, ...others] = gateway.pids();
  const load = new Load();
  await eventually(() => load.responses > 50);
  const before = load.responses;
  process.kill(killed, "SIGKILL");
  await gateway.waitUntilAll((pid) => pid !== killed);
  await load.stop();
  // Each client can have had one request in flight on the process that was killed.
  expect(load.failures.length).toBeLessThanOrEqual(CLIENTS);
  expect(load.responses).toBeGreaterThan(before + 50);
  expect(gateway.pids()).toEqual(expect.arrayContaining(others));
  expect(gateway.supervisor.output()).toMatch(/"event":"process_ended".*"process":1,.*"signal":"SIGKILL"/);
});

test("SIGUSR2 replaces all processes without a failed request, and new ones have the environment of now", async () => {
  const before = gateway.pids();
  const load = new Load();
  await Bun.write(gateway.environmentPath, "ACCESS_LOG=on\n");
  gateway.supervisor.signal("SIGUSR2");
  await gateway.waitUntilAll((pid) => !before.includes(pid));
  await load.stop();
  expect(load.failures).toEqual([]);
  expect(load.responses).toBeGreaterThan(50);
  await (await send({})).text();
  await eventually(() => /"event":"request".*"process":\d/.test(gateway.supervisor.output()));
});

test("a replacement that does not start leaves the processes in place", async () => {
  const before = gateway.pids();
  await Bun.write(gateway.environmentPath, "ACCESS_LOG=perhaps\n");
  gateway.supervisor.signal("SIGUSR2");
  await eventually(() => gateway.supervisor.output().includes('"event":"replacement_failed"'), 60_000);
  expect(gateway.pids()).toEqual(before);
  expect((await send({})).status).toBe(200);
  await Bun.write(gateway.environmentPath, "");
});

test("SIGTERM lets requests finish and ends all processes with code 0", async () => {
  const pids = gateway.pids();
  const response = await send({ model: "slow", stream: true });
  gateway.supervisor.signal("SIGTERM");
  const text = await response.text();
  expect(text.trimEnd()).toEndWith("data: [DONE]");
  expect([await gateway.supervisor.exited, pids.filter(isRunning)]).toEqual([0, []]);
});

test("processes of a killed supervisor finish their requests and end, and the next start works", async () => {
  await gateway.start();
  const pids = gateway.pids();
  const response = await send({ model: "slow", stream: true });
  process.kill(gateway.supervisor.pid, "SIGKILL");
  await gateway.start();
  expect((await response.text()).trimEnd()).toEndWith("data: [DONE]");
  await eventually(() => !pids.some(isRunning), 30_000);
});

test("with fewer processes, what the others left is booked, and their folders are removed", async () => {
  await gateway.waitUntilAll(() => true);
  const db = await openDb(gateway.databaseUrl);
  const countRows = async () => Number((await db.sql`SELECT COUNT(*) AS rows FROM usage`)[0]?.rows);
  const load = new Load();
  await eventually(() => load.responses > 300);
  const pids = gateway.pids();
  for (const pid of [gateway.supervisor.pid, ...pids]) process.kill(pid, "SIGKILL");
  await eventually(() => !pids.some(isRunning));
  await load.stop();
  const left = readdirSync(join(gateway.nodeFolder(COUNT), "settlements"));
  expect(left.filter((name) => name.endsWith(".jsonl"))).not.toBeEmpty();
  const before = await countRows();
  gateway.count = 2;
  await gateway.start();
  expect(existsSync(gateway.nodeFolder(COUNT))).toBe(false);
  expect(gateway.supervisor.output()).toContain('"folder_recovered"');
  expect(await countRows()).toBeGreaterThan(before);
  await db.close();
});

async function findKeyId(): Promise<string> {
  const keys: { public_id: string }[] = JSON.parse((await gateway.run("keys", "list", "--json")).output);
  return keys[0]?.public_id ?? "";
}
