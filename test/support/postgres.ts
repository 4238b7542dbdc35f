/**
 * A real, temporary PostgreSQL for tests: one cluster for each process, one database for each call. A pipe connects the
 * cluster to this process; the cluster removes itself when the pipe closes, however the process ends.
 */

import { afterAll, beforeAll } from "bun:test";
import { chownSync, existsSync, mkdtempSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { SQL } from "bun";
import { type Db, openDb } from "../../src/store/engine/db.ts";
import { migrate } from "../../src/store/engine/migrate.ts";
import { createPartitionsAhead } from "../../src/store/usage/usage-partitions.ts";
import { findFastFolder } from "./fast-folder.ts";
import { freePort } from "./free-port.ts";

const INSTALLATIONS = "/usr/lib/postgresql";
const READY_WITHIN_MS = 30_000;
const PORT_TRIES = 3;
/** Long enough to install it. */
export const FIRST_START_WITHIN_MS = 300_000;

export interface Postgres {
  url: string;
  stop(): Promise<void>;
}

/** The address of one of the cluster's databases. */
type Cluster = (database: string) => string;

let cluster: Promise<Cluster> | undefined;
let databases = 0;

export function startPostgres(): Promise<Postgres> {
  return createDatabase("template0");
}

async function createDatabase(template: string): Promise<Postgres> {
  cluster ??= startCluster();
  const buildUrl = await cluster;
  databases += 1;
  const name = `test_${databases}`;
  await runOnce(buildUrl("postgres"), `CREATE DATABASE ${name} TEMPLATE ${template}`);
  return {
    url: buildUrl(name),
    stop: () => runOnce(buildUrl("postgres"), `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`),
  };
}

/** Copying a migrated database takes a fifth of the time of migrating an empty one. */
let migratedTemplate: Promise<string> | undefined;

export async function createMigrated(): Promise<Postgres> {
  migratedTemplate ??= createTemplate();
  return createDatabase(await migratedTemplate);
}

async function createTemplate(): Promise<string> {
  const { url } = await startPostgres();
  const db = await openDb(url);
  await migrate(db);
  // As every node does soon after its start.
  const job = { db, nowMs: Date.now(), lease: { check: async () => {} } };
  await createPartitionsAhead(job, null);
  await db.close();
  return new URL(url).pathname.slice(1);
}

export interface PostgresUnderTest {
  readonly db: Db;
  readonly url: string;
}

/** Opens a migrated, empty database before the tests of the calling file, and closes it after them. */
export function usePostgres(onOpen: (opened: PostgresUnderTest) => void): void {
  let close = async () => {};
  beforeAll(async () => {
    const { url, stop } = await createMigrated();
    const db = await openDb(url);
    close = async () => {
      await db.close();
      await stop();
    };
    onOpen({ db, url });
  }, FIRST_START_WITHIN_MS);
  afterAll(() => close());
}

async function startCluster(): Promise<Cluster> {
  const binaries = findBinaries() ?? installPostgres();
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await tryToStart(binaries);
    } catch (error) {
      // The free port may have been taken by another process in between.
      if (attempt === PORT_TRIES) throw error;
    }
  }
}

/** `server` ends when standard input does, and then the folder goes. Background jobs read from descriptor 3. */
const CLUSTER_KEEPER = `
trap '' INT TERM HUP
exec 3<&0
binaries=$1 folder=$2 port=$3
"$binaries/initdb" --pgdata "$folder/data" --username=postgres --auth=trust --encoding=UTF8 --locale=C \
  --no-sync --no-instructions >"$folder/log" 2>&1 </dev/null
"$binaries/postgres" -D "$folder/data" -k "$folder" -p "$port" -h 127.0.0.1 \
  -c fsync=off -c synchronous_commit=off -c full_page_writes=off -c max_wal_size=256MB -c max_connections=200 \
  >>"$folder/log" 2>&1 </dev/null 3<&- &
server=$!
(cat >/dev/null; kill -QUIT "$server") <&3 2>/dev/null &
wait "$server"
tail -n 20 "$folder/log" >&2
rm -rf "$folder"
`;

async function tryToStart(binaries: string): Promise<Cluster> {
  const folder = mkdtempSync(join(findFastFolder(), "gateway-pg-"));
  const port = freePort();
  const keeper = Bun.spawn(
    [...asUnprivileged(folder), "sh", "-c", CLUSTER_KEEPER, "sh", binaries, folder, String(port)],
    { cwd: folder, stdin: "pipe", stdout: "ignore", stderr: "pipe" },
  );
  keeper.unref();
  const urlOf = (database: string) => `postgres://postgres@127.0.0.1:${port}/${database}`;
  const deadlineMs = performance.now() + READY_WITHIN_MS;
  while (keeper.exitCode === null && performance.now() < deadlineMs) {
    try {
      await runOnce(urlOf("postgres"), "SELECT 1");
      return urlOf;
    } catch {
      await Bun.sleep(20);
    }
  }
  keeper.stdin.end();
  throw new Error(`PostgreSQL did not start: ${await keeper.stderr.text()}`);
}

async function runOnce(url: string, statement: string): Promise<void> {
  const sql = new SQL({ adapter: "postgres", url, max: 1 });
  try {
    await sql.unsafe(statement);
  } finally {
    await sql.close({ timeout: 0 });
  }
}

/** The newest installed version; null if there is none. */
export function findBinaries(): string | null {
  if (!existsSync(INSTALLATIONS)) return null;
  const versions = readdirSync(INSTALLATIONS)
    .filter((version) => existsSync(join(INSTALLATIONS, version, "bin", "initdb")))
    .sort((a, b) => Number(b) - Number(a));
  return versions[0] === undefined ? null : join(INSTALLATIONS, versions[0], "bin");
}

export function installPostgres(): string {
  if (!isRoot()) {
    throw new Error(
      "These tests need PostgreSQL: install it (Debian, Ubuntu: apt-get install postgresql) and retry.",
    );
  }
  const script = "apt-get update && apt-get install -y --no-install-recommends postgresql";
  const installed = Bun.spawnSync(["sh", "-c", script], {
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
    stdout: "ignore",
    stderr: "pipe",
  });
  const binaries = findBinaries();
  if (binaries === null) throw new Error(`Installing PostgreSQL failed: ${installed.stderr.toString()}`);
  return binaries;
}

/** PostgreSQL does not run as root. */
function asUnprivileged(folder: string): string[] {
  if (!isRoot()) return [];
  const uid = Number(Bun.spawnSync(["id", "-u", "postgres"]).stdout.toString());
  const gid = Number(Bun.spawnSync(["id", "-g", "postgres"]).stdout.toString());
  chownSync(folder, uid, gid);
  return ["setpriv", `--reuid=${uid}`, `--regid=${gid}`, "--clear-groups", "--"];
}

function isRoot(): boolean {
  return process.getuid?.() === 0;
}
