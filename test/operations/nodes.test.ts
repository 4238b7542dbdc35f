/** Two nodes on one PostgreSQL database, as administrators see and check them. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openDb } from "../../src/store/engine/db.ts";
import { signInAs } from "../support/console-client.ts";
import { eventually } from "../support/eventually.ts";
import { type GatewayProcess, runCommand, startGatewayProcess } from "../support/gateway-process.ts";
import { type Postgres, startPostgres } from "../support/postgres.ts";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";

setDefaultTimeout(60_000);

const MASTER_KEY = Buffer.alloc(32, 7).toString("base64");
let postgres: Postgres;
let one: RunningGateway;
let two: RunningGateway;
const folder = mkdtempSync(join(tmpdir(), "model-gateway-nodes-"));

beforeAll(async () => {
  postgres = await startPostgres();
  const environment = { MODEL_GATEWAY_MASTER_KEY: MASTER_KEY };
  const limits = { foldDaysMs: 50 };
  one = await startTestGateway({ databaseUrl: postgres.url, environment, limits });
  two = await startTestGateway({ databaseUrl: postgres.url, environment, limits, file: "models: []" });
}, 300_000);

afterAll(async () => {
  await two?.stop();
  await one?.stop();
  await postgres?.stop();
  rmSync(folder, { recursive: true, force: true });
});

interface Finding {
  what: string;
  state: string;
  message: string;
}

async function runDoctor(env: Readonly<Record<string, string>> = {}): Promise<Finding[]> {
  const { output } = await runCommand(["doctor", "--json"], {
    folder,
    env: { DATABASE_URL: postgres.url, MODEL_GATEWAY_MASTER_KEY: MASTER_KEY, ...env },
  });
  return JSON.parse(output).findings;
}

const find = (findings: readonly Finding[], what: string) => findings.filter((one) => one.what === what);

test("the nodes command and the console list every node with its state, version and jobs", async () => {
  const { code, output } = await runCommand(["nodes", "--json"], {
    folder,
    env: { DATABASE_URL: postgres.url, MODEL_GATEWAY_MASTER_KEY: MASTER_KEY },
  });
  expect(code).toBe(0);
  const listed: Record<string, unknown>[] = JSON.parse(output);
  const ports = [one, two].map(({ url }) => new URL(url).port);
  expect(listed.map(({ address }) => String(address).split(":").at(-1))).toEqual(ports);
  for (const node of listed) expect(node).toMatchObject({ state: "ready", coordinator: "postgres" });

  const admin = await signInAs(one, "root@example.com", "admin");
  const shown = await eventually(async () => {
    const { data: nodes } = await admin.call("admin.nodes.list");
    return nodes.some(({ jobs }) => jobs.includes("roll_up")) ? nodes : null;
  });
  expect(shown.map(({ condition }) => condition)).toEqual(["ready", "ready"]);
  // Both nodes try every 50 ms; one of them does it.
  expect(shown.filter(({ jobs }) => jobs.includes("roll_up"))).toHaveLength(1);
});

test("a node that stops leaves the list", async () => {
  const environment = { MODEL_GATEWAY_MASTER_KEY: MASTER_KEY };
  const three = await startTestGateway({ databaseUrl: postgres.url, environment, file: "models: []" });
  const { db } = one.installation;
  const countNodes = async () => (await db.sql`SELECT id FROM process`).length;
  expect(await countNodes()).toBe(3);
  await three.stop();
  expect(await countNodes()).toBe(2);
});

test("doctor finds no fault with two nodes of one version", async () => {
  const findings = await runDoctor();
  expect(find(findings, "nodes")).toMatchObject([{ state: "good" }]);
  expect(find(findings, "clocks")).toMatchObject([{ state: "good" }]);
  expect(find(findings, "privileges")).toMatchObject([{ state: "good" }]);
});

test("doctor finds mixed versions, a wrong clock and a silent node", async () => {
  const { db } = one.installation;
  await db.sql`
    INSERT INTO process (id, host, pid, started_at_ms, beat_at_ms, schema_known, version, clock_skew_ms)
    VALUES ('inc_old', 'gw-old x y', 4, 1, ${Date.now() - 40_000}, 20, '0.0.9', 7300)`;
  const findings = await runDoctor();
  await db.sql`DELETE FROM process WHERE id = 'inc_old'`;
  const nodes = find(findings, "nodes").map(({ message }) => message);
  expect(nodes[0]).toContain("1 node with 0.0.9, schema 20");
  expect(nodes[1]).toMatch(/^gw-old \(pid 4\) \[inc_old\] has sent no heartbeat for \d+ s$/);
  expect(find(findings, "clocks")).toMatchObject([
    { state: "doubtful", message: "gw-old (pid 4) [inc_old] is 7.3 s ahead of the database" },
  ]);
});

test("doctor finds missing privileges of the database role", async () => {
  const { db } = one.installation;
  await db.sql.script(`
    CREATE ROLE limited LOGIN;
    GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO limited;
    GRANT SELECT ON usage TO limited;`);
  const url = new URL(postgres.url);
  url.username = "limited";
  const asLimited = () => runDoctor({ DATABASE_URL: url.href });
  const [noOwner] = find(await asLimited(), "privileges");
  expect(noOwner).toMatchObject({ state: "doubtful" });
  expect(noOwner?.message).toContain("ownership of wallet");
  expect(noOwner?.message).toContain("CREATE on the schema");
  await db.sql.script("REVOKE UPDATE ON wallet FROM limited");
  expect(find(await asLimited(), "privileges")).toMatchObject([
    { state: "broken", message: "the database role lacks access to wallet" },
  ]);
  await db.sql.script("DROP OWNED BY limited; DROP ROLE limited");
});

test("a node with another master key does not start, and prints the reason", async () => {
  const { code, output } = await runCommand(["start"], {
    folder,
    env: {
      PORT: "0",
      DATABASE_URL: postgres.url,
      MODEL_GATEWAY_MASTER_KEY: Buffer.alloc(32, 8).toString("base64"),
    },
  });
  expect(code).toBe(1);
  expect(output).toContain("were encrypted with another master key");
});

test("nodes that start together with one file all start, and the file is applied once", async () => {
  const empty = await startPostgres();
  const file = JSON.stringify({
    models: Array.from({ length: 20 }, (_, index) => ({ id: `model-${index}`, interfaces: ["chat"] })),
  });
  const folders = ["a", "b", "c", "d"].map((name) => join(folder, `together-${name}`));
  const env = { DATABASE_URL: empty.url, MODEL_GATEWAY_MASTER_KEY: MASTER_KEY };
  const started: GatewayProcess[] = [];
  try {
    for (const one of folders) await Bun.write(join(one, "gateway.yaml"), file);
    started.push(
      ...(await Promise.all(
        folders.map((one) => startGatewayProcess({ folder: one, args: ["--config", "gateway.yaml"], env })),
      )),
    );
    const db = await openDb(empty.url);
    const logged = await db.sql`SELECT seq FROM audit WHERE action LIKE 'model.%'`;
    await db.close();
    expect(logged).toHaveLength(20);
  } finally {
    await Promise.all(started.map((one) => one.stop()));
    await empty.stop();
  }
});
