/**
 * Entry point of the database layer. Only this folder knows the engine (`dialect.ts` has what differs, by name); all
 * other files write portable SQL over TEXT and BIGINT columns.
 */

import { SQLiteError } from "bun:sqlite";
import { SQL } from "bun";
import { openPostgres } from "./postgres.ts";
import type { Workload } from "./postgres-pool.ts";
import { openSqlite } from "./sqlite.ts";
import type { Db, StoreAccess } from "./transaction.ts";

export { ReadRejected } from "./sqlite-reader.ts";
export {
  type Db,
  type Engine,
  numberPlaceholders,
  placeholder,
  type Row,
  type Sql,
  type SqlValue,
  type StoreAccess,
} from "./transaction.ts";

interface OpenDbOptions {
  /** Determines the time-outs of PostgreSQL. SQLite has no use for it. */
  workload?: Workload;
  /** With `read` the engine rejects every write, and a SQLite file must exist. */
  access?: StoreAccess;
  /** How many processes of this machine divide the connections to PostgreSQL. */
  processes?: number | undefined;
}

/** Opens `sqlite:/abs/path.db`, `sqlite::memory:` or `postgres://…`. */
export async function openDb(
  url: string,
  { workload = "general", access = "write", processes = 1 }: OpenDbOptions = {},
): Promise<Db> {
  const path = parseSqlitePath(url);
  if (path !== null) {
    if (path === "") throw new Error("The database address has no file. Use sqlite:/path/to/gateway.db");
    return openSqlite(path, access);
  }
  if (url.startsWith("postgres://") || url.startsWith("postgresql://")) {
    return openPostgres(url, { workload, access, processes });
  }
  // The URL may contain a password, so the error shows only its scheme.
  throw new Error(
    `A database address must start with sqlite: or postgres://, not with "${url.split(":")[0]}:".`,
  );
}

/** How the URL of a SQLite store begins, before the colon. */
export const SQLITE_SCHEME = "sqlite";

/** Returns null for a URL that is not a SQLite URL. */
export function parseSqlitePath(url: string): string | null {
  return url.startsWith("sqlite:") ? url.slice("sqlite:".length).replace(/^\/\/(?=\/)/, "") : null;
}

/** Runs `work` atomically. Within another transaction it becomes a savepoint, which can fail on its own. */
export function transaction<T>(db: Db, work: (tx: Db) => Promise<T>): Promise<T> {
  return db.begin("write", work);
}

/** Runs several reads on one snapshot of the database. */
export function snapshot<T>(db: Db, work: (tx: Db) => Promise<T>): Promise<T> {
  return db.begin("read", work);
}

export function isUniqueViolation(error: unknown): boolean {
  if (error instanceof SQLiteError) {
    return error.code === "SQLITE_CONSTRAINT_UNIQUE" || error.code === "SQLITE_CONSTRAINT_PRIMARYKEY";
  }
  return error instanceof SQL.PostgresError && error.errno === "23505";
}

/** The engine rejected the statement permanently: it violates a constraint or a value does not fit its column. */
export function isRejected(error: unknown): boolean {
  if (error instanceof SQLiteError)
    return /^SQLITE_(CONSTRAINT|MISMATCH|TOOBIG|RANGE)/.test(error.code ?? "");
  // SQLSTATE classes: data exceptions, violated constraints, and values too long for an index.
  return error instanceof SQL.PostgresError && /^(?:2[23]|54)/.test(String(error.errno ?? ""));
}

/** Another transaction held a lock for too long, for example that of a node that stopped responding. */
export function isLockTimeout(error: unknown): boolean {
  return error instanceof SQL.PostgresError && error.errno === "55P03";
}
