/** Databases of other gateways for tests: their tables as their public schemas describe them, filled with rows. */

import { Database } from "bun:sqlite";
import { SQL } from "bun";

type ColumnType = "text" | "list" | "json" | "float" | "decimal" | "int" | "bool" | "time";
export type Columns = Readonly<Record<string, ColumnType>>;
export type Rows = readonly Readonly<Record<string, unknown>>[];
/** Tables with their columns and rows. */
export type SourceContent = Readonly<Record<string, { columns: Columns; rows: Rows }>>;

type Engine = "sqlite" | "postgres" | "mysql";

const TYPES: Readonly<Record<Engine, Readonly<Record<ColumnType, string>>>> = {
  sqlite: {
    text: "TEXT",
    list: "TEXT",
    json: "TEXT",
    float: "REAL",
    decimal: "TEXT",
    int: "INTEGER",
    bool: "NUMERIC",
    time: "DATETIME",
  },
  postgres: {
    text: "TEXT",
    list: "TEXT[]",
    json: "JSONB",
    float: "DOUBLE PRECISION",
    decimal: "DECIMAL(20,8)",
    int: "BIGINT",
    bool: "BOOLEAN",
    time: "TIMESTAMP(3)",
  },
  mysql: {
    text: "LONGTEXT",
    list: "JSON",
    json: "JSON",
    float: "DOUBLE",
    decimal: "DECIMAL(20,8)",
    int: "BIGINT",
    bool: "TINYINT(1)",
    time: "DATETIME(3)",
  },
};

export function writeSqlite(path: string, content: SourceContent): void {
  const file = new Database(path, { create: true });
  file.transaction(() => {
    for (const statement of listStatements("sqlite", content)) file.run(statement);
  })();
  file.close();
}

export async function writeServer(url: string, content: SourceContent): Promise<void> {
  const engine = url.startsWith("mysql") ? "mysql" : "postgres";
  const client = new SQL(url, { max: 1 });
  for (const statement of listStatements(engine, content)) await client.unsafe(statement);
  await client.close();
}

function listStatements(engine: Engine, content: SourceContent): string[] {
  const quote = (name: string) => (engine === "mysql" ? `\`${name}\`` : `"${name}"`);
  return Object.entries(content).flatMap(([table, { columns, rows }]) => [
    `CREATE TABLE ${quote(table)} (${Object.entries(columns)
      .map(([name, type]) => `${quote(name)} ${TYPES[engine][type]}`)
      .join(", ")})`,
    ...rows.map((row) => {
      const names = Object.keys(row);
      const values = names.map((name) => literal(engine, columns[name] ?? "text", row[name]));
      return `INSERT INTO ${quote(table)} (${names.map(quote).join(", ")}) VALUES (${values.join(", ")})`;
    }),
  ]);
}

function literal(engine: Engine, type: ColumnType, value: unknown): string {
  if (value === null || value === undefined) return "NULL";
  if (type === "list" && engine === "postgres" && Array.isArray(value))
    return `ARRAY[${value.map((one) => text(String(one))).join(", ")}]::TEXT[]`;
  if (value instanceof Date) return text(value.toISOString().replace("T", " ").replace("Z", ""));
  if (typeof value === "boolean") return engine === "postgres" ? String(value) : value ? "1" : "0";
  return typeof value === "object" ? text(JSON.stringify(value)) : text(String(value));
}

function text(value: string): string {
  return `'${value.replaceAll("'", "''")}'`;
}
