import { type Db, placeholder, type SqlValue } from "../engine/db.ts";
import { insertRows } from "../engine/insert-rows.ts";
import { Numbering, UsageNumbers } from "./usage-numbers.ts";
import { clampCount, toUsageRow, type UsageRow } from "./usage-row.ts";
import {
  asStored,
  isAlike,
  KIND_COLUMNS,
  kindValues,
  pushRest,
  REST_COLUMNS,
  TOLD_IN_ROW,
  TOLD_ONCE,
  toValues,
  USAGE_COLUMNS,
} from "./usage-values.ts";

const COLUMNS = [...USAGE_COLUMNS, "charged_with"] as const;

/** Rows of one statement. */
const TOGETHER = 32;
/** So many kinds of rows wait for more of their kind; then the one that has waited longest does without. */
const KINDS_MAX = 32;
/** Rows of one statement that did not find enough of their kind. */
const LEFT_AT_ONCE = 64;

const REST_COUNT = COLUMNS.length - KIND_COLUMNS.length;
const STATEMENT_VALUES = KIND_COLUMNS.length + TOGETHER * REST_COUNT;
/** Where among the rest of a row's values its id is. */
const ID_AT = REST_COLUMNS.indexOf("request_id");

/** Rows of one kind as values, in the order in which they came. */
export class AlikeRows {
  readonly first: UsageRow;
  /** All that is not of their kind, row by row. */
  readonly rest: SqlValue[] = [];

  constructor(first: UsageRow) {
    this.first = first;
  }

  get count(): number {
    return this.rest.length / REST_COUNT;
  }

  /** A row that fits the store, and the request whose entry it shares; null: it has one of its own. */
  add(row: UsageRow, chargedWith: string | null): void {
    pushRest(this.rest, row);
    this.rest.push(chargedWith);
  }

  /** One of them turns out to share an entry. */
  chargeWith(index: number, requestId: string): void {
    this.rest[(index + 1) * REST_COUNT - 1] = requestId;
  }

  ids(): string[] {
    return Array.from({ length: this.count }, (_, index) => String(this.rest[index * REST_COUNT + ID_AT]));
  }

  /** Slow: for what hardly ever happens. */
  rows(): UsageRow[] {
    return apart(kindValues(this.first), this.rest).map(asRow);
  }

  find(requestId: string): UsageRow | null {
    for (let at = 0; at < this.rest.length; at += REST_COUNT) {
      if (this.rest[at + ID_AT] !== requestId) continue;
      return asRow([...kindValues(this.first), ...this.rest.slice(at, at + REST_COUNT)]);
    }
    return null;
  }
}

/** Those of this row's kind. For few kinds: they are looked through. */
export function groupAlikeRows(kinds: AlikeRows[], row: UsageRow): AlikeRows {
  for (const alike of kinds) if (isAlike(alike.first, row)) return alike;
  const made = new AlikeRows(row);
  kinds.push(made);
  return made;
}

const asRow = (values: readonly SqlValue[]): UsageRow => toUsageRow(asStored(COLUMNS, values));

/** All values of each of these rows. */
function apart(kind: readonly SqlValue[], rest: readonly SqlValue[]): SqlValue[][] {
  const rows: SqlValue[][] = [];
  for (let at = 0; at < rest.length; at += REST_COUNT)
    rows.push([...kind, ...rest.slice(at, at + REST_COUNT)]);
  return rows;
}

/**
 * Rows as the values of statements that write them. A fourth of what a row costs SQLite is to be given each of its
 * values: what rows of a kind share is given once for all rows of a statement.
 */
export class ReadyRows {
  /** Values of whole statements, of rows that are alike: their kind, and then the rest of each. */
  readonly full: SqlValue[][] = [];
  private readonly waiting: Kind[] = [];
  /** All values of rows that do not wait for their like. */
  private readonly single: SqlValue[][] = [];

  add({ first, rest }: AlikeRows): void {
    if (first.requestCount === 0) return;
    for (let at = 0; at < rest.length; ) {
      const kind = this.kindOf(first);
      const { values } = kind;
      const end = Math.min(rest.length, at + STATEMENT_VALUES - values.length);
      for (; at < end; at++) values.push(rest[at] ?? null);
      if (values.length < STATEMENT_VALUES) return;
      this.full.push(values);
      this.waiting.splice(this.waiting.indexOf(kind), 1);
    }
  }

  /** All values of the rows that are in no whole statement. */
  rest(): SqlValue[][] {
    return [...this.single, ...this.waiting.flatMap(({ values }) => rowsOf(values))];
  }

  private kindOf(row: UsageRow): Kind {
    for (const kind of this.waiting) if (isAlike(kind.first, row)) return kind;
    if (this.waiting.length === KINDS_MAX) {
      const [longest] = this.waiting.splice(0, 1);
      if (longest !== undefined) this.single.push(...rowsOf(longest.values));
    }
    const made = { first: row, values: kindValues(row) };
    this.waiting.push(made);
    return made;
  }
}

/** Rows that are alike. */
interface Kind {
  first: UsageRow;
  /** What they share, and then of each row all the rest. */
  values: SqlValue[];
}

const rowsOf = (values: readonly SqlValue[]): SqlValue[][] =>
  apart(values.slice(0, KIND_COLUMNS.length), values.slice(KIND_COLUMNS.length));

/** Whole statements of `ReadyRows`. One row that the store knows fails all of them. */
export async function insertFull(
  tx: Db,
  numbering: Numbering,
  statements: readonly SqlValue[][],
): Promise<void> {
  if (statements.length === 0) return;
  if (tx.engine === "sqlite") await tx.sql.each(ALIKE_TEXT, await shortened(tx, numbering, statements));
  else await insertShort(tx, numbering, statements.flatMap(rowsOf));
}

