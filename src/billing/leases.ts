/** What a process has set aside of each wallet, and the requests that live on it. */

import type { Nano } from "../money/nano.ts";
import type { Hold } from "../store/holds.ts";
import type { Spent } from "./book-lent.ts";

export interface ExpressHold {
  readonly hold: Hold;
  /** Where the journal tells of it. */
  readonly segment: number;
  readonly sinceMs: number;
  /** While it is on its way to be a row of the store. */
  moving: Promise<void> | null;
}

/** A request that has ended, and waits to be booked. */
export interface Ended extends Spent {
  readonly segment: number;
  isBooked: boolean;
  readonly promise: Promise<void>;
  resolve(): void;
}

export interface Lease {
  readonly userId: string;
  /** Set aside and in nobody's hold. */
  freeNano: Nano;
  /** What to ask for next time: a user who comes back soon gets more. */
  nextNano: Nano;
  usedMs: number;
  /** It goes back; until it has, nothing is taken from it. */
  isClosing: boolean;
  readonly holds: Set<ExpressHold>;
  readonly ended: Set<Ended>;
}

/**
 * All that is in the express lane. Of each user the store's lease is what is free, what is held and what was spent and
 * is not booked yet.
 */
export interface Lane {
  readonly leases: Map<string, Lease>;
  readonly holds: Map<string, ExpressHold>;
  readonly ending: Map<string, Ended>;
}

export const emptyLane = (): Lane => ({ leases: new Map(), holds: new Map(), ending: new Map() });

/** Of the first request's hold: so many such requests at once, or in turn, need no more of the store. */
const FIRST_TIMES = 64n;

export function newLease(userId: string, wantedNano: Nano): Lease {
  return {
    userId,
    freeNano: 0n,
    nextNano: wantedNano * FIRST_TIMES,
    usedMs: 0,
    isClosing: false,
    holds: new Set(),
    ended: new Set(),
  };
}

export function startHold({ leases, holds }: Lane, held: ExpressHold): void {
  const { requestId, userId, amountNano } = held.hold;
  const lease = leases.get(userId);
  if (lease === undefined) throw new Error(`Nothing is set aside of the wallet of ${userId}.`);
  lease.freeNano -= amountNano;
  lease.usedMs = held.sinceMs;
  lease.holds.add(held);
  holds.set(requestId, held);
}

/** As if it had never been. */
export function undoHold({ leases, holds }: Lane, held: ExpressHold): void {
  const lease = leases.get(held.hold.userId);
  holds.delete(held.hold.requestId);
  lease?.holds.delete(held);
  if (lease !== undefined) lease.freeNano += held.hold.amountNano;
}

/** The part that was not spent is free again. */
export function endHold({ leases, holds, ending }: Lane, held: ExpressHold, ended: Ended): void {
  const { requestId, userId, amountNano } = held.hold;
  const lease = leases.get(userId);
  holds.delete(requestId);
  ending.set(requestId, ended);
  if (lease === undefined) return;
  lease.holds.delete(held);
  lease.freeNano += amountNano - ended.chargedNano;
  lease.ended.add(ended);
}

/** The store has it. */
export function forgetHold({ leases, holds }: Lane, held: ExpressHold): void {
  holds.delete(held.hold.requestId);
  leases.get(held.hold.userId)?.holds.delete(held);
}

/** The store has it, and whoever waits may go on. */
export function forgetEnded({ leases, ending }: Lane, ended: Ended): void {
  ended.isBooked = true;
  ending.delete(ended.row.requestId);
  leases.get(ended.hold.userId)?.ended.delete(ended);
  ended.resolve();
}
