/** Reads another gateway's database in one read-only transaction, in pages, as bounded text. */

import { Database } from "bun:sqlite";
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { SQL } from "bun";
import { limits } from "../../config/limits/product-limits.ts";
import { fail, misuse } from "../command.ts";
import { SourceRow } from "./source-row.ts";
import type { SourceTable, SpendingTable } from "./source-table.ts";

export interface SourceDatabase {
  /** Null if the table does not exist. */
  columns(table: string): Promise<readonly string[] | null>;
  /** Rows in the order of the key. The table must exist. */
  rows(table: SourceTable): AsyncGenerator<SourceRow>;
  /** Rows with `month` (`2026-11`) and `amount`. None if the table or one of its columns does not exist. */
  monthlySums(table: SpendingTable): Promise<readonly SourceRow[]>;
  close(): Promise<void>;
}

type Cells = Readonly<Record<string, unknown>>;
type RunQuery = (text: string) => Promise<readonly Cells[]>;

interface SourceDialect {
  /** Starts the transaction in which everything is read. */
  readonly begin: readonly string[];
  readonly quotes: string;
  columnsQuery(table: string): string;
  toText(column: string): string;
  /** The month of seconds since 1970, as `2026-11`. */
  monthOfSeconds(column: string): string;
}

const POSTGRES: SourceDialect = {
  begin: ["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"],
  quotes: '"',
  columnsQuery: (table) => catalogueQuery("current_schema()", table),
  // Lists and JSON become JSON, a text loses its quotes again, and numbers keep every digit.
  toText: (column) => `to_jsonb(${column}) #>> '{}'`,
  monthOfSeconds: (column) => `to_char(to_timestamp(${column}) AT TIME ZONE 'UTC', 'YYYY-MM')`,
};

const MYSQL: SourceDialect = {
  begin: [
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
  ],
  quotes: "`",
  columnsQuery: (table) => catalogueQuery("DATABASE()", table),
  toText: (column) => `CAST(${column} AS CHAR)`,
  monthOfSeconds: (column) => `DATE_FORMAT(DATE_ADD('1970-01-01', INTERVAL ${column} SECOND), '%Y-%m')`,
};

const SQLITE: SourceDialect = {
  begin: ["PRAGMA query_only = 1", "BEGIN"],
  quotes: '"',
  columnsQuery: (table) => `SELECT name AS column_name FROM pragma_table_info('${table}')`,
  toText: (column) => `CAST(${column} AS TEXT)`,
  monthOfSeconds: (column) => `strftime('%Y-%m', ${column}, 'unixepoch')`,
};

function catalogueQuery(schema: string, table: string): string {
  return `SELECT column_name AS column_name FROM information_schema.columns
    WHERE table_schema = ${schema} AND table_name = '${table}' ORDER BY ordinal_position`;
}

