/**
 * Deadlines that rarely expire. Nearly every request ends long before any of its deadlines, and setting and clearing
 * a runtime timer costs more than admitting the request. Here a deadline is an entry in a linked list, and one timer
 * scans the list. Only that timer reads the clock, so a deadline expires up to two scan intervals late and never
 * early.
 */

import type { Clock } from "./clock.ts";

export interface Deadline {
  readonly atMs: number;
  readonly ring: () => void;
}

export interface Deadlines {
  set(afterMs: number, onExpire: () => void): Deadline;
  /** Does nothing if the deadline has expired or was cancelled. */
  cancel(deadline: Deadline): void;
  stop(): void;
}

/**
 * An entry of a circular doubly linked list: removing it costs the same at any position. An entry that is not pending
 * is linked to itself.
 */
class Pending implements Deadline {
  readonly atMs: number;
  readonly ring: () => void;
  before: Pending = this;
  after: Pending = this;

  constructor(atMs: number, onExpire: () => void) {
    this.atMs = atMs;
    this.ring = onExpire;
  }

  standBefore(other: Pending): void {
    this.before = other.before;
    this.after = other;
    other.before.after = this;
    other.before = this;
  }

  leave(): void {
    this.before.after = this.after;
    this.after.before = this.before;
    this.before = this;
    this.after = this;
  }
}

/** `lookedAtMs` returns the time of the last scan: free to read, and at most one scan interval old. */
export function openDeadlines(
  everyMs: number,
  clock: Pick<Clock, "monotonicMs">,
): Deadlines & { lookedAtMs(): number } {
  /** Sentinel between the last and the first entry. It never expires. */
  const sentinel = new Pending(Number.POSITIVE_INFINITY, () => {});
  let nowMs = clock.monotonicMs();

  function expireDue(): void {
    nowMs = clock.monotonicMs();
    const due: Pending[] = [];
    for (let entry = sentinel.after; entry !== sentinel; entry = entry.after)
      if (entry.atMs <= nowMs) due.push(entry);
    for (const entry of due) {
      // The callback of an earlier deadline may have cancelled this one.
      if (entry.after === entry) continue;
      entry.leave();
      entry.ring();
    }
  }

  const timer = setInterval(expireDue, everyMs);
  timer.unref();
  return {
    set(afterMs, onExpire) {
      const entry = new Pending(nowMs + everyMs + afterMs, onExpire);
      entry.standBefore(sentinel);
      return entry;
    },
    cancel(deadline) {
      if (deadline instanceof Pending) deadline.leave();
    },
    lookedAtMs: () => nowMs,
    stop: () => clearInterval(timer),
  };
}
