/** An installation that grows from SQLite to PostgreSQL, and moves back. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Simulator, startSimulator } from "../../simulator/simulator.ts";
import { type Db, openDb } from "../../src/store/engine/db.ts";
import { markMove, readMove } from "../../src/store/engine/moved-store.ts";
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

test("no server starts on the database that was moved, no command changes it, and doctor reports it", async () => {
  const moved =
    /This database was moved to postgres:\/\/127\.0\.0\.1:\d+\/test_\d+ on .* UTC and is no longer used\./;
  await expect(start()).rejects.toThrow(moved);
  for (const args of [
    ["keys", "create", "--name", "late", "--group", "paid"],
    ["apply", "gateway.yaml"],
    ["migrate"],
  ]) {
    const { code, output } = await runCommand(args, { folder, env: { SIMULATOR_URL: simulator.url } });
    expect([args, code]).toEqual([args, args[0] === "migrate" ? 0 : 1]);
    if (args[0] !== "migrate") expect(output).toMatch(moved);
  }
  const doctor = await runCommand(["doctor"], { folder });
  expect([doctor.code, doctor.output]).toEqual([1, expect.stringMatching(moved)]);
  expect(doctor.output).toContain("Set DATABASE_URL to the new database.");
  expect(await runCommand(["migrate-store", "--cancel"], { folder })).toMatchObject({ code: 1 });
});

test("a command that reads the moved database says that its output is old", async () => {
  for (const args of [["audit"], ["keys", "list"], ["wallet", "show", "--user", "payer@example.com"]]) {
    const { code, output } = await runCommand(args, { folder });
    expect([args, code, output]).toEqual([args, 0, expect.stringContaining("Note: This database was moved")]);
  }
  expect((await runCommand(["keys", "list"], onPostgres())).output).not.toContain("was moved");
});

test("a database that has an installation is not overwritten", async () => {
  const { code, output } = await move();
  expect(code).toBe(1);
  expect(output).toContain("already contains an installation");
});

test("a move to SQLite without the address of PostgreSQL names the missing variable", async () => {
  const { code, output } = await move("sqlite");
  expect([code, output]).toEqual([1, expect.stringContaining("set DATABASE_URL to it")]);
});

const onPostgres = () => ({ folder, env: { DATABASE_URL: postgres.url } });

test("an installation with a running node is not moved back", async () => {
  const gateway = await start({ DATABASE_URL: postgres.url });
  // A node in another folder.
  const other = {
    ...onPostgres(),
    env: { DATABASE_URL: postgres.url, MODEL_GATEWAY_DATA: join(folder, "other") },
  };
  const key = readFileSync(join(folder, "data/master.key"), "utf8").trim();
  const { code, output } = await runCommand(["migrate-store", "--to", "sqlite"], {
    ...other,
    env: { ...other.env, MODEL_GATEWAY_MASTER_KEY: key },
  });
  expect([code, output]).toEqual([1, expect.stringContaining("A server runs on this database")]);
  await gateway.stop();
});

test("a move back to SQLite is fenced while it is incomplete, and can be cancelled", async () => {
  const db = await openDb(postgres.url);
  await markMove(db, { state: "moving", target: "elsewhere", atMs: Date.now() });
  await expect(start({ DATABASE_URL: postgres.url })).rejects.toThrow(
    /move of this database to elsewhere began[\s\S]*migrate-store --cancel/,
  );
  expect(await runCommand(["migrate-store", "--cancel"], onPostgres())).toMatchObject({ code: 0 });
  expect(await readMove(db)).toBeNull();
  await db.close();
});

test("the installation moves back to SQLite with every value, serves there, and PostgreSQL is marked as moved", async () => {
  const db = await openDb(postgres.url);
  const before = await readFacts(db);
  await db.close();
  const { code, output } = await runCommand(["migrate-store", "--to", "sqlite"], onPostgres());
  expect([code, output]).toEqual([0, output]);
  expect(output).toContain("Compared every value of both databases: no difference.");
  const sqlite = await openDb(`sqlite:${join(folder, "data/gateway.db")}`);
  expect(await readFacts(sqlite)).toEqual(before);
  await sqlite.close();
  expect(readdirSync(join(folder, "data")).filter((name) => name.includes("moved"))).toHaveLength(1);
  await expect(start({ DATABASE_URL: postgres.url })).rejects.toThrow(/was moved to .*gateway\.db on/);
  const gateway = await start();
  expect(await chat(gateway)).toBe(200);
  await gateway.stop();
  const after = await openDb(`sqlite:${join(folder, "data/gateway.db")}`);
  const { rows, feed } = await readFacts(after);
  // The feed continues on SQLite.
  expect([rows, feed.length]).toEqual([before.rows + 1, before.feed.length + 1]);
  await openBillingRecords(after).expectReconciled();
  await after.close();
});