export function openSource(address: string): Promise<SourceDatabase> {
  if (/^postgres(?:ql)?:\/\//.test(address)) return openServer(POSTGRES, address);
  if (/^(?:mysql|mariadb):\/\//.test(address))
    return openServer(MYSQL, address.replace(/^mariadb:/, "mysql:"));
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(address) && !address.startsWith("sqlite://"))
    misuse(
      "--from is an address that this command does not know.",
      "Use postgres://…, mysql://… or the path of a SQLite file.",
    );
  return openFile(resolve(address.replace(/^sqlite:(?:\/\/)?/, "")));
}

async function openServer(dialect: SourceDialect, address: string): Promise<SourceDatabase> {
  const client = new SQL(address, { max: 1, connectionTimeout: limits.importTimeoutMs / 1_000 });
  const run: RunQuery = async (text) => client.unsafe(text);
  try {
    // The client has a single connection, so the transaction covers every query.
    for (const statement of dialect.begin) await run(statement);
  } catch (error) {
    await client.close();
    const code = error instanceof Error && "code" in error ? ` (${error.code})` : "";
    fail(
      `The database of --from cannot be reached${code}.`,
      "Check that its server is running, and check the host, user, password and database in the address.",
    );
  }
  return new QueriedSource(dialect, run, () => client.close());
}

async function openFile(path: string): Promise<SourceDatabase> {
  if (!existsSync(path)) fail(`The file ${path} does not exist.`, "Use the path of the SQLite file.");
  try {
    const file = new Database(path, { readonly: true });
    for (const statement of SQLITE.begin) file.run(statement);
    // The first query reads the file.
    file.query("SELECT COUNT(*) FROM sqlite_master").get();
    const run: RunQuery = async (text) => file.query<Cells, []>(text).all();
    return new QueriedSource(SQLITE, run, async () => file.close());
  } catch {
    return fail(`${path} cannot be read as a SQLite database.`, "Use the path of the SQLite file.");
  }
}

class QueriedSource implements SourceDatabase {
  readonly #dialect: SourceDialect;
  readonly #run: RunQuery;
  readonly #close: () => Promise<void>;

  constructor(dialect: SourceDialect, run: RunQuery, close: () => Promise<void>) {
    this.#dialect = dialect;
    this.#run = run;
    this.#close = close;
  }

  async columns(table: string): Promise<readonly string[] | null> {
    const rows = await this.#run(this.#dialect.columnsQuery(table));
    return rows.length === 0 ? null : rows.map(({ column_name }) => String(column_name));
  }

  async *rows(table: SourceTable): AsyncGenerator<SourceRow> {
    const present = new Set(await this.columns(table.name));
    const missing = [table.key, ...table.required].filter((column) => !present.has(column));
    if (missing.length > 0)
      fail(
        `The table ${table.name} of the source has no column ${missing.join(", ")}.`,
        "The source is another program, or a version that this command does not know.",
      );
    const columns = [...new Set([table.key, ...table.required, ...(table.optional ?? [])])];
    const read = columns.filter((column) => present.has(column));
    const select = `SELECT ${read.map((column, i) => `${this.#asText(column)} AS c${i}`).join(", ")}
      FROM ${this.#quote(table.name)} ORDER BY ${[table.key, table.orderBy ?? table.key].map((column) => this.#quote(column)).join(", ")}`;
    for (let offset = 0; offset < limits.importRowsMax; offset += limits.importPageRows) {
      const page = await this.#run(`${select} LIMIT ${limits.importPageRows} OFFSET ${offset}`);
      for (const cells of page)
        yield new SourceRow(table, new Map(read.map((column, i) => [column, cellText(cells[`c${i}`])])));
      if (page.length < limits.importPageRows) return;
    }
    fail(`The table ${table.name} of the source has more than ${limits.importRowsMax} rows.`);
  }

  async monthlySums({
    name,
    time,
    isTimeInSeconds,
    amount,
    only,
  }: SpendingTable): Promise<readonly SourceRow[]> {
    const present = new Set(await this.columns(name));
    const needed = only === undefined ? [time, amount] : [time, amount, only[0]];
    if (needed.some((column) => !present.has(column))) return [];
    const { toText, monthOfSeconds } = this.#dialect;
    const at = this.#quote(time);
    const month = isTimeInSeconds ? monthOfSeconds(at) : `SUBSTR(${toText(at)}, 1, 7)`;
    const sums = await this.#run(`
      SELECT ${month} AS c0, ${toText(`SUM(${this.#quote(amount)})`)} AS c1 FROM ${this.#quote(name)}
      ${only === undefined ? "" : `WHERE ${this.#quote(only[0])} = ${only[1]}`} GROUP BY ${month} ORDER BY ${month}`);
    return sums.map(
      ({ c0, c1 }) =>
        new SourceRow(
          { key: "month" },
          new Map([
            ["month", cellText(c0)],
            ["amount", cellText(c1)],
          ]),
        ),
    );
  }

  close(): Promise<void> {
    return this.#close();
  }

  #quote(name: string): string {
    return `${this.#dialect.quotes}${name}${this.#dialect.quotes}`;
  }

  /** One character more than allowed, so that a longer value is noticed instead of cut. */
  #asText(column: string): string {
    return `SUBSTR(${this.#dialect.toText(this.#quote(column))}, 1, ${limits.importTextCharsMax + 1})`;
  }
}

function cellText(cell: unknown): string | null {
  return cell === null || cell === undefined ? null : String(cell);
}
