/**
 * Runs the same tests on each database engine. This is the one place that chooses the engines: `npm test` has SQLite,
 * which needs nothing but the runtime, and `npm run test:system` repeats the tests on PostgreSQL.
 */

import { afterAll, afterEach, beforeAll, describe } from "bun:test";
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Db, openDb } from "../../src/store/engine/db.ts";
import { migrate } from "../../src/store/engine/migrate.ts";
import { ENGINE_VARIABLE, type Engine } from "./engines.ts";
import { createMigrated, FIRST_START_WITHIN_MS, type Postgres, startPostgres } from "./postgres.ts";

export interface EngineUnderTest {
  /** The address of a new database. */
  emptyUrl(): Promise<string>;
  /** A migrated, empty database; closed after the test. */
  open(): Promise<Db>;
}

export function eachEngine(body: (engine: EngineUnderTest) => void): void {
  if (isUnderTest("sqlite")) describe("on sqlite", () => body(useSqlite()));
  onPostgres(body);
}

/** For tests of behaviour that only PostgreSQL has, beside tests of both engines. */
export function onPostgres(body: (engine: EngineUnderTest) => void): void {
  if (isUnderTest("postgres")) describe("on postgres", () => usePostgresCluster(body));
}

function isUnderTest(engine: Engine): boolean {
  const only = process.env[ENGINE_VARIABLE] ?? engine;
  return only === engine;
}

function useSqlite(): EngineUnderTest {
  const folder = mkdtempSync(join(tmpdir(), "gateway-sqlite-"));
  let files = 0;
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const newFile = () => `${folder}/${++files}.db`;
  let template: Promise<string> | undefined;
  const migratedUrl = async () => {
    template ??= migrateFile(newFile());
    const file = newFile();
    copyFileSync(await template, file);
    return `sqlite:${file}`;
  };
  return engineWith(async () => `sqlite:${newFile()}`, migratedUrl);
}

function usePostgresCluster(body: (engine: EngineUnderTest) => void): void {
  const started: Postgres[] = [];
  beforeAll(async () => {
    started.push(await startPostgres());
  }, FIRST_START_WITHIN_MS);
  afterAll(async () => {
    for (const { stop } of started) await stop();
  });
  const emptyUrl = async () => {
    const extra = await startPostgres();
    started.push(extra);
    return extra.url;
  };
  const copies: Postgres[] = [];
  const migratedUrl = async () => {
    const copy = await createMigrated();
    copies.push(copy);
    return copy.url;
  };
  body(engineWith(emptyUrl, migratedUrl));
  // After everything that the tests opened is closed.
  afterEach(async () => {
    for (const { stop } of copies.splice(0)) await stop();
  });
}

async function migrateFile(file: string): Promise<string> {
  const db = await openDb(`sqlite:${file}`);
  await migrate(db);
  await db.close();
  return file;
}

/** Both functions return the address of a new database. */
function engineWith(emptyUrl: () => Promise<string>, migratedUrl: () => Promise<string>): EngineUnderTest {
  const opened: Db[] = [];
  afterEach(async () => {
    for (const db of opened.splice(0)) await db.close();
  });
  return {
    emptyUrl,
    open: async () => {
      const db = await openDb(await migratedUrl());
      opened.push(db);
      return db;
    },
  };
}
