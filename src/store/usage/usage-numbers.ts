/**
 * Numbers for values that usage rows repeat: ids of keys, users, groups and accounts, and kinds of requests. Each
 * value is stored once in its own table; rows refer to it by number. A number is derived from the digest of its
 * value, so nodes that add the same value concurrently choose the same number, and a database that lost it gets the
 * same one again.
 */

import { type Db, type SqlValue, transaction } from "../engine/db.ts";
import { isSharedServer } from "../engine/dialect.ts";
import { insertRows } from "../engine/insert-rows.ts";
import { CorruptRow, integer, text } from "../engine/row.ts";
import { selectIn } from "../engine/select-in.ts";
import { NUMBERED_COLUMNS } from "./usage-values.ts";

/** A table of numbered values, and the column that identifies a value. */
interface NumberedTable {
  table: string;
  columns: readonly string[];
  known: string;
}
const IDS: NumberedTable = { table: "usage_id", columns: ["no", "id"], known: "id" };
const KINDS: NumberedTable = {
  table: "usage_kind",
  columns: ["no", "digest", ...NUMBERED_COLUMNS],
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
  #trusted = 0;

  /** Runs a transaction. Numbers learnt in it are cached after the commit. */
  async within<T>(db: Db, work: (tx: Db, numbering: Numbering) => Promise<T>): Promise<T> {
    const isLong = this.ids.size > CACHED_MAX || this.kinds.size > CACHED_MAX;
    if (isLong || (isSharedServer(db) && ++this.#trusted > TRUSTED_TRANSACTIONS_MAX)) this.forget();
    const numbering = new Numbering(this);
    try {
      const result = await transaction(db, (tx) => work(tx, numbering));
      numbering.copyToCache();
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
    this.#trusted = 0;
  }
}

/** Numbers within one transaction. Unknown values are collected and then registered by `register`. */
export class Numbering {
  readonly #cache: Pick<UsageNumbers, "ids" | "kinds">;
  readonly #ids = new Map<string, number>();
  readonly #kinds = new Map<string, number>();
  readonly #missing = { ids: new Set<string>(), kinds: new Map<string, readonly SqlValue[]>() };

  /**
   * Keeps a reference to the cache maps of its start. If the cache is dropped meanwhile, these maps are no longer
   * used by others.
   */
  constructor({ ids, kinds }: UsageNumbers) {
    this.#cache = { ids, kinds };
  }

  /** Whether all requested values were known. */
  get isComplete(): boolean {
    return this.#missing.ids.size === 0 && this.#missing.kinds.size === 0;
  }

  /** Returns 0, which no value has, if the number has to be learnt first. */
  lookUpId(id: string): number {
    const no = this.#cache.ids.get(id) ?? this.#ids.get(id);
    if (no === undefined) this.#missing.ids.add(id);
    return no ?? 0;
  }

  /** For the values of `NUMBERED_COLUMNS`; 0 if unknown, too. */
  lookUpKind(kind: readonly SqlValue[]): number {
    const cacheKey = JSON.stringify(kind);
    const no = this.#cache.kinds.get(cacheKey) ?? this.#kinds.get(cacheKey);
    if (no === undefined) this.#missing.kinds.set(cacheKey, kind);
    return no ?? 0;
  }

  /** Registers all unknown values. Returns false if there were none. */
  async register(tx: Db): Promise<boolean> {
    if (this.isComplete) return false;
    const { ids, kinds } = this.#missing;
    const idLines = [...ids].map((id) => ({
      identifier: id,
      digest: computeDigest(id),
      values: [],
      cacheKey: id,
    }));
    const kindLines = [...kinds].map(([cacheKey, values]) => {
      const digest = computeDigest(cacheKey);
      return { identifier: digest, digest, values, cacheKey };
    });
    await registerLines(tx, IDS, idLines, this.#ids);
    await registerLines(tx, KINDS, kindLines, this.#kinds);
    ids.clear();
    kinds.clear();
    return true;
  }

  /** Call after the commit. */
  copyToCache(): void {
    for (const [id, no] of this.#ids) this.#cache.ids.set(id, no);
    for (const [cacheKey, no] of this.#kinds) this.#cache.kinds.set(cacheKey, no);
  }
}

function computeDigest(value: string): string {
  return new Bun.CryptoHasher("sha256").update(value).digest("hex");
}

interface Line {
  /** The value that identifies it in the table. */
  identifier: string;
  digest: string;
  /** The other columns, for inserting it. */
  values: readonly SqlValue[];
  /** The key in `learnt`. */
  cacheKey: string;
}

/** Numbers in the database take precedence: a collision may have changed them. */
async function registerLines(
  tx: Db,
  { table, columns, known }: NumberedTable,
  lines: readonly Line[],
  registered: Map<string, number>,
): Promise<void> {
  // The same order everywhere, so that of two transactions that add the same values one waits and neither deadlocks.
  // This holds for a transaction that learns once. SQLite has a single writer anyway.
  let missing = lines.toSorted((a, b) => (a.identifier < b.identifier ? -1 : 1));
  for (let attempt = 0; ; attempt++) {
    const found = new Map<string, number>();
    const wanted = missing.map((line) => line.identifier);
    for (const row of await selectIn(tx, `SELECT no, ${known} FROM ${table} WHERE ${known}`, wanted)) {
      found.set(text(row, known), integer(row, "no"));
    }
    for (const line of missing) {
      const no = found.get(line.identifier);
      if (no !== undefined) registered.set(line.cacheKey, no);
    }
    missing = missing.filter((line) => !found.has(line.identifier));
    if (missing.length === 0) return;
    if (attempt === ATTEMPTS_MAX) throw new CorruptRow(`${table} did not return the inserted rows.`);
    const added = missing.map(({ identifier, digest, values }) => [
      deriveNumber(digest, attempt),
      identifier,
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
