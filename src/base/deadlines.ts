/**
 * Deadlines that rarely expire. Nearly every request ends long before any of its deadlines, and setting and clearing
 * a runtime timer costs more than admitting the request. Here a deadline is an entry in a linked list, and one timer
 * scans the list. Only that timer reads the clock, so a deadline expires up to two scan intervals late and never
 * early.
 */

import type { Clock } from "./clock.ts";

export interface Deadline {
  readonly atMs: number;
  readonly expire: () => void;
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
class PendingDeadline implements Deadline {
  readonly atMs: number;
  readonly expire: () => void;
  previous: PendingDeadline = this;
  next: PendingDeadline = this;

  constructor(atMs: number, onExpire: () => void) {
    this.atMs = atMs;
    this.expire = onExpire;
  }

  insertBefore(other: PendingDeadline): void {
    this.previous = other.previous;
    this.next = other;
    other.previous.next = this;
    other.previous = this;
  }

  remove(): void {
    this.previous.next = this.next;
    this.next.previous = this.previous;
    this.previous = this;
    this.next = this;
  }
}

/** `lastScanMs` returns the time of the last scan: free to read, and at most one scan interval old. */
export function openDeadlines(
  everyMs: number,
  clock: Pick<Clock, "monotonicMs">,
): Deadlines & { lastScanMs(): number } {
  /** Sentinel between the last and the first entry. It never expires. */
  const sentinel = new PendingDeadline(Number.POSITIVE_INFINITY, () => {});
  let nowMs = clock.monotonicMs();

  function expireDue(): void {
    nowMs = clock.monotonicMs();
    const due: PendingDeadline[] = [];
    for (let entry = sentinel.next; entry !== sentinel; entry = entry.next)
      if (entry.atMs <= nowMs) due.push(entry);
    for (const entry of due) {
      // The callback of an earlier deadline may have cancelled this one.
      if (entry.next === entry) continue;
      entry.remove();
      entry.expire();
    }
  }

  const timer = setInterval(expireDue, everyMs);
  timer.unref();
  return {
    set(afterMs, onExpire) {
      const entry = new PendingDeadline(nowMs + everyMs + afterMs, onExpire);
      entry.insertBefore(sentinel);
      return entry;
    },
    cancel(deadline) {
      if (deadline instanceof PendingDeadline) deadline.remove();
    },
    lastScanMs: () => nowMs,
    stop: () => clearInterval(timer),
  };
}
