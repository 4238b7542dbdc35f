/** Prepared statements of one connection to SQLite. */

import type { Database, Statement } from "bun:sqlite";
import type { Row, SqlValue } from "./transaction.ts";

const STATEMENT_CACHE_MAX = 400;

interface CachedStatement {
  statement: Statement<Row, SqlValue[]>;
  /** Running a statement that returns no rows is cheaper. */
  returnsRows: boolean;
}

export class StatementCache {
  readonly #driver: Database;
  readonly #statements = new Map<string, CachedStatement>();

  constructor(driver: Database) {
    this.#driver = driver;
  }

  execute(text: string, values: readonly SqlValue[]): Row[] {
    const { statement, returnsRows } = this.#prepare(text);
    if (returnsRows) return statement.all(...values);
    statement.run(...values);
    return [];
  }

  executeEach(text: string, rows: readonly (readonly SqlValue[])[]): void {
    const { statement } = this.#prepare(text);
    for (const values of rows) statement.run(...values);
  }

  finalize(): void {
    for (const { statement } of this.#statements.values()) statement.finalize();
    this.#statements.clear();
  }

  #prepare(text: string): CachedStatement {
    const cached = this.#statements.get(text);
    if (cached !== undefined) return cached;
    const statement = this.#driver.prepare<Row, SqlValue[]>(text);
    const created = { statement, returnsRows: statement.columnNames.length > 0 };
    this.#statements.set(text, created);
    for (const [oldest, { statement: old }] of this.#statements) {
      if (this.#statements.size <= STATEMENT_CACHE_MAX) break;
      this.#statements.delete(oldest);
      old.finalize();
    }
    return created;
  }
}
