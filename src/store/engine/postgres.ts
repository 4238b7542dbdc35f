/** The PostgreSQL engine, on Bun's SQL driver. */

import type { SQL } from "bun";
import { type Driver, POOL_LIMITS, type PoolLimits, PostgresPool, type Workload } from "./postgres-pool.ts";
import {
  createSql,
  type Db,
  type Row,
  type SqlValue,
  type StoreAccess,
  type StoreConnection,
  withinTransaction,
} from "./transaction.ts";

/** PostgreSQL's type OID of BIGINT. */
const INT8_OID = 20;

export async function openPostgres(
  url: string,
  { workload, access = "write", limits }: { workload: Workload; access?: StoreAccess; limits?: PoolLimits },
): Promise<Db> {
  const pool = new PostgresPool(url, limits ?? POOL_LIMITS[workload], access);
  await pool.driver.connect();
  return {
    engine: "postgres",
    sql: createSql(openConnection(pool, () => pool.driver)),
    begin: (mode, work) => {
      // A write transaction sees concurrent commits (READ COMMITTED), so waiting for a row lock is enough.
      const options = mode === "write" ? "" : "ISOLATION LEVEL REPEATABLE READ READ ONLY";
      let isAbandoned = false;
      const within = (reserved: Driver) => {
        const lookUpDriver = () => {
          if (isAbandoned) throw new Error("This transaction took too long and was abandoned.");
          return reserved;
        };
        return withinTransaction(openConnection(pool, lookUpDriver), work);
      };
      const { driver } = pool;
      const running = options === "" ? driver.begin(within) : driver.begin(options, within);
      return pool.guardTransaction(running, () => {
        isAbandoned = true;
      });
    },
    isAwaited: () => false,
    flush: async () => {},
    close: () => pool.close(),
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
