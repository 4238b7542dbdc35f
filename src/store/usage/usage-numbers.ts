/**
 * What rows of usage say again and again stands once in a table of its own, and in them as its number: ids of keys,
 * users, groups and accounts, and what requests of one kind have in common. A number is made of what it stands for, so
 * nodes that meet something new at the same time agree on it, and a store that has lost it gets the same one again,
 * unless it was given before numbers were made so.
 */

import { type Db, type SqlValue, transaction } from "../engine/db.ts";
import { insertRows } from "../engine/insert-rows.ts";
import { CorruptRow, integer, text } from "../engine/row.ts";
import { selectIn } from "../engine/select-in.ts";
import { TOLD_ONCE } from "./usage-values.ts";

/** A table whose lines have numbers, and what they are known by. */
interface Numbered {
  table: string;
  columns: readonly string[];
  known: string;
}
const IDS: Numbered = { table: "usage_id", columns: ["no", "id"], known: "id" };
const KINDS: Numbered = { table: "usage_kind", columns: ["no", "digest", ...TOLD_ONCE], known: "digest" };

/** Of each: more than a process needs at a time, and some twenty megabytes. */
const KEPT_MAX = 100_000;
/** 48 bits: a million ids have one chance in five hundred that two of them want the same one. */
const NUMBER_DIGITS = 12;
const TRIES_MAX = 8;
/** So many transactions later a server that others write to may be another one, which lags behind. */
const TRUSTED_MAX = 500;

/** What the store is known to have. */
export class UsageNumbers {
  ids = new Map<string, number>();
  /** By the kind as JSON. */
  kinds = new Map<string, number>();
  private trusted = 0;

  /** What the transaction learns is kept when it has been committed. */
  async within<T>(db: Db, work: (tx: Db, numbering: Numbering) => Promise<T>): Promise<T> {
    const isLong = this.ids.size > KEPT_MAX || this.kinds.size > KEPT_MAX;
    if (isLong || (db.engine === "postgres" && ++this.trusted > TRUSTED_MAX)) this.forget();
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

  /** Whoever answers next may be a server that lags behind the one that failed. */
  forget(): void {
    this.ids = new Map();
    this.kinds = new Map();
    this.trusted = 0;
  }
}

/** For one transaction: what is asked for and not known is learnt. */
export class Numbering {
  private readonly kept: Pick<UsageNumbers, "ids" | "kinds">;
  private readonly ids = new Map<string, number>();
  private readonly kinds = new Map<string, number>();
  private readonly missing = { ids: new Set<string>(), kinds: new Map<string, readonly SqlValue[]>() };

  /** What is forgotten meanwhile it goes on with, and adds to: nobody asks there any more. */
  constructor({ ids, kinds }: UsageNumbers) {
    this.kept = { ids, kinds };
  }

  /** Nothing was asked for in vain. */
  get isComplete(): boolean {
    return this.missing.ids.size === 0 && this.missing.kinds.size === 0;
  }

  /** 0, which stands for nothing, if it has to be learnt first. */
  ofId(id: string): number {
    const no = this.kept.ids.get(id) ?? this.ids.get(id);
    if (no === undefined) this.missing.ids.add(id);
    return no ?? 0;
  }

  /** Of the values of `TOLD_ONCE`; 0 as well. */
  ofKind(kind: readonly SqlValue[]): number {
    const told = JSON.stringify(kind);
    const no = this.kept.kinds.get(told) ?? this.kinds.get(told);
    if (no === undefined) this.missing.kinds.set(told, kind);
    return no ?? 0;
  }

  /** All that was asked for in vain. False: there was nothing. */
  async learn(tx: Db): Promise<boolean> {
    if (this.isComplete) return false;
    const { ids, kinds } = this.missing;
    const idLines = [...ids].map((id) => ({ known: id, digest: digestOf(id), values: [], told: id }));
    const kindLines = [...kinds].map(([told, values]) => {
      const digest = digestOf(told);
      return { known: digest, digest, values, told };
    });
    await learnLines(tx, IDS, idLines, this.ids);
    await learnLines(tx, KINDS, kindLines, this.kinds);
    ids.clear();
    kinds.clear();
    return true;
  }

  /** The transaction has been committed. */
  keep(): void {
    for (const [id, no] of this.ids) this.kept.ids.set(id, no);
    for (const [told, no] of this.kinds) this.kept.kinds.set(told, no);
  }
}

function digestOf(told: string): string {
  return new Bun.CryptoHasher("sha256").update(told).digest("hex");
}

interface Line {
  /** What the table knows it by. */
  known: string;
  digest: string;
  /** The rest of it, should it not be there yet. */
  values: readonly SqlValue[];
  /** What `learnt` is to know it by. */
  told: string;
}

/** The store's word counts: numbers of an earlier version are not made of anything. */
async function learnLines(
  tx: Db,
  { table, columns, known }: Numbered,
  lines: readonly Line[],
  learnt: Map<string, number>,
): Promise<void> {
  // In one order everywhere, so that of two who add the same lines one waits for the other, and never both. That holds
  // for whoever learns once in a transaction; on SQLite nobody waits.
  let missing = lines.toSorted((a, b) => (a.known < b.known ? -1 : 1));
  for (let tried = 0; ; tried++) {
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
    if (tried === TRIES_MAX) throw new CorruptRow(`${table} does not give back what it was told.`);
    const added = missing.map(({ known: of, digest, values }) => [numberIn(digest, tried), of, ...values]);
    // Somebody else may have told the same, or something else that this number is made of, too.
    await insertRows(tx, table, columns, added, "ON CONFLICT DO NOTHING");
  }
}

/** Another one each time, should it be taken. */
function numberIn(digest: string, tried: number): number {
  const start = tried * 2;
  return Number.parseInt(digest.slice(start, start + NUMBER_DIGITS), 16) || 1;
}
