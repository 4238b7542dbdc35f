/** Applies the schema migrations. Nodes of two versions may run on one database: see `Migration.phase`. */

import { MIGRATIONS, type Migration, type MigrationPhase } from "../migrations/index.ts";
import { type Db, isLockTimeout, transaction } from "./db.ts";
import { hasTable, isSharedServer } from "./dialect.ts";
import { lockAgainstMigrations, lockMigrations } from "./migration-lock.ts";
import { requireUnmoved } from "./moved-store.ts";
import { integer, text } from "./row.ts";

/** SQL for SQLite only. Other engines read it as a comment. */
const SQLITE_ONLY = /\/\* sqlite: ([A-Z ]+) \*\//g;
/** SQL that SQLite does not know: sequences, functions and triggers of PostgreSQL. */
const POSTGRES_ONLY = /^-- begin postgres\n[\s\S]*?^-- end postgres$/gm;

/**
 * How long a migration waits for a lock while other nodes run. Every statement that needs the table queues behind the
 * waiting migration, so it gives up soon and tries again.
 */
const LOCK_TIMEOUT_MS = 2_000;
const LOCK_TRIES_MAX = 30;
const LOCK_RETRY_MS = 500;

/**
 * `oldest_reader` is the oldest program that still works with a migration applied, as the schema that the program knows.
 * Programs that know at least the maximum of this column run on the database, even if it has later migrations.
 */
const CREATE_MIGRATION_TABLE = `CREATE TABLE IF NOT EXISTS migration (
  version BIGINT PRIMARY KEY, name TEXT NOT NULL, oldest_reader BIGINT NOT NULL DEFAULT 0)`;

/** The database has a migration that this program is too old for. */
export class ProgramTooOld extends Error {
  override readonly name = "ProgramTooOld";
}

/** The database has an older schema than this program needs. Only `start` and `migrate` change it. */
export class SchemaTooOld extends Error {
  override readonly name = "SchemaTooOld";
}

/** Another session holds a lock that a migration needs. */
export class MigrationBlocked extends Error {
  override readonly name = "MigrationBlocked";
}

interface SchemaChange {
  readonly from: number;
  readonly to: number;
}

interface AppliedMigrations {
  readonly versions: ReadonlySet<number>;
  /** 0 for an empty database. */
  readonly newest: number;
  /** The schema that a program must know to run on this database. */
  readonly oldestReader: number;
}

/**
 * Migrates the database to the schema of this program. Processes that start at the same time all succeed. On a shared
 * database, migrations that remove something are left to `finishMigrations`.
 */
export async function migrate(db: Db, migrations: readonly Migration[] = MIGRATIONS): Promise<SchemaChange> {
  // First check without a lock: most starts change nothing, and the database role may lack the right to change the
  // schema.
  const applied = await readApplied(db);
  rejectOldProgram(applied, migrations);
  const { newest: from } = applied;
  const to = Math.max(from, newestVersion(migrations));
  const pending = selectPending(db, applied, migrations);
  if (pending.length === 0) return { from, to };
  if (from === 0) return createSchema(db, migrations);
  for (const migration of pending) await applyOne(db, migration);
  return { from, to };
}

/** All migrations in one transaction, for a database without tables. */
function createSchema(db: Db, migrations: readonly Migration[]): Promise<SchemaChange> {
  return transaction(db, async (tx) => {
    await lockMigrations(tx);
    // Not `hasVersions`: PostgreSQL may evaluate it from a snapshot taken before this connection waited for the lock.
    await tx.sql.script(CREATE_MIGRATION_TABLE);
    const applied = await readAppliedRows(tx);
    rejectOldProgram(applied, migrations);
    for (const migration of selectPending(tx, applied, migrations)) await runMigration(tx, migration);
    return { from: applied.newest, to: Math.max(applied.newest, newestVersion(migrations)) };
  });
}

/** One transaction each, so that locks are brief. Skipped if another process has applied it. */
async function applyOne(db: Db, migration: Migration): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await transaction(db, async (tx) => {
        await lockMigrations(tx);
        const { versions } = await readAppliedRows(tx);
        if (!versions.has(migration.version)) await runMigration(tx, migration);
      });
      return;
    } catch (error) {
      if (!isLockTimeout(error)) throw error;
      if (attempt === LOCK_TRIES_MAX) throw blockedError(migration);
      await Bun.sleep(LOCK_RETRY_MS);
    }
  }
}

