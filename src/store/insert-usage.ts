import { type Db, placeholder, type Value } from "./db.ts";
import { insertRows } from "./insert-rows.ts";
import type { UsageRow } from "./usage-row.ts";
import { isAlike, KIND_COLUMNS, kindValues, restValues, toValues, USAGE_COLUMNS } from "./usage-values.ts";

/** A row that fits the store, and the request whose entry it shares; null: it has one of its own. */
export type ChargedRow = readonly [row: UsageRow, chargedWith: string | null];

const COLUMNS = [...USAGE_COLUMNS, "charged_with"] as const;

/** Rows of one statement. */
const TOGETHER = 16;
/** So many kinds of rows wait for more of their kind; then the one that has waited longest does without. */
const KINDS_MAX = 32;
/** Rows of one statement that did not find enough of their kind. */
const LEFT_AT_ONCE = 64;

export interface UsageInsert {
  /** Takes rows in. Some of them may wait for more of their kind. */
  take(rows: readonly ChargedRow[]): Promise<void>;
  /** Writes the rows that still wait, with a pause after every few. */
  end(pause: () => Promise<void>): Promise<void>;
}

/**
 * Rows on their way into the store, in one transaction; one that it knows fails all of them. A fourth of what a row
 * costs SQLite is to be given each of its values: what rows of a kind share is given once for all rows of a statement.
 */
export function openUsageInsert(tx: Db): UsageInsert {
  const waiting: Kind[] = [];
  let left: ChargedRow[] = [];

  /** Returns those of a kind that are enough for a statement. */
  function add(row: ChargedRow): Kind | null {
    for (let index = 0; index < waiting.length; index++) {
      const kind = waiting[index];
      if (kind === undefined || !isAlike(kind.first, row[0])) continue;
      kind.rows.push(row);
      if (kind.rows.length < TOGETHER) return null;
      waiting.splice(index, 1);
      return kind;
    }
    if (waiting.length === KINDS_MAX) left.push(...(waiting.shift()?.rows ?? []));
    waiting.push({ first: row[0], rows: [row] });
    return null;
  }

  const insertMixed = (rows: readonly ChargedRow[]) => insertRows(tx, "usage", COLUMNS, rows.map(allValues));

  return {
    async take(rows) {
      if (tx.engine === "postgres") {
        await insertMixed(rows);
        return;
      }
      const full: Kind[] = [];
      for (const row of rows) {
        const kind = add(row);
        if (kind !== null) full.push(kind);
      }
      if (full.length > 0) await tx.sql.each(ALIKE_TEXT, full.map(alikeValues));
      if (left.length < LEFT_AT_ONCE) return;
      await insertMixed(left);
      left = [];
    },
    async end(pause) {
      left.push(...waiting.splice(0).flatMap((kind) => kind.rows));
      while (left.length > 0) {
        await insertMixed(left.splice(0, LEFT_AT_ONCE));
        await pause();
      }
    },
  };
}

/** Rows that are alike. */
interface Kind {
  first: UsageRow;
  rows: ChargedRow[];
}

const allValues = ([row, chargedWith]: ChargedRow): Value[] => [...toValues(row), chargedWith];

/** What they share, and then of each row all the rest. */
function alikeValues({ first, rows }: Kind): Value[] {
  return kindValues(first).concat(
    ...rows.map(([row, chargedWith]) => {
      const values = restValues(row);
      values.push(chargedWith);
      return values;
    }),
  );
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
