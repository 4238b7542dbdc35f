/**
 * Deadlines that hardly ever pass. Nearly every request ends long before any of its deadlines, and setting a timer
 * of the runtime only to take it back costs more than admitting the request does. Here setting one is an entry in a
 * list, and one timer looks through the list. The time is read by that timer alone, so an alarm rings up to two looks
 * late, and never early.
 */

import type { Clock } from "./clock.ts";

export interface Deadline {
  readonly atMs: number;
  readonly ring: () => void;
}

export interface Deadlines {
  set(afterMs: number, ring: () => void): Deadline;
  /** Does nothing if the alarm has rung or was cancelled already. */
  cancel(alarm: Deadline): void;
  stop(): void;
}

/** An entry of a ring, so that it can leave at the same cost wherever it stands; linked to itself when not pending. */
class Pending implements Deadline {
  readonly atMs: number;
  readonly ring: () => void;
  before: Pending = this;
  after: Pending = this;

  constructor(atMs: number, ring: () => void) {
    this.atMs = atMs;
    this.ring = ring;
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

/** `lookedAtMs` costs nothing to ask, where a time that is up to one look old is good enough. */
export function openDeadlines(
  everyMs: number,
  clock: Pick<Clock, "monotonicMs">,
): Deadlines & { lookedAtMs(): number } {
  /** Stands between the last and the first, and never rings. */
  const end = new Pending(Number.POSITIVE_INFINITY, () => {});
  let nowMs = clock.monotonicMs();

  function look(): void {
    nowMs = clock.monotonicMs();
    const due: Pending[] = [];
    for (let alarm = end.after; alarm !== end; alarm = alarm.after) if (alarm.atMs <= nowMs) due.push(alarm);
    for (const alarm of due) {
      // One that rang before it may have cancelled it.
      if (alarm.after === alarm) continue;
      alarm.leave();
      alarm.ring();
    }
  }

  const timer = setInterval(look, everyMs);
  timer.unref();
  return {
    set(afterMs, ring) {
      const alarm = new Pending(nowMs + everyMs + afterMs, ring);
      alarm.standBefore(end);
      return alarm;
    },
    cancel(alarm) {
      if (alarm instanceof Pending) alarm.leave();
    },
    lookedAtMs: () => nowMs,
    stop: () => clearInterval(timer),
  };
}
