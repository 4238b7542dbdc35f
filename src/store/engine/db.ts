/**
 * The way in. Only this file and the two it opens know the engine; everything else in the folder writes
 * portable SQL over TEXT and BIGINT columns.
 */

import { SQLiteError } from "bun:sqlite";
import { SQL } from "bun";
import { openPostgres } from "./postgres.ts";
import { openSqlite } from "./sqlite.ts";
import type { Db } from "./transaction.ts";

export { type Db, type Engine, placeholder, type Row, type Sql, type SqlValue } from "./transaction.ts";

/** `sqlite:/abs/path.db`, `sqlite::memory:` or `postgres://…`. */
export async function openDb(url: string): Promise<Db> {
  const path = sqlitePathOf(url);
  if (path !== null) {
    if (path === "") throw new Error("The database address names no file: write sqlite:/path/to/gateway.db");
    return openSqlite(path);
  }
  if (url.startsWith("postgres://") || url.startsWith("postgresql://")) return openPostgres(url);
  // The address may carry a password, so only its scheme is shown.
  throw new Error(`A database address starts with sqlite: or postgres://, not with "${url.split(":")[0]}:".`);
}

/** Null of an address that names no file. */
export function sqlitePathOf(url: string): string | null {
  return url.startsWith("sqlite:") ? url.slice("sqlite:".length).replace(/^\/\/(?=\/)/, "") : null;
}

/** All or nothing. Within another transaction it is a part of it that can fail on its own. */
export function transaction<T>(db: Db, work: (tx: Db) => Promise<T>): Promise<T> {
  return db.begin("write", work);
}

/** Several reads of one moment. */
export function snapshot<T>(db: Db, work: (tx: Db) => Promise<T>): Promise<T> {
  return db.begin("read", work);
}

export function isUniqueViolation(error: unknown): boolean {
  if (error instanceof SQLiteError) {
    return error.code === "SQLITE_CONSTRAINT_UNIQUE" || error.code === "SQLITE_CONSTRAINT_PRIMARYKEY";
  }
  return error instanceof SQL.PostgresError && error.errno === "23505";
}

/** The engine understood and will not have it: what is asked breaks a rule of the table or does not fit its columns. */
export function isRefused(error: unknown): boolean {
  if (error instanceof SQLiteError)
    return /^SQLITE_(CONSTRAINT|MISMATCH|TOOBIG|RANGE)/.test(error.code ?? "");
  // Classes of SQLSTATE: data exceptions, violated constraints, and what is too long for an index.
  return error instanceof SQL.PostgresError && /^(?:2[23]|54)/.test(String(error.errno ?? ""));
}
