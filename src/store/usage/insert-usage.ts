/** Inserts usage rows with few, long statements. Rows that share most of their values are written together. */

import type { Db, SqlValue } from "../engine/db.ts";
import { canShareValues, isSharedServer } from "../engine/dialect.ts";
import { buildSharingInsert, insertRows } from "../engine/insert-rows.ts";
import { Numbering, UsageNumbers } from "./usage-numbers.ts";
import { clampCount, toUsageRow, type UsageRow } from "./usage-row.ts";
import {
  asStored,
  isSameKind,
  KIND_COLUMNS,
  kindValues,
  NUMBER_COLUMNS,
  NUMBERED_COLUMNS,
  pushRest,
  REST_COLUMNS,
  ROW_KIND_COLUMNS,
  toValues,
  USAGE_COLUMNS,
} from "./usage-values.ts";

const COLUMNS = [...USAGE_COLUMNS, "charged_with"] as const;

const ROWS_PER_STATEMENT = 32;
/**
 * Number of kinds whose rows wait for a full statement. Above it, the kind that waited longest is written without
 * one.
 */
const PENDING_KINDS_MAX = 32;
/** Rows per statement for rows that did not fill a statement of their kind. */
const REST_BATCH_ROWS = 64;

const REST_COUNT = COLUMNS.length - KIND_COLUMNS.length;
const STATEMENT_VALUES = KIND_COLUMNS.length + ROWS_PER_STATEMENT * REST_COUNT;
/** Index of the request id among the rest of a row's values. */
const ID_AT = REST_COLUMNS.indexOf("request_id");

/** Values of the rows of one kind, in order of arrival. */
export class SameKindRows {
  readonly first: UsageRow;
  /** The values that are not part of the kind, row by row. */
  readonly rest: SqlValue[] = [];

  constructor(first: UsageRow) {
    this.first = first;
  }

  get count(): number {
    return this.rest.length / REST_COUNT;
  }

  /** Adds a clamped row. `chargedWith`: the request whose ledger entry it shares; null for its own. */
  add(row: UsageRow, sharedChargeIds: string | null): void {
    pushRest(this.rest, row);
    this.rest.push(sharedChargeIds);
  }

  /** Sets the shared ledger entry of a row afterwards. */
  setSharedCharge(index: number, requestId: string): void {
    this.rest[(index + 1) * REST_COUNT - 1] = requestId;
  }

  ids(): string[] {
    return Array.from({ length: this.count }, (_, index) => String(this.rest[index * REST_COUNT + ID_AT]));
  }

  /** Slow; for rare cases only. */
  rows(): UsageRow[] {
    return splitRows(kindValues(this.first), this.rest).map(toRow);
  }

  find(requestId: string): UsageRow | null {
    for (let at = 0; at < this.rest.length; at += REST_COUNT) {
      if (this.rest[at + ID_AT] !== requestId) continue;
      return toRow([...kindValues(this.first), ...this.rest.slice(at, at + REST_COUNT)]);
    }
    return null;
  }
}

/** Returns the group of this row's kind. A linear search: there are few kinds. */
export function groupByKind(kinds: SameKindRows[], row: UsageRow): SameKindRows {
  for (const sameKindRows of kinds) if (isSameKind(sameKindRows.first, row)) return sameKindRows;
  const created = new SameKindRows(row);
  kinds.push(created);
  return created;
}

const toRow = (values: readonly SqlValue[]): UsageRow => toUsageRow(asStored(COLUMNS, values));

/** All values of each row. */
function splitRows(kind: readonly SqlValue[], rest: readonly SqlValue[]): SqlValue[][] {
  const rows: SqlValue[][] = [];
  for (let at = 0; at < rest.length; at += REST_COUNT)
    rows.push([...kind, ...rest.slice(at, at + REST_COUNT)]);
  return rows;
}

/**
 * Collects rows as the values of insert statements. A quarter of the cost of a row in SQLite is binding its values,
 * so the values shared by a kind are bound once per statement.
 */
