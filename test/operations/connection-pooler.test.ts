/** Two nodes behind a real PgBouncer in transaction mode, which also fails and returns. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Simulator, startSimulator } from "../../simulator/simulator.ts";
import { type Db, openDb } from "../../src/store/engine/db.ts";
import { eventually } from "../support/eventually.ts";
import { type GatewayProcess, runCommand, startGatewayProcess } from "../support/gateway-process.ts";
import { openBillingRecords, PAYER, paidFile } from "../support/paid-gateway.ts";
import { type PgBouncer, startPgBouncer } from "../support/pgbouncer.ts";
import { type Postgres, startPostgres } from "../support/postgres.ts";
import { TEST_KEY } from "../support/running-gateway.ts";

setDefaultTimeout(120_000);

const MASTER_KEY = Buffer.alloc(32, 7).toString("base64");
/** Enough at once that write-behind billing is used, and enough connections that PgBouncer shares them. */
const CLIENTS = 60;

let postgres: Postgres;
let pooler: PgBouncer;
let simulator: Simulator;
let db: Db;
let nodes: GatewayProcess[];
let succeeded = 0;
const folder = mkdtempSync(join(tmpdir(), "model-gateway-pooler-"));

beforeAll(async () => {
  postgres = await startPostgres();
  pooler = await startPgBouncer(postgres.url);
  simulator = startSimulator({ seed: 1, tokens: "o200k" });
  // The first node migrates the empty database through the pooler.
  nodes = [await startNode("one"), await startNode("two")];
  db = await openDb(postgres.url);
}, 300_000);

afterAll(async () => {
  for (const node of nodes ?? []) await node.stop();
  await simulator?.stop();
  await pooler?.stop();
  await db?.close();
  await postgres?.stop();
  rmSync(folder, { recursive: true, force: true });
});

async function startNode(name: string, env: Record<string, string> = {}): Promise<GatewayProcess> {
  const nodeFolder = join(folder, name);
  mkdirSync(nodeFolder, { recursive: true });
  await Bun.write(join(nodeFolder, "gateway.yaml"), paidFile({ balance: "100" }));
  return startGatewayProcess({
    folder: nodeFolder,
    args: ["--config", "gateway.yaml"],
    env: {
      DATABASE_URL: pooler.url,
      MODEL_GATEWAY_MASTER_KEY: MASTER_KEY,
      SIMULATOR_URL: simulator.url,
      DRAIN_DELAY: "0s",
      ...env,
    },
  });
}

async function send(node: number, init: { key?: string; stream?: boolean } = {}): Promise<number> {
  const { key = TEST_KEY, stream = false } = init;
  const response = await fetch(`${nodes[node]?.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "paid", stream, messages: [{ role: "user", content: "Hello" }] }),
  });
  await response.text();
  if (response.status === 200) succeeded += 1;
  return response.status;
}

const run = (args: readonly string[], env: Record<string, string> = {}) =>
  runCommand(args, {
    folder: join(folder, "one"),
    env: { DATABASE_URL: pooler.url, MODEL_GATEWAY_MASTER_KEY: MASTER_KEY, ...env },
  });

const sendMany = (count: number) =>
  Promise.all(Array.from({ length: count }, (_, i) => send(i % 2, { stream: i % 3 === 0 })));

/** Every success was charged once, and the ledger is right. */
async function expectAllCharged(): Promise<void> {
  await eventually(async () => {
    const [row] = await db.sql`SELECT COUNT(*) AS many FROM usage_row WHERE charged_nano > 0`;
    return Number(row?.many) === succeeded;
  });
  await openBillingRecords(db).expectReconciled();
}

test("paid requests on two nodes are served and charged", async () => {
  for (let round = 0; round < 5; round += 1)
    expect(await sendMany(CLIENTS)).toEqual(Array(CLIENTS).fill(200));
  await expectAllCharged();
});

test("a change reaches the other node without notifications", async () => {
  const key = "second-key-0123456789-0123456789-01234567";
  const file = JSON.stringify({ keys: [{ name: "second", user: PAYER, group: "paying", secret: key }] });
  await Bun.write(join(folder, "one", "second.yaml"), file);
  const { code, output } = await run(["apply", "second.yaml"]);
  expect([code, output]).toEqual([0, output]);
  await eventually(() => send(1, { key }), { equals: 200 });
  for (const node of nodes) expect(node.output()).toContain("notifications_unavailable");
});

test("doctor reports the missing address for notifications, and audit finds no error", async () => {
  const doubted = await run(["doctor"]);
  expect(doubted.output).toContain("Set DATABASE_LISTEN_URL");
  const direct = await run(["doctor"], { DATABASE_LISTEN_URL: postgres.url });
  expect(direct.output).not.toContain("DATABASE_LISTEN_URL");
  expect((await run(["audit"])).code).toBe(0);
});

test("a node with DATABASE_LISTEN_URL is notified by PostgreSQL itself", async () => {
  const listening = await startNode("three", { DATABASE_LISTEN_URL: postgres.url });
  const listListeners = () => db.sql`
    SELECT pid FROM pg_stat_activity WHERE application_name = 'model-gateway listener'
      AND datname = current_database()`;
  // One for changes of the policy, one for limits. They may connect after the node is ready.
  await eventually(async () => (await listListeners()).length, { equals: 2 });
  expect(await listening.stop()).toBe(0);
  expect(listening.output()).not.toContain("notifications_unavailable");
});

test("nodes reconnect after the pooler was restarted, and charge what ended meanwhile", async () => {
  const restarting = pooler.restart(1_000);
  const during = await sendMany(CLIENTS);
  await restarting;
  for (const status of during) expect([200, 503]).toContain(status);
  await eventually(async () => (await Promise.all([send(0), send(1)])).every((status) => status === 200));
  expect(await sendMany(CLIENTS)).toEqual(Array(CLIENTS).fill(200));
  await expectAllCharged();
});
