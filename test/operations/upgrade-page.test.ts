/** The steps of docs/upgrade.md, forwards and back, with two real versions of the program on each database. */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SQL } from "bun";
import { openDb } from "../../src/store/engine/db.ts";
import { readSchemaVersion } from "../../src/store/engine/migrate.ts";
import { SCHEMA_KNOWN } from "../../src/store/migrations/index.ts";
import { type GatewayProcess, runCommand, startGatewayProcess } from "../support/gateway-process.ts";
import { buildNextVersion, type NextVersion } from "../support/next-version.ts";
import { startPostgres } from "../support/postgres.ts";
import { TEST_KEY } from "../support/running-gateway.ts";

setDefaultTimeout(300_000);

const FILE = `
models: [{ id: m, interfaces: [chat] }]
accounts: [{ name: a, kind: simulator, models: { m: sim-fast } }]
groups: [{ name: g, interfaces: [chat], models: [m], accounts: [a] }]
keys: [{ name: ci, group: g, secret: ${TEST_KEY} }]
server: { drain_delay: 1s }
`;

interface Store {
  readonly url: string;
  /** As docs/backup.md describes it, with the new version's program while the old one serves. */
  backUp(): Promise<void>;
  /** Instead of the present database. */
  restore(): Promise<void>;
  remove(): Promise<void>;
}

let next: NextVersion;
beforeAll(() => {
  next = buildNextVersion();
});
afterAll(() => next?.remove());

const STORES: Readonly<Record<string, (folder: string) => Promise<Store>>> = {
  SQLite: async (folder) => {
    const file = join(folder, "data", "gateway.db");
    return {
      url: `sqlite:${file}`,
      async backUp() {
        const done = await runCommand(["backup", "backup.db"], { folder, program: next.program });
        expect(done).toMatchObject({ code: 0 });
      },
      async restore() {
        copyFileSync(join(folder, "backup.db"), file);
        for (const suffix of ["-wal", "-shm"]) rmSync(file + suffix, { force: true });
      },
      remove: async () => {},
    };
  },
  PostgreSQL: async (folder) => {
    const { url, stop } = await startPostgres();
    const dump = join(folder, "gateway.dump");
    return {
      url,
      async backUp() {
        const refused = await runCommand(["backup", "backup.db"], {
          folder,
          program: next.program,
          env: { DATABASE_URL: url },
        });
        expect(refused).toMatchObject({ code: 1 });
        expect(refused.output).toContain("Back it up with pg_dump.");
        runTool("pg_dump", "--format=custom", `--file=${dump}`, url);
      },
      async restore() {
        const sql = new SQL(url, { max: 1 });
        await sql.unsafe("DROP SCHEMA public CASCADE").simple();
        await sql.unsafe("CREATE SCHEMA public").simple();
        await sql.close();
        runTool("pg_restore", `--dbname=${url}`, dump);
      },
      remove: stop,
    };
  },
};

/** The client programs of the newest installed PostgreSQL, as its server in the tests. */
function runTool(name: string, ...args: string[]): void {
  const installations = "/usr/lib/postgresql";
  const newest = readdirSync(installations).toSorted((a, b) => Number(b) - Number(a))[0] ?? "";
  const { exitCode, stderr } = Bun.spawnSync([join(installations, newest, "bin", name), ...args]);
  expect([stderr.toString(), exitCode]).toEqual(["", 0]);
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

describe.each(Object.entries(STORES))("on %s", (_, openStore) => {
  const folder = mkdtempSync(join(tmpdir(), "model-gateway-upgrade-page-"));
  let store: Store;
  let server: GatewayProcess | null = null;

  beforeAll(async () => {
    await Bun.write(join(folder, "gateway.yaml"), FILE);
    store = await openStore(folder);
  });
  afterAll(async () => {
    await server?.stop();
    await store?.remove();
    rmSync(folder, { recursive: true, force: true });
  });

  const old = () => ({ folder, env: { DATABASE_URL: store.url } });
  const startOld = () => startGatewayProcess({ ...old(), args: ["--config", "gateway.yaml"] });
  const startNew = () => startGatewayProcess({ ...old(), program: next.program });
  const runOld = (...args: string[]) => runCommand(args, old());
  const runNew = (...args: string[]) => runCommand(args, { ...old(), program: next.program });

  async function readSchema(): Promise<number> {
    const db = await openDb(store.url, { access: "read" });
    const schema = await readSchemaVersion(db);
    await db.close();
    return schema;
  }

  test("the page of an upgrade leads to the new version and back, and its commands change nothing beside the old server", async () => {
    server = await startOld();
    expect(await chat(server)).toBe(200);

    // 1 and 2: the new version inspects and backs up the database that the old version serves.
    const check = await runNew("upgrade-check");
    expect(check).toMatchObject({ code: 0 });
    expect(check.output).toContain(`from schema ${SCHEMA_KNOWN} to ${next.schema}`);
    await store.backUp();
    for (const args of [["keys", "list"], ["audit"], ["export"], ["apply", "gateway.yaml", "--dry-run"]]) {
      const { code, output } = await runNew(...args);
      expect([args, code]).toEqual([args, 1]);
      expect(output).toContain(`The database has schema ${SCHEMA_KNOWN}`);
    }
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
    await store.restore();
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
});

test("`migrate` does not change the schema of a SQLite database that a server of the old version uses", async () => {
  const folder = mkdtempSync(join(tmpdir(), "model-gateway-upgrade-page-"));
  await Bun.write(join(folder, "gateway.yaml"), FILE);
  const server = await startGatewayProcess({ folder, args: ["--config", "gateway.yaml"] });
  expect(await runCommand(["migrate"], { folder, program: next.program })).toMatchObject({ code: 1 });
  expect(await chat(server)).toBe(200);
  expect(await server.stop()).toBe(0);
  rmSync(folder, { recursive: true, force: true });
});

test("the page names every step of this walk", () => {
  const page = readFileSync(join(import.meta.dir, "../../docs/upgrade.md"), "utf8");
  for (const step of ["upgrade-check", "Back up", "Restart", "migrate", "To go back", "the backup"])
    expect(page).toContain(step);
});