async function runMigration(tx: Db, migration: Migration): Promise<void> {
  const { version, name, sql } = migration;
  const phase = getPhase(migration);
  if (isSharedServer(tx)) {
    // Lock all tables of an offline migration first. A writer then waits before it holds a lock that is needed here.
    if (phase.kind === "offline") for (const table of phase.locks) await lockTable(tx, table);
    else await tx.sql.script(`SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}`);
  }
  // SQLite rejects a script without a statement: of a migration for PostgreSQL, only the comments remain.
  await tx.sql.script(tx.engine === "sqlite" ? `SELECT 1;\n${toSqlite(sql)}` : sql);
  await tx.sql`
    INSERT INTO migration (version, name, oldest_reader)
    VALUES (${version}, ${name}, ${getOldestReader(version, phase)})`;
}

function toSqlite(sql: string): string {
  return sql.replaceAll(SQLITE_ONLY, "$1").replaceAll(POSTGRES_ONLY, "");
}

/** Skips a table that a later migration creates. */
async function lockTable(tx: Db, table: string): Promise<void> {
  const found = await tx.sql`SELECT 1 AS found WHERE to_regclass(${table}) IS NOT NULL`;
  if (found.length > 0) await tx.sql.script(`LOCK TABLE ${table} IN ACCESS EXCLUSIVE MODE`);
}

/**
 * Call it in the transaction that registers a process with the schema that it knows: until the commit no migration
 * can remove what the process needs. Throws `ProgramTooOld` and `StoreMoved`.
 */
export async function checkSchemaForRegistration(
  tx: Db,
  migrations: readonly Migration[] = MIGRATIONS,
): Promise<void> {
  await lockAgainstMigrations(tx);
  await requireUnmoved(tx);
  rejectOldProgram(await readAppliedRows(tx), migrations);
}

/** Whether this program still works with the database. */
export async function isProgramSupported(
  db: Db,
  migrations: readonly Migration[] = MIGRATIONS,
): Promise<boolean> {
  return newestVersion(migrations) >= (await readAppliedRows(db)).oldestReader;
}

interface ContractProgress {
  /** Names of the migrations that were applied now. */
  readonly applied: readonly string[];
  /** Migrations that wait, and the ids of the processes that they wait for. */
  readonly waiting: readonly { readonly name: string; readonly processIds: readonly string[] }[];
}

/**
 * Applies the pending migrations that remove something, if every registered process knows the schema that they
 * require. A later start or check applies the others.
 */
export async function finishMigrations(
  db: Db,
  migrations: readonly Migration[] = MIGRATIONS,
): Promise<ContractProgress> {
  const pending = await readPendingContracts(db, migrations);
  const applied: string[] = [];
  for (const migration of pending) {
    if (await applyContract(db, migration)) applied.push(migration.name);
    // Later ones may require this one.
    else break;
  }
  return { applied, waiting: await findWaitingMigrations(db, migrations) };
}

/** The pending migrations that remove something, and the processes that still need it. */
export async function findWaitingMigrations(
  db: Db,
  migrations: readonly Migration[] = MIGRATIONS,
): Promise<ContractProgress["waiting"]> {
  const pending = await readPendingContracts(db, migrations);
  const waiting: { name: string; processIds: string[] }[] = [];
  for (const { name, phase } of pending)
    waiting.push({ name, processIds: await findProcessesBefore(db, phase.oldestReader) });
  return waiting;
}

type ContractMigration = Migration & { phase: Extract<MigrationPhase, { kind: "contract" }> };

async function readPendingContracts(db: Db, migrations: readonly Migration[]): Promise<ContractMigration[]> {
  const { versions } = await readAppliedRows(db);
  return migrations.filter(
    (migration): migration is ContractMigration =>
      !versions.has(migration.version) && migration.phase?.kind === "contract",
  );
}

async function applyContract(db: Db, migration: ContractMigration): Promise<boolean> {
  try {
    return await transaction(db, async (tx) => {
      await lockMigrations(tx);
      const { versions } = await readAppliedRows(tx);
      if (versions.has(migration.version)) return true;
      if ((await findProcessesBefore(tx, migration.phase.oldestReader)).length > 0) return false;
      await runMigration(tx, migration);
      return true;
    });
  } catch (error) {
    if (isLockTimeout(error)) return false;
    throw error;
  }
}

/** Registered processes of programs that do not know this schema. */
export async function findProcessesBefore(db: Db, schema: number): Promise<string[]> {
  const rows = await db.sql`
    SELECT id FROM process WHERE schema_known IS NULL OR schema_known < ${schema} ORDER BY id`;
  return rows.map((row) => text(row, "id"));
}

