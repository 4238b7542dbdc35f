/** Walks the tables of a source. A bad row becomes a finding with its id, and the others are read. */

import type { Nano } from "../../money/nano.ts";
import { fail } from "../command.ts";
import { cleanText, type ImportFinding, type MonthlySpending } from "./imported.ts";
import type { SourceDatabase } from "./source-database.ts";
import { BadRow, type SourceRow } from "./source-row.ts";
import type { SourceTable, SpendingTable } from "./source-table.ts";

export class TableReader {
  readonly #source: SourceDatabase;
  readonly #findings: ImportFinding[];

  constructor(source: SourceDatabase, findings: ImportFinding[]) {
    this.#source = source;
    this.#findings = findings;
  }

  /** Reads every row of a table that each version of the source has. */
  async each(table: SourceTable, read: (row: SourceRow) => void): Promise<void> {
    if (!(await this.eachIfPresent(table, read)))
      fail(
        `The source has no table ${table.name}.`,
        "Check --from, and that the program named in the command is the one that uses this database.",
      );
  }

  /** Returns whether the table exists. */
  async eachIfPresent(table: SourceTable, read: (row: SourceRow) => void): Promise<boolean> {
    const columns = await this.#source.columns(table.name);
    if (columns === null) return false;
    this.#reportUnknown(table, columns);
    for await (const row of this.#source.rows(table)) {
      try {
        read(row);
      } catch (error) {
        if (!(error instanceof BadRow)) throw error;
        this.#findings.push({
          subject: `${table.name} ${row.shownId}`,
          message: `skipped: ${error.message}.`,
        });
      }
    }
    return true;
  }

  /**
   * What requests cost in each month. Months without costs are left out. Times and amounts that the database cannot
   * add up must not end the import, which needs them for its report only.
   */
  async readSpending(table: SpendingTable, readNano: (row: SourceRow) => Nano): Promise<MonthlySpending[]> {
    try {
      const rows = await this.#source.monthlySums(table);
      return rows
        .map((row) => ({ month: row.text("month") ?? "", amountNano: readNano(row) }))
        .filter(({ month, amountNano }) => /^\d{4}-\d\d$/.test(month) && amountNano > 0n);
    } catch {
      this.#findings.push({
        subject: `table ${table.name}`,
        message: "the costs of each month cannot be added up, and are not reported.",
      });
      return [];
    }
  }

  #reportUnknown(table: SourceTable, columns: readonly string[]): void {
    const known = new Set([
      table.key,
      ...table.required,
      ...(table.optional ?? []),
      ...(table.ignored ?? []),
    ]);
    const unknown = columns.filter((column) => !known.has(column));
    if (unknown.length > 0)
      this.#findings.push({
        subject: `table ${table.name}`,
        message: `columns that this version does not know are not read: ${cleanText(unknown.join(", "))}.`,
      });
  }
}
