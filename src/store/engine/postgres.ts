/** The PostgreSQL engine, on Bun's SQL driver. */

import { SQL } from "bun";
import {
  createSql,
  type Db,
  type Row,
  type SqlValue,
  type StoreConnection,
  withinTransaction,
} from "./transaction.ts";

const CONNECTIONS_MAX = 10;
const CONNECT_TIMEOUT_S = 10;
/** PostgreSQL's type OID of BIGINT. */
const INT8_OID = 20;

interface Driver {
  unsafe(text: string, values?: SqlValue[]): SQL.Query<Row[]>;
}

export async function openPostgres(url: string): Promise<Db> {
  const database = decodeURIComponent(new URL(url).pathname.slice(1));
  const driver = new SQL({
    adapter: "postgres",
    url,
    // Set explicitly: otherwise PGDATABASE in the environment would override the URL.
    ...(database === "" ? {} : { database }),
    max: CONNECTIONS_MAX,
    connectionTimeout: CONNECT_TIMEOUT_S,
    connection: { application_name: "model-gateway" },
  });
  await driver.connect();
  const begin: Db["begin"] = (mode, work) => {
    // A write transaction sees concurrent commits (READ COMMITTED), so waiting for a row lock is enough.
    const options = mode === "write" ? "" : "ISOLATION LEVEL REPEATABLE READ READ ONLY";
    const within = (reserved: Driver) => withinTransaction(openConnection(reserved), work);
    return options === "" ? driver.begin(within) : driver.begin(options, within);
  };
  return {
    engine: "postgres",
    sql: createSql(openConnection(driver)),
    begin,
    isAwaited: () => false,
    flush: async () => {},
    close: () => driver.close(),
  };
}

function openConnection(driver: Driver): StoreConnection {
  return {
    engine: "postgres",
    run: async (text, values) => withNumbers(await driver.unsafe(text, [...values])),
    each: async (text, rows) => {
      for (const values of rows) await driver.unsafe(text, [...values]);
    },
    script: async (text) => {
      await driver.unsafe(text);
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
