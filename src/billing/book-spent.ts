/**
 * What requests have spent, in one transaction: a row for each of them, and once for all of them the sums. It runs on
 * the process's own thread, so it goes in steps, and everybody else has a turn in between.
 */

import type { Nano } from "../money/nano.ts";
import type { Db } from "../store/db.ts";
import type { Hold } from "../store/holds.ts";
import { insertFull, insertRest, ReadyRows } from "../store/insert-usage.ts";
import { changeWallets } from "../store/leases.ts";
import { insertEntries, type Transfer } from "../store/ledger.ts";
import { markLate } from "../store/usage-day.ts";
import { addToRollUp, RollUp } from "../store/usage-hour.ts";
import { chargeOf, type Settlement } from "./booking.ts";

/** A paid request that has ended, with a row that the store can take (`storable`), from what its user had set aside. */
export interface Spent extends Settlement {
  hold: Hold;
}

export interface Steps {
  /** Rows of one step, or lines of sums. */
  size: number;
  pause(): Promise<void>;
  /** Whether the rest can wait for another transaction, after so many rows. */
  isEnough(rows: number): boolean;
}

/**
 * Row, roll-up, entry, wallet and lease of each, from the first on; returns of how many. One that the store knows fails
 * all of them. Those of a user should follow each other, for they lie together in the store and share an entry.
 */
export async function bookSpent(
  tx: Db,
  incarnation: string,
  spent: readonly Spent[],
  nowMs: number,
  { size, pause, isEnough }: Steps,
): Promise<number> {
  const charges = new Charges(spent);
  const sums = new RollUp();
  const ready = new ReadyRows();
  let booked = 0;
  do {
    const step = spent.slice(booked, booked + size);
    for (const one of step) {
      ready.add(one.row, charges.add(one));
      sums.add(one.row);
    }
    await insertFull(tx, ready.full.splice(0));
    await markLate(tx, step.map(rowOf), nowMs);
    booked += step.length;
    await pause();
  } while (booked < spent.length && !isEnough(booked));
  await insertRest(tx, ready.rest(), pause);
  for (const part of inParts(sums.entries(), size)) {
    await addToRollUp(tx, part);
    await pause();
  }
  for (const part of inParts(charges.all(), size)) {
    await insertEntries(tx, part.map(entryOf));
    await changeWallets(
      tx,
      incarnation,
      part.map(({ first, nano }) => ({
        userId: first.hold.userId,
        balanceNano: -nano,
        heldNano: -nano,
        leasedNano: -nano,
      })),
    );
    await pause();
  }
  return booked;
}

/** What one user is charged for some requests at once. */
interface Charge {
  first: Spent;
  /** Whether its entry is of more than one request, or could have been. */
  isShared: boolean;
  many: number;
  nano: Nano;
  /** Of the earliest row: an entry is compared with its rows only where none of them may have been removed. */
  atMs: number;
}

const rowOf = ({ row }: Spent) => row;

/** What each user is charged. */
class Charges {
  /** How many requests each user pays for. */
  private readonly counts = new Map<string, number>();
  private readonly charges = new Map<string, Charge>();

  constructor(spent: readonly Spent[]) {
    for (const { hold, chargedNano } of spent) {
      if (chargedNano === 0n) continue;
      this.counts.set(hold.userId, (this.counts.get(hold.userId) ?? 0) + 1);
    }
  }

  /** Returns whose entry it shares. */
  add(one: Spent): string | null {
    if (one.chargedNano === 0n) return null;
    const { row, hold, chargedNano } = one;
    let charge = this.charges.get(hold.userId);
    if (charge === undefined) {
      const isShared = this.counts.get(hold.userId) !== 1;
      charge = { first: one, isShared, many: 0, nano: 0n, atMs: row.atMs };
      this.charges.set(hold.userId, charge);
    }
    charge.many += 1;
    charge.nano += chargedNano;
    charge.atMs = Math.min(charge.atMs, row.atMs);
    return charge.isShared ? charge.first.row.requestId : null;
  }

  all(): Charge[] {
    return [...this.charges.values()];
  }
}

function entryOf({ first, isShared, many, nano, atMs }: Charge): Transfer {
  const entry = chargeOf(first.row, first.hold, nano);
  if (!isShared) return entry;
  return { ...entry, atMs, requestId: null, reason: many === 1 ? "1 request" : `${many} requests` };
}

export function* inParts<T>(all: readonly T[], size: number): Generator<T[]> {
  for (let start = 0; start < all.length; start += size) yield all.slice(start, start + size);
}
