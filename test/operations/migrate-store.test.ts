/** An installation that grows from SQLite to PostgreSQL. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Simulator, startSimulator } from "../../simulator/simulator.ts";
import { type Db, openDb } from "../../src/store/engine/db.ts";
import { readFeed } from "../../src/store/usage-feed/feed.ts";
import { type GatewayProcess, runCommand, startGatewayProcess } from "../support/gateway-process.ts";
import { openBillingRecords, paidFile } from "../support/paid-gateway.ts";
import { type Postgres, startPostgres } from "../support/postgres.ts";
import { TEST_KEY } from "../support/running-gateway.ts";

setDefaultTimeout(60_000);

const folder = mkdtempSync(join(tmpdir(), "model-gateway-move-"));
let postgres: Postgres;
let simulator: Simulator;

beforeAll(async () => {
  postgres = await startPostgres();
  simulator = startSimulator({ seed: 1, tokens: "o200k" });
  await Bun.write(
    join(folder, "gateway.yaml"),
    JSON.stringify({ ...JSON.parse(paidFile({ balance: "9.000000001" })), usage_export: {} }),
  );
}, 300_000);

afterAll(async () => {
  await postgres?.stop();
  await simulator?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const start = (env: Readonly<Record<string, string>> = {}) =>
  startGatewayProcess({
    folder,
    args: ["--config", "gateway.yaml"],
    env: { SIMULATOR_URL: simulator.url, DRAIN_DELAY: "0s", ...env },
  });
const move = (to = postgres.url) => runCommand(["migrate-store", "--to", to], { folder });

async function chat({ url }: GatewayProcess): Promise<number> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${TEST_KEY}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "paid", messages: [{ role: "user", content: "Hello" }] }),
  });
  await response.text();
  return response.status;
}

async function readFacts(db: Db) {
  const { balanceNano } = await openBillingRecords(db).wallet();
  const [rows] = await db.sql`SELECT COUNT(*) AS many FROM usage_row`;
  const keys = await db.sql`SELECT digest FROM api_key ORDER BY digest`;
  const feed = await db.sql`SELECT CAST(feed_no AS TEXT) AS feed_no, request_id FROM usage_export ORDER BY 1`;
  return { balanceNano, rows: Number(rows?.many), keys, feed, feedState: await readFeed(db) };
}

test("a running installation is not moved, and neither is one that was killed", async () => {
  const gateway = await start();
  for (let i = 0; i < 20; i += 1) expect(await chat(gateway)).toBe(200);
  const running = await move();
  expect([running.code, running.output]).toEqual([1, running.output]);
  expect(running.output).toContain("is running");
  process.kill(gateway.pid, "SIGKILL");
  await gateway.exited;
  const killed = await move();
  expect(killed.output).toContain("was not stopped in order");
  await (await start()).stop();
});

test("a stopped installation is moved with every value, audited before and after", async () => {
  const sqlite = await openDb(`sqlite:${join(folder, "data/gateway.db")}`);
  const before = await readFacts(sqlite);
  await sqlite.close();
  expect(before.rows).toBe(20);
  const { code, output } = await move();
  expect([code, output]).toEqual([0, output]);
  expect(output).toContain("Compared every value of both databases: no difference.");
  expect(output.match(/the ledger agrees/g)).toHaveLength(2);
  const target = await openDb(postgres.url);
  expect(await readFacts(target)).toEqual(before);
  const [log] = await target.sql`SELECT action FROM audit ORDER BY seq DESC LIMIT 1`;
  expect(log?.action).toBe("store.migrate");
  await target.close();
});

test("the moved installation serves its keys and balances from PostgreSQL", async () => {
  const gateway = await start({ DATABASE_URL: postgres.url });
  expect(await chat(gateway)).toBe(200);
  await gateway.stop();
  const db = await openDb(postgres.url);
  const { rows, feed, feedState } = await readFacts(db);
  expect(rows).toBe(21);
  // The usage feed continues with the next number: cursors of the SQLite database are still valid.
  expect(feed.map((row) => Number(row.feed_no)).toSorted((a, b) => a - b)).toEqual(
    Array.from({ length: 21 }, (_, i) => i + 1),
  );
  expect(feedState?.isEnabled).toBe(true);
  await openBillingRecords(db).expectReconciled();
  await db.close();
});

test("a database that has an installation is not overwritten", async () => {
  const { code, output } = await move();
  expect(code).toBe(1);
  expect(output).toContain("already contains an installation");
});