export class ReadyRows {
  /** Values of full statements of rows of one kind: the shared values, then the rest of each row. */
  readonly full: SqlValue[][] = [];
  readonly #waiting: PendingKind[] = [];
  /** All values of rows that no longer wait for a full statement. */
  readonly #single: SqlValue[][] = [];

  add({ first, rest }: SameKindRows): void {
    if (first.requestCount === 0) return;
    for (let at = 0; at < rest.length; ) {
      const kind = this.#findPendingKind(first);
      const { values } = kind;
      const end = Math.min(rest.length, at + STATEMENT_VALUES - values.length);
      for (; at < end; at++) values.push(rest[at] ?? null);
      if (values.length < STATEMENT_VALUES) return;
      this.full.push(values);
      this.#waiting.splice(this.#waiting.indexOf(kind), 1);
    }
  }

  /** All values of the rows that are in no full statement. */
  rest(): SqlValue[][] {
    return [...this.#single, ...this.#waiting.flatMap(({ values }) => splitStatement(values))];
  }

  #findPendingKind(row: UsageRow): PendingKind {
    for (const kind of this.#waiting) if (isSameKind(kind.first, row)) return kind;
    if (this.#waiting.length === PENDING_KINDS_MAX) {
      const [longest] = this.#waiting.splice(0, 1);
      if (longest !== undefined) this.#single.push(...splitStatement(longest.values));
    }
    const made = { first: row, values: kindValues(row) };
    this.#waiting.push(made);
    return made;
  }
}

/** Rows of one kind that wait for a full statement. */
interface PendingKind {
  first: UsageRow;
  /** The shared values, then the rest of each row. */
  values: SqlValue[];
}

const splitStatement = (values: readonly SqlValue[]): SqlValue[][] =>
  splitRows(values.slice(0, KIND_COLUMNS.length), values.slice(KIND_COLUMNS.length));

/** Inserts the full statements of `ReadyRows`. A single row that already exists fails all of them. */
export async function insertFull(
  tx: Db,
  numbering: Numbering,
  statements: readonly SqlValue[][],
): Promise<void> {
  if (statements.length === 0) return;
  if (canShareValues(tx)) await tx.sql.each(SHARING_INSERT, await shortenAll(tx, numbering, statements));
  else await insertShort(tx, numbering, statements.flatMap(splitStatement));
}

/** Inserts rows in this order, also when other processes write the same rows concurrently. */
export async function insertUsage(tx: Db, numbering: Numbering, rows: readonly UsageRow[]): Promise<void> {
  if (!canShareValues(tx)) {
    const counting = rows.filter(({ requestCount }) => requestCount > 0);
    await insertShort(tx, numbering, counting.map(allValues));
    return;
  }
  const kinds: SameKindRows[] = [];
  for (const row of rows) groupByKind(kinds, row).add(row, null);
  const ready = new ReadyRows();
  for (const sameKindRows of kinds) ready.add(sameKindRows);
  await insertFull(tx, numbering, ready.full);
  await insertRest(tx, numbering, ready.rest(), async () => {});
}

function allValues(row: UsageRow): SqlValue[] {
  const values = toValues(row);
  values.push(null);
  return values;
}

/** Inserts the remaining rows, with a pause after each batch. */
export async function insertRest(
  tx: Db,
  numbering: Numbering,
  rows: readonly SqlValue[][],
  pause: () => Promise<void>,
): Promise<void> {
  for (let start = 0; start < rows.length; start += REST_BATCH_ROWS) {
    await insertShort(tx, numbering, rows.slice(start, start + REST_BATCH_ROWS));
    await pause();
  }
}

async function insertShort(tx: Db, numbering: Numbering, rows: readonly SqlValue[][]): Promise<void> {
  await insertRows(tx, "usage_row", SHORT_COLUMNS, await shortenAll(tx, numbering, rows));
}

/** Columns as stored: those that the rows of a statement share, then the rest. */
const SHARED_COLUMNS = ["kind_no", "asked_model", ...ROW_KIND_COLUMNS] as const;
const SHORT_COLUMNS = [
  ...SHARED_COLUMNS,
  ...REST_COLUMNS.map((column) => NUMBER_COLUMNS.get(column) ?? column),
  "charged_with",
] as const;

const MODEL_AT = KIND_COLUMNS.indexOf("public_model");
const OUTCOME_AT = KIND_COLUMNS.indexOf("outcome");
/** Which of the rest are ids that are stored as numbers. */
const IS_ID = [...REST_COLUMNS.map((column) => NUMBER_COLUMNS.has(column)), false];

/**
 * Registers the numbers that these rows are likely to need. On a shared server this runs in its own transaction: a new
 * number blocks every other writer that needs it, and the transaction that books the rows may take long.
 */
export async function registerNumbers(
  db: Db,
  numbers: UsageNumbers,
  rows: readonly UsageRow[],
): Promise<void> {
  if (!isSharedServer(db)) return;
  const lists = rows.map((row) => allValues(clampCount(row)));
  const numbering = new Numbering(numbers);
  for (const values of lists) shorten(values, numbering);
  if (!numbering.isComplete) await numbers.within(db, (tx, own) => shortenAll(tx, own, lists));
}

/** The same for rows that are prepared already. */
export async function registerKinds(
  db: Db,
  numbers: UsageNumbers,
  kinds: readonly SameKindRows[],
): Promise<void> {
  if (!isSharedServer(db)) return;
  const lists = kinds.map(({ first, rest }) => [...kindValues(first), ...rest]);
  const numbering = new Numbering(numbers);
  for (const values of lists) shorten(values, numbering);
  if (!numbering.isComplete) await numbers.within(db, (tx, own) => shortenAll(tx, own, lists));
}

/** Replaces ids and kinds by their numbers, in lists of a kind and the rest of one or more rows. */
async function shortenAll(tx: Db, numbering: Numbering, lists: readonly SqlValue[][]): Promise<SqlValue[][]> {
  for (;;) {
    const short = lists.map((values) => shorten(values, numbering));
    // Nearly always all numbers are known already.
    if (!(await numbering.register(tx))) return short;
  }
}

function shorten(values: readonly SqlValue[], numbering: Numbering): SqlValue[] {
  const isRejected = values[OUTCOME_AT] === "refused";
  const short = [numbering.lookUpKind(extractKind(values)), isRejected ? (values[MODEL_AT] ?? null) : null];
  for (let at = NUMBERED_COLUMNS.length; at < KIND_COLUMNS.length; at++) short.push(values[at] ?? null);
  for (let at = KIND_COLUMNS.length; at < values.length; at += REST_COUNT) {
    for (let i = 0; i < REST_COUNT; i++) {
      const value = values[at + i] ?? null;
      short.push(IS_ID[i] === true && typeof value === "string" ? numbering.lookUpId(value) : value);
    }
  }
  return short;
}

/**
 * The deduplicated values of a kind. The model name of a rejected request is chosen by the caller, so it is left out
 * of this table, whose rows are never deleted.
 */
function extractKind(kind: readonly SqlValue[]): SqlValue[] {
  const kindColumns = kind.slice(0, NUMBERED_COLUMNS.length);
  if (kind[OUTCOME_AT] === "refused") kindColumns[MODEL_AT] = "";
  return kindColumns;
}

/** Returns the number of a row's kind, and registers it if it is new. */
export async function kindNumber(tx: Db, row: UsageRow): Promise<number> {
  const numbering = new Numbering(new UsageNumbers());
  const kindColumns = extractKind(kindValues(row));
  numbering.lookUpKind(kindColumns);
  await numbering.register(tx);
  return numbering.lookUpKind(kindColumns);
}

const SHARING_INSERT = buildSharingInsert({
  table: "usage_row",
  columns: SHORT_COLUMNS,
  sharedCount: SHARED_COLUMNS.length,
  rowCount: ROWS_PER_STATEMENT,
});