/** Describes what the next start would change in a store of an earlier version; null if nothing. */
export async function changesAhead(
  db: Db,
  migrations: readonly Migration[] = MIGRATIONS,
): Promise<(SchemaChange & { takes: string[] }) | null> {
  const applied = await readApplied(db);
  rejectOldProgram(applied, migrations);
  const pending = selectPending(db, applied, migrations);
  const last = pending.at(-1);
  if (applied.newest === 0 || last === undefined) return null;
  const takes = pending.flatMap(({ phase }) =>
    phase?.kind === "offline" && phase.takes !== undefined ? [phase.takes] : [],
  );
  return { from: applied.newest, to: last.version, takes };
}

/** 0 for a database that is not a gateway store. */
export async function readSchemaVersion(db: Db): Promise<number> {
  return (await readApplied(db)).newest;
}

/** Throws `SchemaTooOld` if a start would migrate the database, and `ProgramTooOld`. */
export async function requireCurrentSchema(db: Db): Promise<void> {
  const ahead = await changesAhead(db);
  if (ahead === null) return;
  throw new SchemaTooOld(
    `The database has schema ${ahead.from}, and this version needs schema ${ahead.to}. Nothing was changed.`,
  );
}

interface UpgradeImpact {
  /** The version that runs on the database now can run on it again after the upgrade. */
  readonly isReversible: boolean;
  /** A pending migration rewrites tables, so all nodes must be stopped for it. */
  readonly needsStop: boolean;
}

/** What the pending migrations mean for programs of the present version. */
export async function readUpgradeImpact(
  db: Db,
  migrations: readonly Migration[] = MIGRATIONS,
): Promise<UpgradeImpact> {
  const { versions, newest } = await readApplied(db);
  const pending = migrations.filter(({ version }) => !versions.has(version));
  const required = pending.map((migration) => getOldestReader(migration.version, getPhase(migration)));
  return {
    isReversible: Math.max(0, ...required) <= newest,
    needsStop: pending.some((migration) => getPhase(migration).kind === "offline"),
  };
}

/** Whether the database is a gateway store, of any version. */
export function hasVersions(db: Db): Promise<boolean> {
  return hasTable(db, "migration");
}

const NONE_APPLIED: AppliedMigrations = { versions: new Set(), newest: 0, oldestReader: 0 };

async function readApplied(db: Db): Promise<AppliedMigrations> {
  return (await hasVersions(db)) ? readAppliedRows(db) : NONE_APPLIED;
}

async function readAppliedRows(db: Db): Promise<AppliedMigrations> {
  const rows = await db.sql`SELECT version, oldest_reader FROM migration ORDER BY version`;
  const versions = rows.map((row) => integer(row, "version"));
  return {
    versions: new Set(versions),
    newest: versions.at(-1) ?? 0,
    oldestReader: Math.max(0, ...rows.map((row) => integer(row, "oldest_reader"))),
  };
}

/** Migrations that `migrate` applies. On a shared database with tables, other nodes may need what a contract removes. */
function selectPending(
  db: Db,
  { versions, newest }: AppliedMigrations,
  migrations: readonly Migration[],
): Migration[] {
  const waits = isSharedServer(db) && newest > 0;
  return migrations.filter(
    (migration) => !versions.has(migration.version) && !(waits && getPhase(migration).kind === "contract"),
  );
}

function rejectOldProgram(applied: AppliedMigrations, migrations: readonly Migration[]): void {
  const known = newestVersion(migrations);
  if (applied.newest <= known || known >= applied.oldestReader) return;
  throw new ProgramTooOld(
    `The database has schema ${applied.newest}, which requires a version that knows schema ${applied.oldestReader}. This version knows schemas up to ${known}. Run a newer version, or restore a backup.`,
  );
}

function blockedError({ name }: Migration): MigrationBlocked {
  const seconds = Math.round((LOCK_TRIES_MAX * (LOCK_TIMEOUT_MS + LOCK_RETRY_MS)) / 1_000);
  return new MigrationBlocked(
    `The migration "${name}" could not lock its tables within ${seconds} seconds. Another session holds a lock: find it in pg_stat_activity, end it, and start again.`,
  );
}

function getPhase({ phase }: Migration): MigrationPhase {
  return phase ?? { kind: "expand" };
}

/** The schema that a program must know once the migration is applied; 0 if it changes nothing for older programs. */
function getOldestReader(version: number, phase: MigrationPhase): number {
  if (phase.kind === "expand") return 0;
  return phase.kind === "contract" ? phase.oldestReader : version;
}

function newestVersion(migrations: readonly Migration[]): number {
  return migrations.at(-1)?.version ?? 0;
}
