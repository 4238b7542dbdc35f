import { type Db, placeholder, type Value } from "./db.ts";
import { insertRows } from "./insert-rows.ts";

/** Rows of one statement. */
const TOGETHER = 16;
/** So many kinds of rows wait for more of their kind; then the one that has waited longest does without. */
const KINDS_MAX = 8;

/**
 * For wide rows, which are often alike in their first so many columns. A fourth of what a row costs SQLite is to be
 * given each of its values: what rows share is given once for all rows of a statement.
 */
export async function insertAlike(
  tx: Db,
  table: string,
  columns: readonly string[],
  shared: number,
  rows: readonly (readonly Value[])[],
): Promise<void> {
  if (tx.engine === "postgres" || rows.length < TOGETHER) {
    await insertRows(tx, table, columns, rows);
    return;
  }
  const { alike, waiting, others } = sorted(rows, shared);
  if (alike.length > 0) {
    await tx.sql.each(
      alikeText(table, columns, shared),
      alike.map((kind) => valuesOf(kind, shared)),
    );
  }
  await insertRows(tx, table, columns, others.concat(...waiting));
}

type Line = readonly Value[];

interface Sorted {
  /** Lists of a kind, each of just as many as a statement takes. */
  alike: Line[][];
  /** Those that wait for more of their kind. */
  waiting: Line[][];
  others: Line[];
}

function sorted(rows: readonly Line[], shared: number): Sorted {
  const kinds: Sorted = { alike: [], waiting: [], others: [] };
  for (const row of rows) add(kinds, row, shared);
  return kinds;
}

function add({ alike, waiting, others }: Sorted, row: Line, shared: number): void {
  for (const [index, kind] of waiting.entries()) {
    if (!isAlike(kind, row, shared)) continue;
    kind.push(row);
    if (kind.length < TOGETHER) return;
    alike.push(kind);
    waiting.splice(index, 1);
    return;
  }
  if (waiting.length === KINDS_MAX) others.push(...(waiting.shift() ?? []));
  waiting.push([row]);
}

function isAlike([first = []]: readonly Line[], row: Line, shared: number): boolean {
  for (let i = 0; i < shared; i++) if (first[i] !== row[i]) return false;
  return true;
}

/** The first row whole, and of the others what is their own. */
function valuesOf([first = [], ...others]: readonly Line[], shared: number): Value[] {
  return first.concat(...others.map((row) => row.slice(shared)));
}

const texts = new WeakMap<readonly string[], string>();

/** Columns are always the same few objects, each of one table: its text is put together once. */
function alikeText(table: string, columns: readonly string[], shared: number): string {
  const known = texts.get(columns);
  if (known !== undefined) return known;
  const first = columns.map((_, i) => placeholder("sqlite", i));
  const next = columns.map((_, i) => (i < shared ? `?${i + 1}` : placeholder("sqlite", i)));
  const tuples = Array.from({ length: TOGETHER }, (_, row) => `(${(row === 0 ? first : next).join(", ")})`);
  const text = `INSERT OR FAIL INTO ${table} (${columns.join(", ")}) VALUES ${tuples.join(", ")}`;
  texts.set(columns, text);
  return text;
}
