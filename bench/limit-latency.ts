/**
 * What a concurrency of 1 adds to the latency of requests that reach three nodes in turn, so that the slot has to move:
 * on PostgreSQL, on Redis, and on a Redis that is 60 ms away. Requests without a limit take turns with them.
 * `bun bench/limit-latency.ts [requests of each]`
 */

import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startSimulator } from "../simulator/simulator.ts";
import { type GatewayProcess, startGatewayProcess } from "../test/support/gateway-process.ts";
import { keySecret } from "../test/support/pooled-gateway.ts";
import { startPostgres } from "../test/support/postgres.ts";
import { startRedis } from "../test/support/redis.ts";
import { startSilentProxy } from "../test/support/silent-proxy.ts";

const requests = Number(process.argv[2] ?? 3_000);
const NODES = 3;
const KEYS = 3_000;
const CLIENTS = 4;
const RESPONSE_MS = 5;
const WARM_UP = 600;
const FAR_MS = 60;

function buildFile(upstreamUrl: string): object {
  const key = (name: string, limits: object) => ({ name, group: "all", secret: keySecret(name), limits });
  return {
    models: [{ id: "m", interfaces: ["chat"] }],
    accounts: [
      {
        name: "upstream",
        kind: "openai",
        private_network: true,
        credential: "of-the-upstream",
        base_url: upstreamUrl,
        models: { m: `sim-fast@first=${RESPONSE_MS}ms` },
        interfaces: ["chat"],
      },
    ],
    groups: [{ name: "all", interfaces: ["chat"], models: ["m"], accounts: ["upstream"] }],
    keys: [key("free", {}), ...Array.from({ length: KEYS }, (_, n) => key(`key-${n}`, { concurrency: 1 }))],
  };
}

async function startNodes(file: object, env: Readonly<Record<string, string>>) {
  const folder = mkdtempSync(join(tmpdir(), "model-gateway-latency-"));
  const nodes: GatewayProcess[] = [];
  for (let n = 0; n < NODES; n++) {
    const nodeFolder = join(folder, `node-${n}`);
    mkdirSync(nodeFolder);
    await Bun.write(join(nodeFolder, "gateway.yaml"), JSON.stringify(file));
    const shared = { MODEL_GATEWAY_MASTER_KEY: Buffer.alloc(32, 7).toString("base64"), DRAIN_DELAY: "0s" };
    const args = ["--config", "gateway.yaml"];
    nodes.push(await startGatewayProcess({ folder: nodeFolder, args, env: { ...shared, ...env } }));
  }
  return {
    nodes,
    async stop() {
      for (const node of nodes) await node.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Returns the latency in milliseconds. */
async function send(node: GatewayProcess | undefined, key: string): Promise<number> {
  const startedMs = performance.now();
  const response = await fetch(`${node?.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${keySecret(key)}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "m", messages: [{ role: "user", content: "hi" }] }),
  });
  const text = await response.text();
  if (response.status !== 200) throw new Error(`${response.status} ${text}`);
  return performance.now() - startedMs;
}

interface Load {
  readonly name: string;
  readonly clients: number;
  pickKey(sent: number): string;
}

/** Each client repeats: a request with a limit, and one without, at the same node. */
async function measure(nodes: readonly GatewayProcess[], { clients, pickKey }: Load, count: number) {
  const limited: number[] = [];
  const free: number[] = [];
  let sent = 0;
  const run = async () => {
    while (sent < count) {
      const no = sent++;
      // In the next round over the keys, each key reaches another node.
      const node = nodes[(no + Math.floor(no / KEYS)) % nodes.length];
      limited.push(await send(node, pickKey(no)));
      free.push(await send(node, "free"));
    }
  };
  await Promise.all(Array.from({ length: clients }, run));
  return { limited: sortNumbers(limited), free: sortNumbers(free) };
}

const LOADS: readonly Load[] = [
  { name: `${KEYS} keys in turn`, clients: CLIENTS, pickKey: (sent) => `key-${sent % KEYS}` },
  { name: "one key, one request after another", clients: 1, pickKey: () => "key-0" },
];

const sortNumbers = (numbers: readonly number[]) => [...numbers].sort((a, b) => a - b);
const at = (sorted: readonly number[], part: number) => sorted[Math.floor(part * (sorted.length - 1))] ?? 0;

const upstream = startSimulator({});
const redis = await startRedis();
const proxy = startSilentProxy(
  { hostname: "127.0.0.1", port: Number(new URL(redis.url).port) },
  { delayMs: FAR_MS / 2 },
);
const engines = [
  ["PostgreSQL", {}],
  ["Redis", { REDIS_URL: redis.url }],
  [`Redis, ${FAR_MS} ms away`, { REDIS_URL: `redis://127.0.0.1:${proxy.port}` }],
] as const;
for (const [engine, env] of engines) {
  const database = await startPostgres();
  const { nodes, stop } = await startNodes(buildFile(upstream.url), { DATABASE_URL: database.url, ...env });
  for (const load of LOADS) {
    await measure(nodes, load, Math.min(WARM_UP, requests));
    const { limited, free } = await measure(nodes, load, requests);
    const added = [0.5, 0.99].map((part) => (at(limited, part) - at(free, part)).toFixed(1));
    console.log(
      `${engine}, ${load.name}: p50 / p99 + ${added.join(" / ")} ms (without a limit ${at(free, 0.5).toFixed(1)} / ${at(free, 0.99).toFixed(1)} ms), longest ${at(limited, 1).toFixed(0)} ms`,
    );
  }
  await stop();
  await database.stop();
}
proxy.stop();
await redis.stop();
await upstream.stop();
process.exit(0);
