/**
 * Two nodes are replaced by the next version and back, one after the other, while clients send requests, to which a
 * request policy applies. A fallback step serves some of them.
 */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Simulator, startSimulator } from "../../simulator/simulator.ts";
import { type Db, openDb } from "../../src/store/engine/db.ts";
import { SCHEMA_KNOWN } from "../../src/store/migrations/index.ts";
import { eventually } from "../support/eventually.ts";
import { type GatewayProcess, startGatewayProcess } from "../support/gateway-process.ts";
import { type LoadBalancer, startLoadBalancer } from "../support/load-balancer.ts";
import { buildNextVersion, type NextVersion } from "../support/next-version.ts";
import { bill, openBillingRecords, PRICE, paidFile, SIMULATOR } from "../support/paid-gateway.ts";
import { type Postgres, startPostgres } from "../support/postgres.ts";
import { TEST_KEY } from "../support/running-gateway.ts";
import { openSocketClient, type SocketClient } from "../support/turn-client.ts";

const HTTP_CLIENTS = 4;
const SOCKET_CLIENTS = 2;
const BACKGROUND_CLIENTS = 2;
/** Between two requests of a client: the test is about every request of the upgrade, not about throughput. */
const PAUSE_MS = 25;

/** A background response of `slow` outlives a node that is being replaced. */
const MODELS = { paid: "sim-fast", slow: "sim-fast@background=1500ms,bytes=4000" };
const FAILING = { failing: "fault/500" };
const account = (name: string, models: object) => ({
  name,
  kind: "openai",
  base_url: SIMULATOR,
  credential: "credential",
  private_network: true,
  models,
});
const FILE = paidFile({
  balance: "100",
  models: {
    ...MODELS,
    paid: { upstream: MODELS.paid, more: { context_tokens: 100_000 } },
    failing: { upstream: FAILING.failing, more: { fallback: [{ model: "paid", when: ["failing"] }] } },
  },
  accounts: [account("sim", MODELS), account("broken", FAILING)],
  policies: [{ name: "no-search", tools: { deny: ["web_search"] } }],
  // Without a queue, a request leaves a failing account at once.
  group: { request_policy: "no-search", queue: { max_waiting: 0 } },
});
const HEADERS = { authorization: `Bearer ${TEST_KEY}`, "content-type": "application/json" };

let postgres: Postgres;
let simulator: Simulator;
let balancer: LoadBalancer;
let next: NextVersion;
let db: Db;
const folder = mkdtempSync(join(tmpdir(), "model-gateway-upgrade-"));
const running = new Set<GatewayProcess>();
let folders = 0;

beforeAll(async () => {
  postgres = await startPostgres();
  simulator = startSimulator({ seed: 1, tokens: "o200k" });
  balancer = startLoadBalancer();
  next = buildNextVersion();
  db = await openDb(postgres.url);
}, 300_000);

afterAll(async () => {
  for (const node of running) await node.stop();
  balancer?.stop();
  await simulator?.stop();
  await db?.close();
  await postgres?.stop();
  next?.remove();
  rmSync(folder, { recursive: true, force: true });
});

/** Resolves when the load balancer sends requests to it. */
async function startNode(program?: string): Promise<GatewayProcess> {
  const nodeFolder = join(folder, String(++folders));
  mkdirSync(nodeFolder);
  await Bun.write(join(nodeFolder, "gateway.yaml"), FILE);
  const node = await startGatewayProcess({
    folder: nodeFolder,
    args: ["--config", "gateway.yaml"],
    env: {
      DATABASE_URL: postgres.url,
      MODEL_GATEWAY_MASTER_KEY: Buffer.alloc(32, 7).toString("base64"),
      SIMULATOR_URL: simulator.url,
      DRAIN_DELAY: "400ms",
    },
    ...(program === undefined ? {} : { program }),
  });
  running.add(node);
  await balancer.add(node.url);
  return node;
}

async function stopNode(node: GatewayProcess): Promise<void> {
  const code = await node.stop();
  running.delete(node);
  balancer.remove(node.url);
  expect([code, node.output()]).toEqual([0, node.output()]);
}

interface BackgroundResponse {
  readonly id: string;
  readonly status: string;
  readonly usage: { readonly input_tokens: number; readonly output_tokens: number };
}

/** Clients that send one request after the other until they are stopped. */
class Load {
  readonly failures: string[] = [];
  responses = 0;
  /** The responses that a fallback step served. */
  moved = 0;
  turns = 0;
  reconnects = 0;
  /** The usage of each background response, by its request. */
  readonly background = new Map<string, BackgroundResponse["usage"]>();
  #isStopped = false;
  readonly #clients: Promise<void>[] = [];

