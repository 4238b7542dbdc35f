import { type Db, placeholder, type Value } from "./db.ts";
import { insertRows } from "./insert-rows.ts";
import type { UsageRow } from "./usage-row.ts";
import { isAlike, KIND_COLUMNS, kindValues, pushRest, toValues, USAGE_COLUMNS } from "./usage-values.ts";

const COLUMNS = [...USAGE_COLUMNS, "charged_with"] as const;

/** Rows of one statement. */
const TOGETHER = 32;
/** So many kinds of rows wait for more of their kind; then the one that has waited longest does without. */
const KINDS_MAX = 32;
/** Rows of one statement that did not find enough of their kind. */
const LEFT_AT_ONCE = 64;

/**
 * Rows on their way into the store, in one transaction; one that it knows fails all of them. A fourth of what a row
 * costs SQLite is to be given each of its values: what rows of a kind share is given once for all rows of a statement.
 *
 * A class: what the compiler makes of closures is thrown away with them, and each transaction would make its own.
 */
export class UsageInsert {
  private readonly tx: Db;
  private readonly waiting: Kind[] = [];
  /** Values of whole statements. */
  private full: Value[][] = [];
  /** All values of rows that do not wait for their like. */
  private mixed: Value[][] = [];

  constructor(tx: Db) {
    this.tx = tx;
  }

  /** A row that fits the store, and the request whose entry it shares; null: it has one of its own. */
  add(row: UsageRow, chargedWith: string | null): void {
    if (this.tx.engine === "sqlite") this.addAlike(row, chargedWith);
    else this.mixed.push([...toValues(row), chargedWith]);
  }

  /** Writes what was added. Some rows may wait for more of their kind. */
  async write(): Promise<void> {
    const { tx, full } = this;
    this.full = [];
    if (full.length > 0) await tx.sql.each(ALIKE_TEXT, full);
    if (tx.engine === "sqlite" && this.mixed.length < LEFT_AT_ONCE) return;
    await this.insertMixed(this.mixed.splice(0));
  }

  /** Writes the rows that still wait, with a pause after every few. */
  async end(pause: () => Promise<void>): Promise<void> {
    this.mixed.push(...this.waiting.splice(0).flatMap(rowsOf));
    while (this.mixed.length > 0) {
      await this.insertMixed(this.mixed.splice(0, LEFT_AT_ONCE));
      await pause();
    }
  }

  private addAlike(row: UsageRow, chargedWith: string | null): void {
    const kind = this.kindOf(row);
    pushRest(kind.values, row);
    kind.values.push(chargedWith);
    kind.rows++;
    if (kind.rows < TOGETHER) return;
    this.full.push(kind.values);
    this.waiting.splice(this.waiting.indexOf(kind), 1);
  }

  private kindOf(row: UsageRow): Kind {
    for (const kind of this.waiting) if (isAlike(kind.first, row)) return kind;
    if (this.waiting.length === KINDS_MAX) this.mixed.push(...this.waiting.splice(0, 1).flatMap(rowsOf));
    const made = { first: row, values: kindValues(row), rows: 0 };
    this.waiting.push(made);
    return made;
  }

  private async insertMixed(rows: readonly Value[][]): Promise<void> {
    await insertRows(this.tx, "usage", COLUMNS, rows);
  }
}

/** Rows that are alike: what they share, and then of each row all the rest. */
interface Kind {
  first: UsageRow;
  values: Value[];
  rows: number;
}

const REST_COUNT = COLUMNS.length - KIND_COLUMNS.length;

/** All values of each. */
function rowsOf({ values }: Kind): Value[][] {
  const shared = values.slice(0, KIND_COLUMNS.length);
  const rows: Value[][] = [];
  for (let at = shared.length; at < values.length; at += REST_COUNT) {
    rows.push([...shared, ...values.slice(at, at + REST_COUNT)]);
  }
  return rows;
}

function alikeText(): string {
  const first = COLUMNS.map((_, i) => placeholder("sqlite", i));
  const next = COLUMNS.map((_, i) => (i < KIND_COLUMNS.length ? `?${i + 1}` : placeholder("sqlite", i)));
  const tuples = Array.from({ length: TOGETHER }, (_, row) => `(${(row === 0 ? first : next).join(", ")})`);
  // To undo a statement of several rows, SQLite would copy every page that it changes into a file of its own; but
  // whatever fails here is undone with its transaction.
  return `INSERT OR FAIL INTO usage (${COLUMNS.join(", ")}) VALUES ${tuples.join(", ")}`;
}

const ALIKE_TEXT = alikeText();
