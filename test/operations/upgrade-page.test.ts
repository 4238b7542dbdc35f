/** The steps of docs/upgrade.md, forwards and back, with two real versions of the program on one SQLite database. */

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { copyFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openDb } from "../../src/store/engine/db.ts";
import { readSchemaVersion } from "../../src/store/engine/migrate.ts";
import { SCHEMA_KNOWN } from "../../src/store/migrations/index.ts";
import { type GatewayProcess, runCommand, startGatewayProcess } from "../support/gateway-process.ts";
import { buildNextVersion, type NextVersion } from "../support/next-version.ts";
import { TEST_KEY } from "../support/running-gateway.ts";

setDefaultTimeout(300_000);

const folder = mkdtempSync(join(tmpdir(), "model-gateway-upgrade-page-"));
const storeFile = join(folder, "data", "gateway.db");
let next: NextVersion;
let server: GatewayProcess | null = null;

beforeAll(async () => {
  next = buildNextVersion();
  await Bun.write(
    join(folder, "gateway.yaml"),
    `
models: [{ id: m, interfaces: [chat] }]
accounts: [{ name: a, kind: simulator, models: { m: sim-fast } }]
groups: [{ name: g, interfaces: [chat], models: [m], accounts: [a] }]
keys: [{ name: ci, group: g, secret: ${TEST_KEY} }]
`,
  );
});
afterAll(async () => {
  await server?.stop();
  next?.remove();
  rmSync(folder, { recursive: true, force: true });
});

const startOld = () => startGatewayProcess({ folder, args: ["--config", "gateway.yaml"] });
const startNew = () => startGatewayProcess({ folder, program: next.program });
const runOld = (...args: string[]) => runCommand(args, { folder });
const runNew = (...args: string[]) => runCommand(args, { folder, program: next.program });

async function readSchema(): Promise<number> {
  const db = await openDb(`sqlite:${storeFile}`, { access: "read" });
  const schema = await readSchemaVersion(db);
  await db.close();
  return schema;
}

async function chat({ url }: GatewayProcess): Promise<number> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${TEST_KEY}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "m", messages: [{ role: "user", content: "Hello" }] }),
  });
  await response.text();
  return response.status;
}

test("the page of an upgrade leads to the new version and back, and its commands change nothing beside the old server", async () => {
  server = await startOld();
  expect(await chat(server)).toBe(200);

  // 1 and 2: the new version inspects and backs up the database that the old version serves.
  const check = await runNew("upgrade-check");
  expect(check).toMatchObject({ code: 0 });
  expect(check.output).toContain(`from schema ${SCHEMA_KNOWN} to ${next.schema}`);
  expect(await runNew("backup", "backup.db")).toMatchObject({ code: 0 });
  for (const args of [["keys", "list"], ["audit"], ["export"], ["apply", "gateway.yaml", "--dry-run"]]) {
    const { code, output } = await runNew(...args);
    expect([args, code]).toEqual([args, 1]);
    expect(output).toContain(`The database has schema ${SCHEMA_KNOWN}`);
  }
  expect(await runNew("migrate")).toMatchObject({ code: 1 });
  expect(await readSchema()).toBe(SCHEMA_KNOWN);
  expect(await chat(server)).toBe(200);

  // 3 and 4: the start of the new version migrates.
  expect(await server.stop()).toBe(0);
  server = await startNew();
  expect(await readSchema()).toBe(next.schema);
  expect(await chat(server)).toBe(200);
  expect(await server.stop()).toBe(0);

  // Back, on the migrated database.
  server = await startOld();
  expect(await chat(server)).toBe(200);
  expect(await server.stop()).toBe(0);
  expect(await runOld("audit")).toMatchObject({ code: 0 });

  // Back, by the backup.
  copyFileSync(join(folder, "backup.db"), storeFile);
  for (const suffix of ["-wal", "-shm"]) rmSync(storeFile + suffix, { force: true });
  expect(await readSchema()).toBe(SCHEMA_KNOWN);
  server = await startOld();
  expect(await chat(server)).toBe(200);
  expect(await server.stop()).toBe(0);
  server = null;
  expect(await runOld("audit")).toMatchObject({ code: 0 });

  // Forwards without a server.
  const migrated = await runNew("migrate");
  expect(migrated).toMatchObject({ code: 0 });
  expect(migrated.output).toContain(`The database now has schema ${next.schema}.`);
  expect(await readSchema()).toBe(next.schema);
});

test("the page names every step of this walk", () => {
  const page = readFileSync(join(import.meta.dir, "../../docs/upgrade.md"), "utf8");
  for (const step of ["upgrade-check", "Back up", "Restart", "migrate", "To go back", "the backup"])
    expect(page).toContain(step);
});
