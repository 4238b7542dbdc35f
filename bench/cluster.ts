/**
 * `npm run cluster`: three nodes behind nginx on PostgreSQL and Valkey or Redis, on this machine, to try. Everything
 * is in a temporary folder and ends with Ctrl+C. `-- --check` sends some requests and ends by itself.
 */

import { randomBytes } from "node:crypto";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { type Service, startNginx, startPostgres, startRedis } from "./cluster-services.ts";

const LAUNCHER = resolve(import.meta.dir, "../bin/model-gateway");
const NODES = 3;
const READY_WITHIN_MS = 60_000;

interface Node extends Service {
  readonly url: string;
  readonly pid: number;
}

const folder = mkdtempSync(join(tmpdir(), "model-gateway-cluster-"));
// PostgreSQL runs as another user, if this one is root.
chmodSync(folder, 0o711);
const running: Service[] = [];
const masterKey = randomBytes(32).toString("base64");

async function start<S extends Service>(starting: Promise<S>): Promise<S> {
  const service = await starting;
  running.push(service);
  return service;
}

/** In the reverse order, so that nodes can still write. */
async function stopAll(): Promise<void> {
  for (const service of running.toReversed()) await service.stop();
  rmSync(folder, { recursive: true, force: true });
}

async function startNode(number: number, environment: Readonly<Record<string, string>>): Promise<Node> {
  const data = join(folder, `node-${number}`);
  mkdirSync(data, { mode: 0o700 });
  const child = Bun.spawn([LAUNCHER, "start", "--data", data], {
    env: { PATH: process.env.PATH ?? "", PORT: "0", DRAIN_DELAY: "1s", ...environment },
    stdout: "pipe",
    stderr: Bun.file(join(folder, `node-${number}.log`)),
  });
  const reader = child.stdout.getReader();
  const decoder = new TextDecoder();
  let output = "";
  const deadlineMs = performance.now() + READY_WITHIN_MS;
  for (;;) {
    const url = /API +(http:\/\/\S+)\/v1/.exec(output)?.[1];
    if (url !== undefined) {
      reader.releaseLock();
      return {
        url,
        pid: child.pid,
        async stop() {
          child.kill("SIGTERM");
          await child.exited;
        },
      };
    }
    const { value, done } = await reader.read();
    if (done || performance.now() > deadlineMs) throw new Error(`node ${number} did not start:\n${output}`);
    output += decoder.decode(value, { stream: true });
  }
}

async function sendRequests(url: string, key: string): Promise<number> {
  const body = JSON.stringify({ model: "sim-fast", messages: [{ role: "user", content: "Hello" }] });
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  let served = 0;
  for (let i = 0; i < 30; i += 1) {
    const response = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body });
    if (response.ok) served += 1;
    else console.error(response.status, await response.text());
    await response.text().catch(() => "");
  }
  return served;
}

interface Cluster {
  readonly url: string;
  readonly key: string;
  readonly nodes: readonly Node[];
  readonly databaseUrl: string;
  readonly redisUrl: string;
}

function printInstructions({ url, key, nodes, databaseUrl, redisUrl }: Cluster): void {
  const environment = `DATABASE_URL=${databaseUrl} REDIS_URL=${redisUrl} MODEL_GATEWAY_MASTER_KEY=${masterKey}`;
  console.log(`
${NODES} nodes behind nginx:  ${url}
${nodes.map((node, index) => `  node ${index + 1}   ${node.url}   pid ${node.pid}`).join("\n")}

Try:

  # A request through nginx, which chooses a node
  curl ${url}/v1/chat/completions -H "authorization: Bearer ${key}" -H "content-type: application/json" \\
    -d '{"model": "sim-fast", "messages": [{"role": "user", "content": "Hello"}]}'

  # The nodes, as each of them sees the others
  ${environment} npx model-gateway nodes --data ${folder}/node-1

  # Kill a node. nginx sends its requests to the others, which settle what it left within a minute
  kill -9 ${nodes[1]?.pid}

  # Stop a node in order: it leaves first, and no request fails
  kill -TERM ${nodes[2]?.pid}

  # Prove that the ledger agrees
  ${environment} npx model-gateway audit --data ${folder}/node-1

Logs: ${folder}/node-*.log. Ctrl+C stops everything and removes the folder.
`);
}

async function main(): Promise<number> {
  const postgres = await start(startPostgres(join(folder, "postgres")));
  const redis = await start(startRedis(join(folder, "redis")));
  const environment = {
    DATABASE_URL: postgres.url,
    REDIS_URL: redis.url,
    MODEL_GATEWAY_MASTER_KEY: masterKey,
  };
  const nodes: Node[] = [];
  for (let number = 1; number <= NODES; number += 1) nodes.push(await start(startNode(number, environment)));
  const nginx = await start(
    startNginx(
      join(folder, "nginx"),
      nodes.map(({ url }) => url),
    ),
  );
  const key = readFileSync(join(folder, "node-1", "demo.key"), "utf8").trim();
  if (process.argv.includes("--check")) {
    const served = await sendRequests(nginx.url, key);
    console.log(`${served} of 30 requests served by ${NODES} nodes.`);
    return served === 30 ? 0 : 1;
  }
  printInstructions({ url: nginx.url, key, nodes, databaseUrl: postgres.url, redisUrl: redis.url });
  await new Promise<void>((resolve) => {
    process.once("SIGINT", () => resolve());
    process.once("SIGTERM", () => resolve());
  });
  console.log("Stopping.");
  return 0;
}

let exitCode = 1;
try {
  exitCode = await main();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
} finally {
  await stopAll();
}
process.exit(exitCode);
