/**
 * What rows of usage say again and again stands once in a table of its own, and in them as its number: ids of keys,
 * users, groups and accounts, and what requests of one kind have in common. Nothing goes from these tables, so a number
 * that was committed is good for ever; of what a transaction has added, nobody may know before it is.
 */

import { type Db, transaction, type Value } from "./db.ts";
import { insertRows } from "./insert-rows.ts";
import { integer, text } from "./row.ts";
import { selectIn } from "./select-in.ts";

/** What a number of a kind stands for, in this order. */
export const TOLD_ONCE = [
  "public_model",
  "upstream_model",
  "endpoint",
  "stream",
  "outcome",
  "status",
  "error_code",
  "usage_source",
  "attempts",
  "payer",
  "tariff_id",
  "flags",
] as const;

const NAMES = { table: "usage_name", columns: ["no", "name"], told: "name" } as const;
const KINDS = { table: "usage_kind", columns: ["no", "digest", ...TOLD_ONCE], told: "digest" } as const;

/** Of each: more than a process needs at a time, and some twenty megabytes. */
const KNOWN_MAX = 100_000;

/** What the store has. */
export class UsageNumbers {
  readonly names = new Map<string, number>();
  /** By the kind as JSON. */
  readonly kinds = new Map<string, number>();

  /** What the transaction learns is kept when it has been committed. */
  async within<T>(db: Db, work: (tx: Db, numbering: Numbering) => Promise<T>): Promise<T> {
    const numbering = new Numbering(this);
    const result = await transaction(db, (tx) => work(tx, numbering));
    numbering.keep();
    return result;
  }
}

/** For one transaction: what is asked for and not known is learnt. */
export class Numbering {
  private readonly known: UsageNumbers;
  private readonly names = new Map<string, number>();
  private readonly kinds = new Map<string, number>();
  private readonly missing = { names: new Set<string>(), kinds: new Map<string, readonly Value[]>() };

  constructor(known: UsageNumbers) {
    this.known = known;
  }

  /** 0, which is nobody's, if it has to be learnt first. */
  ofName(name: string): number {
    const no = this.known.names.get(name) ?? this.names.get(name);
    if (no === undefined) this.missing.names.add(name);
    return no ?? 0;
  }

  /** Of the values of `TOLD_ONCE`; 0 as well. */
  ofKind(kind: readonly Value[]): number {
    const told = JSON.stringify(kind);
    const no = this.known.kinds.get(told) ?? this.kinds.get(told);
    if (no === undefined) this.missing.kinds.set(told, kind);
    return no ?? 0;
  }

  /** All that was asked for in vain. False: there was nothing. */
  async learn(tx: Db): Promise<boolean> {
    const { names, kinds } = this.missing;
    if (names.size === 0 && kinds.size === 0) return false;
    const rows = new Map([...names].map((name): [string, Value[]] => [name, []]));
    for (const [name, no] of await numbersOf(tx, NAMES, rows)) this.names.set(name, no);
    const byDigest = new Map([...kinds].map(([told, kind]) => [digestOf(told), { told, kind }]));
    const kindRows = new Map(
      [...byDigest].map(([digest, { kind }]): [string, readonly Value[]] => [digest, kind]),
    );
    for (const [digest, no] of await numbersOf(tx, KINDS, kindRows)) {
      const told = byDigest.get(digest)?.told;
      if (told !== undefined) this.kinds.set(told, no);
    }
    names.clear();
    kinds.clear();
    return true;
  }

  /** The transaction has been committed. */
  keep(): void {
    keepAll(this.known.names, this.names);
    keepAll(this.known.kinds, this.kinds);
  }
}

function keepAll(known: Map<string, number>, learnt: ReadonlyMap<string, number>): void {
  if (known.size + learnt.size > KNOWN_MAX) known.clear();
  for (const [told, no] of learnt) known.set(told, no);
}

function digestOf(told: string): string {
  return new Bun.CryptoHasher("sha256").update(told).digest("hex");
}

interface Numbered {
  table: string;
  columns: readonly string[];
  /** What a line is known by. */
  told: string;
}

/** The number of each, with the values of a line that is not there yet. */
async function numbersOf(
  tx: Db,
  { table, columns, told }: Numbered,
  lines: ReadonlyMap<string, readonly Value[]>,
): Promise<Map<string, number>> {
  const found = new Map<string, number>();
  // In one order everywhere: whoever adds the same ones at the same time waits, and nobody waits for each other.
  let missing = [...lines.keys()].sort();
  while (missing.length > 0) {
    for (const row of await selectIn(tx, `SELECT no, ${told} FROM ${table} WHERE ${told}`, missing)) {
      found.set(text(row, told), integer(row, "no"));
    }
    missing = missing.filter((one) => !found.has(one));
    if (missing.length === 0) break;
    const [row] = await tx.sql.text(`SELECT COALESCE(MAX(no), 0) AS last FROM ${table}`, []);
    const last = row === undefined ? 0 : integer(row, "last");
    const added = missing.map((one, i) => [last + 1 + i, one, ...(lines.get(one) ?? [])]);
    // Another node may have taken the number, or told the same: then it is looked for once more.
    await insertRows(tx, table, columns, added, "ON CONFLICT DO NOTHING");
  }
  return found;
}
