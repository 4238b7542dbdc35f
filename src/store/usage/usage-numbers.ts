/**
 * Numbers for values that usage rows repeat: ids of keys, users, groups and accounts, and kinds of requests. Each
 * value is stored once in its own table; rows refer to it by number. A number is derived from the digest of its
 * value, so nodes that add the same value concurrently choose the same number, and a database that lost it gets the
 * same one again. Numbers assigned by earlier versions are an exception.
 */

import { type Db, type SqlValue, transaction } from "../engine/db.ts";
import { insertRows } from "../engine/insert-rows.ts";
import { CorruptRow, integer, text } from "../engine/row.ts";
import { selectIn } from "../engine/select-in.ts";
import { TOLD_ONCE } from "./usage-values.ts";

/** A table of numbered values, and the column that identifies a value. */
interface NumberedTable {
  table: string;
  columns: readonly string[];
  known: string;
}
const IDS: NumberedTable = { table: "usage_id", columns: ["no", "id"], known: "id" };
const KINDS: NumberedTable = {
  table: "usage_kind",
  columns: ["no", "digest", ...TOLD_ONCE],
  known: "digest",
};

/** Entries per cache: more than a process needs at a time, and some twenty megabytes. */
const CACHED_MAX = 100_000;
/** 48 bits: with a million ids, the probability of one collision is one in five hundred. */
const NUMBER_DIGITS = 12;
const ATTEMPTS_MAX = 8;
/**
 * After this many transactions the cache is dropped: a shared server may have been replaced by a replica that lags
 * behind.
 */
const TRUSTED_TRANSACTIONS_MAX = 500;

/** Cache of the numbers that the database is known to have. */
export class UsageNumbers {
  ids = new Map<string, number>();
  /** Keyed by the kind as JSON. */
  kinds = new Map<string, number>();
  private trusted = 0;

  /** Runs a transaction. Numbers learnt in it are cached after the commit. */
  async within<T>(db: Db, work: (tx: Db, numbering: Numbering) => Promise<T>): Promise<T> {
    const isLong = this.ids.size > CACHED_MAX || this.kinds.size > CACHED_MAX;
    if (isLong || (db.engine === "postgres" && ++this.trusted > TRUSTED_TRANSACTIONS_MAX)) this.forget();
    const numbering = new Numbering(this);
    try {
      const result = await transaction(db, (tx) => work(tx, numbering));
      numbering.keep();
      return result;
    } catch (error) {
      this.forget();
      throw error;
    }
  }

  /** After an error, the next server may be a replica that lags behind the failed one. */
  forget(): void {
    this.ids = new Map();
    this.kinds = new Map();
    this.trusted = 0;
  }
}

/** Numbers within one transaction. Unknown values are collected and then registered by `learn`. */
export class Numbering {
  private readonly kept: Pick<UsageNumbers, "ids" | "kinds">;
  private readonly ids = new Map<string, number>();
  private readonly kinds = new Map<string, number>();
  private readonly missing = { ids: new Set<string>(), kinds: new Map<string, readonly SqlValue[]>() };

  /**
   * Keeps a reference to the cache maps of its start. If the cache is dropped meanwhile, these maps are no longer
   * used by others.
   */
  constructor({ ids, kinds }: UsageNumbers) {
    this.kept = { ids, kinds };
  }

  /** Whether all requested values were known. */
  get isComplete(): boolean {
    return this.missing.ids.size === 0 && this.missing.kinds.size === 0;
  }

  /** Returns 0, which no value has, if the number has to be learnt first. */
  ofId(id: string): number {
    const no = this.kept.ids.get(id) ?? this.ids.get(id);
    if (no === undefined) this.missing.ids.add(id);
    return no ?? 0;
  }

  /** For the values of `TOLD_ONCE`; 0 if unknown, too. */
  ofKind(kind: readonly SqlValue[]): number {
    const told = JSON.stringify(kind);
    const no = this.kept.kinds.get(told) ?? this.kinds.get(told);
    if (no === undefined) this.missing.kinds.set(told, kind);
    return no ?? 0;
  }

  /** Registers all unknown values. Returns false if there were none. */
  async learn(tx: Db): Promise<boolean> {
    if (this.isComplete) return false;
    const { ids, kinds } = this.missing;
    const idLines = [...ids].map((id) => ({ known: id, digest: computeDigest(id), values: [], told: id }));
    const kindLines = [...kinds].map(([told, values]) => {
      const digest = computeDigest(told);
      return { known: digest, digest, values, told };
    });
    await learnLines(tx, IDS, idLines, this.ids);
    await learnLines(tx, KINDS, kindLines, this.kinds);
    ids.clear();
    kinds.clear();
    return true;
  }

  /** Call after the commit. */
  keep(): void {
    for (const [id, no] of this.ids) this.kept.ids.set(id, no);
    for (const [told, no] of this.kinds) this.kept.kinds.set(told, no);
  }
}

function computeDigest(value: string): string {
  return new Bun.CryptoHasher("sha256").update(value).digest("hex");
}

interface Line {
  /** The value that identifies it in the table. */
  known: string;
  digest: string;
  /** The other columns, for inserting it. */
  values: readonly SqlValue[];
  /** The key in `learnt`. */
  told: string;
}

/** Numbers in the database take precedence: those of an earlier version are not derived from a digest. */
async function learnLines(
  tx: Db,
  { table, columns, known }: NumberedTable,
  lines: readonly Line[],
  learnt: Map<string, number>,
): Promise<void> {
  // The same order everywhere, so that of two transactions that add the same values one waits and neither deadlocks.
  // This holds for a transaction that learns once. SQLite has a single writer anyway.
  let missing = lines.toSorted((a, b) => (a.known < b.known ? -1 : 1));
  for (let attempt = 0; ; attempt++) {
    const found = new Map<string, number>();
    const wanted = missing.map((line) => line.known);
    for (const row of await selectIn(tx, `SELECT no, ${known} FROM ${table} WHERE ${known}`, wanted)) {
      found.set(text(row, known), integer(row, "no"));
    }
    for (const line of missing) {
      const no = found.get(line.known);
      if (no !== undefined) learnt.set(line.told, no);
    }
    missing = missing.filter((line) => !found.has(line.known));
    if (missing.length === 0) return;
    if (attempt === ATTEMPTS_MAX) throw new CorruptRow(`${table} does not give back what it was told.`);
    const added = missing.map(({ known: of, digest, values }) => [
      deriveNumber(digest, attempt),
      of,
      ...values,
    ]);
    // Another node may have added the same value, or another value with the same number.
    await insertRows(tx, table, columns, added, "ON CONFLICT DO NOTHING");
  }
}

/** Returns a different number for each attempt, in case of collisions. */
function deriveNumber(digest: string, attempt: number): number {
  const start = attempt * 2;
  return Number.parseInt(digest.slice(start, start + NUMBER_DIGITS), 16) || 1;
}