/** Rows in this order, where others may write the same ones at the same time. */
export async function insertUsage(tx: Db, numbering: Numbering, rows: readonly UsageRow[]): Promise<void> {
  if (tx.engine === "postgres") {
    const counting = rows.filter(({ requestCount }) => requestCount > 0);
    await insertShort(tx, numbering, counting.map(allValues));
    return;
  }
  const kinds: AlikeRows[] = [];
  for (const row of rows) groupAlikeRows(kinds, row).add(row, null);
  const ready = new ReadyRows();
  for (const alike of kinds) ready.add(alike);
  await insertFull(tx, numbering, ready.full);
  await insertRest(tx, numbering, ready.rest(), async () => {});
}

function allValues(row: UsageRow): SqlValue[] {
  const values = toValues(row);
  values.push(null);
  return values;
}

/** The rest of them, with a pause after every few. */
export async function insertRest(
  tx: Db,
  numbering: Numbering,
  rows: readonly SqlValue[][],
  pause: () => Promise<void>,
): Promise<void> {
  for (let start = 0; start < rows.length; start += LEFT_AT_ONCE) {
    await insertShort(tx, numbering, rows.slice(start, start + LEFT_AT_ONCE));
    await pause();
  }
}

async function insertShort(tx: Db, numbering: Numbering, rows: readonly SqlValue[][]): Promise<void> {
  await insertRows(tx, "usage_row", SHORT_COLUMNS, await shortened(tx, numbering, rows));
}

const NUMBERED: Readonly<Record<string, string>> = {
  key_id: "key_no",
  user_id: "user_no",
  group_id: "group_no",
  account_id: "account_no",
};
/** As the store has them: what the rows of a statement share, and all the rest. */
const SHARED_COLUMNS = ["kind_no", "asked_model", ...TOLD_IN_ROW] as const;
const SHORT_COLUMNS = [
  ...SHARED_COLUMNS,
  ...REST_COLUMNS.map((column) => NUMBERED[column] ?? column),
  "charged_with",
] as const;

const MODEL_AT = KIND_COLUMNS.indexOf("public_model");
const OUTCOME_AT = KIND_COLUMNS.indexOf("outcome");
/** Which of the rest are ids that have numbers. */
const IS_ID = [...REST_COLUMNS.map((column) => column in NUMBERED), false];

/**
 * What these rows are likely to need, in a transaction of its own where others write, too: whoever adds a line keeps
 * everybody waiting who needs the same one, and what books rows may take long.
 */
export async function learnBefore(db: Db, numbers: UsageNumbers, rows: readonly UsageRow[]): Promise<void> {
  if (db.engine === "sqlite") return;
  const lists = rows.map((row) => allValues(clampCount(row)));
  const numbering = new Numbering(numbers);
  for (const values of lists) shorten(values, numbering);
  if (!numbering.isComplete) await numbers.within(db, (tx, own) => shortened(tx, own, lists));
}

/** Lists of a kind and of the rest of one row or more, with numbers for what is told once. */
async function shortened(tx: Db, numbering: Numbering, lists: readonly SqlValue[][]): Promise<SqlValue[][]> {
  for (;;) {
    const short = lists.map((values) => shorten(values, numbering));
    // Nearly always all of it was known.
    if (!(await numbering.learn(tx))) return short;
  }
}

function shorten(values: readonly SqlValue[], numbering: Numbering): SqlValue[] {
  const isRefused = values[OUTCOME_AT] === "refused";
  const short = [numbering.ofKind(toldOnce(values)), isRefused ? (values[MODEL_AT] ?? null) : null];
  for (let at = TOLD_ONCE.length; at < KIND_COLUMNS.length; at++) short.push(values[at] ?? null);
  for (let at = KIND_COLUMNS.length; at < values.length; at += REST_COUNT) {
    for (let i = 0; i < REST_COUNT; i++) {
      const value = values[at + i] ?? null;
      short.push(IS_ID[i] === true && typeof value === "string" ? numbering.ofId(value) : value);
    }
  }
  return short;
}

/** Of the values of a kind. Callers choose what they are refused, so that has no place among what never goes. */
function toldOnce(kind: readonly SqlValue[]): SqlValue[] {
  const told = kind.slice(0, TOLD_ONCE.length);
  if (kind[OUTCOME_AT] === "refused") told[MODEL_AT] = "";
  return told;
}

/** The number of a row's kind, which the store gets if it does not have it. */
export async function kindNoOf(tx: Db, row: UsageRow): Promise<number> {
  const numbering = new Numbering(new UsageNumbers());
  const told = toldOnce(kindValues(row));
  numbering.ofKind(told);
  await numbering.learn(tx);
  return numbering.ofKind(told);
}

function alikeText(): string {
  const first = SHORT_COLUMNS.map((_, i) => placeholder("sqlite", i));
  const next = SHORT_COLUMNS.map((_, i) =>
    i < SHARED_COLUMNS.length ? `?${i + 1}` : placeholder("sqlite", i),
  );
  const tuples = Array.from({ length: TOGETHER }, (_, row) => `(${(row === 0 ? first : next).join(", ")})`);
  // To undo a statement of several rows, SQLite would copy every page that it changes into a file of its own; but
  // whatever fails here is undone with its transaction.
  return `INSERT OR FAIL INTO usage_row (${SHORT_COLUMNS.join(", ")}) VALUES ${tuples.join(", ")}`;
}

const ALIKE_TEXT = alikeText();
