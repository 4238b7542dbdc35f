/** The PostgreSQL engine, on Bun's SQL driver. */

import type { SQL } from "bun";
import {
  type Driver,
  divideConnections,
  POOL_LIMITS,
  type PoolLimits,
  PostgresPool,
  type Workload,
} from "./postgres-pool.ts";
import {
  createSql,
  type Db,
  type Mode,
  type Row,
  type SqlValue,
  type StoreAccess,
  type StoreConnection,
  withinTransaction,
} from "./transaction.ts";

/** PostgreSQL's type OID of BIGINT. */
const INT8_OID = 20;

interface PostgresOptions {
  workload: Workload;
  access?: StoreAccess;
  limits?: PoolLimits;
  /** How many processes of this machine divide the connections. */
  processes?: number;
}

export async function openPostgres(
  url: string,
  { workload, access = "write", limits, processes = 1 }: PostgresOptions,
): Promise<Db> {
  const pool = await PostgresPool.open({
    url,
    limits: limits ?? divideConnections(POOL_LIMITS[workload], processes),
    access,
  });
  const { transactionSettings } = pool;
  const begin: Db["begin"] = (mode, work) => {
    let isAbandoned = false;
    const within = async (reserved: Driver) => {
      const lookUpDriver = () => {
        if (isAbandoned) throw new Error("This transaction took too long and was abandoned.");
        return reserved;
      };
      if (transactionSettings !== null) await pool.run(reserved, transactionSettings);
      return withinTransaction(openConnection(pool, lookUpDriver), work);
    };
    const { driver } = pool;
    const options = chooseOptions(mode, access);
    const running = options === "" ? driver.begin(within) : driver.begin(options, within);
    return pool.guardTransaction(running, () => {
      isAbandoned = true;
    });
  };
  const connection =
    transactionSettings === null ? openConnection(pool, () => pool.driver) : openWithin(begin);
  const db: Db = {
    engine: "postgres",
    sql: createSql(connection),
    begin,
    // The server works for all clients at once, and ends a statement that takes too long.
    get reports() {
      return db;
    },
    isAwaited: () => false,
    flush: async () => {},
    close: () => pool.close(),
  };
  return db;
}

function chooseOptions(mode: Mode, access: StoreAccess): string {
  if (mode === "read") return "ISOLATION LEVEL REPEATABLE READ READ ONLY";
  // A write transaction sees concurrent commits (READ COMMITTED), so waiting for a row lock is enough.
  return access === "read" ? "READ ONLY" : "";
}

/** Each statement in a transaction of its own: behind a pooler it would have no time-outs otherwise. */
function openWithin(begin: Db["begin"]): StoreConnection {
  return {
    engine: "postgres",
    run: (text, values) => begin("write", (tx) => tx.sql.text(text, values)),
    each: (text, rows) => begin("write", (tx) => tx.sql.each(text, rows)),
    script: (text) => begin("write", (tx) => tx.sql.script(text)),
    isAwaited: () => false,
  };
}

function openConnection(pool: PostgresPool, lookUpDriver: () => Driver): StoreConnection {
  return {
    engine: "postgres",
    run: async (text, values) => withNumbers(await pool.run(lookUpDriver(), text, [...values])),
    each: async (text, rows) => {
      for (const values of rows) await pool.run(lookUpDriver(), text, [...values]);
    },
    script: async (text) => {
      await pool.run(lookUpDriver(), text);
    },
    // Each transaction has its own connection, so none waits for another in this process.
    isAwaited: () => false,
  };
}

/** The driver returns BIGINT as text. All BIGINT values here are counts and milliseconds, far below 2^53. */
function withNumbers(rows: Row[] & Partial<SQL.ResultMetadata>): Row[] {
  const names = rows.columns?.filter((column) => column.type === INT8_OID).map((column) => column.name) ?? [];
  if (names.length === 0) return rows;
  for (const row of rows as Record<string, SqlValue>[]) {
    for (const name of names) {
      const value = row[name];
      if (typeof value === "string") row[name] = Number(value);
    }
  }
  return rows;
}