  start(): void {
    for (let i = 0; i < HTTP_CLIENTS; i += 1) this.#clients.push(this.#sendRequests(i));
    for (let i = 0; i < SOCKET_CLIENTS; i += 1) this.#clients.push(this.#takeTurns());
    for (let i = 0; i < BACKGROUND_CLIENTS; i += 1) this.#clients.push(this.#followResponses());
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.all(this.#clients);
  }

  async #sendRequests(client: number): Promise<void> {
    const stream = client % 2 === 0;
    const isMoved = client < HTTP_CLIENTS / 2;
    const messages = [{ role: "user", content: "Hello" }];
    const model = isMoved ? "failing" : "paid";
    const body = JSON.stringify({ model, stream, messages, web_search_options: {} });
    while (!this.#isStopped) {
      try {
        const response = await fetch(`${balancer.url}/v1/chat/completions`, {
          method: "POST",
          headers: HEADERS,
          body,
        });
        const text = await response.text();
        const isWhole = stream ? text.trimEnd().endsWith("data: [DONE]") : text.includes('"usage"');
        const isRestricted = response.headers.get("x-gateway-policy")?.startsWith("tools=-") ?? false;
        const isServed = (response.headers.get("x-gateway-step") === "1") === isMoved;
        if (response.status === 200 && isWhole && isRestricted && isServed) {
          this.responses += 1;
          if (isMoved) this.moved += 1;
        } else this.failures.push(`${response.status} ${text.slice(-300)}`);
      } catch (error) {
        this.failures.push(String(error));
      }
      await Bun.sleep(PAUSE_MS);
    }
  }

  /** Responses that any node serves until they have ended. */
  async #followResponses(): Promise<void> {
    const body = JSON.stringify({ model: "slow", input: "Hello", background: true });
    while (!this.#isStopped) {
      const url = `${balancer.url}/v1/responses`;
      try {
        const begun = await fetch(url, { method: "POST", headers: HEADERS, body });
        let response = (await begun.json()) as BackgroundResponse;
        while (["queued", "in_progress"].includes(response.status)) {
          await Bun.sleep(100);
          const retrieved = await fetch(`${url}/${response.id}`, { headers: HEADERS });
          response = (await retrieved.json()) as BackgroundResponse;
        }
        const requestId = begun.headers.get("x-request-id") ?? "";
        if (response.status === "completed") this.background.set(requestId, response.usage);
        else this.failures.push(JSON.stringify(response));
      } catch (error) {
        this.failures.push(String(error));
      }
    }
  }

  /** A turn that a closing connection rejects is sent again on a new one, as Codex does it. */
  async #takeTurns(): Promise<void> {
    let client: SocketClient | null = null;
    while (!this.#isStopped) {
      try {
        client ??= await openSocketClient(balancer.url);
        const closed = client.closed.then(() => "closed" as const);
        const ended = await Promise.race([client.turn({ model: "paid", input: "Hello" }), closed]);
        if (ended !== "closed" && ended.last.type === "response.completed") this.turns += 1;
        else if (ended === "closed" || isClosing(ended.last)) {
          this.reconnects += 1;
          client = null;
        } else this.failures.push(JSON.stringify(ended.last));
      } catch (error) {
        this.failures.push(String(error));
      }
      await Bun.sleep(PAUSE_MS);
    }
    client?.close();
  }
}

function isClosing({ error }: Record<string, unknown>): boolean {
  return JSON.stringify(error)?.includes("websocket_connection_limit_reached") ?? false;
}

async function readSchema(): Promise<number> {
  const [row] = await db.sql`SELECT MAX(version) AS version FROM migration`;
  return Number(row?.version);
}

test("nodes are upgraded and rolled back one by one without a failed request", async () => {
  let nodes = [await startNode(), await startNode()];
  const load = new Load();
  load.start();
  const replaceAll = async (program?: string) => {
    const replaced = nodes;
    nodes = [];
    for (const node of replaced) {
      nodes.push(await startNode(program));
      await stopNode(node);
    }
  };
  expect(await readSchema()).toBe(SCHEMA_KNOWN);
  await replaceAll(next.program);
  expect(await readSchema()).toBe(next.schema);
  await replaceAll();
  const before = load.responses;
  await eventually(() => load.responses > before + HTTP_CLIENTS);
  await load.stop();
  for (const node of nodes) await stopNode(node);
  expect(load.failures).toEqual([]);
  expect(load.responses).toBeGreaterThan(HTTP_CLIENTS * 10);
  expect(load.turns).toBeGreaterThan(SOCKET_CLIENTS * 5);
  // Each of the four replaced nodes had sockets.
  expect(load.reconnects).toBeGreaterThanOrEqual(SOCKET_CLIENTS);
  const records = openBillingRecords(db);
  await records.expectReconciled();
  expect(load.background.size).toBeGreaterThan(BACKGROUND_CLIENTS * 3);
  for (const [requestId, { input_tokens, output_tokens }] of load.background) {
    const row = await records.row(requestId);
    const priceNano = bill([
      [input_tokens, PRICE.input],
      [output_tokens, PRICE.output],
    ]);
    expect([row.outcome, row.usageSource, row.chargedNano]).toEqual(["completed", "upstream", priceNano]);
  }
  const [booked] = await db.sql`SELECT COUNT(*) AS many FROM usage_row WHERE charged_nano > 0`;
  expect(Number(booked?.many)).toBeGreaterThanOrEqual(load.responses + load.turns);
  expect(load.moved).toBeGreaterThan(HTTP_CLIENTS * 5);
  const [moved] = await db.sql`
    SELECT COUNT(*) AS many FROM usage
    WHERE fallback_step = 1 AND requested_model = 'failing' AND public_model = 'paid' AND charged_nano > 0`;
  expect(Number(moved?.many)).toBeGreaterThanOrEqual(load.moved);
}, 120_000);
