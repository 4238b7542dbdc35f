/**
 * Deadlines that hardly ever pass. Nearly every request ends long before any of its deadlines, and setting a timer
 * of the runtime only to take it back costs more than admitting the request does. Here setting one is an entry in a
 * set, and one timer looks through the set. The time is read by that timer alone, so an alarm rings up to two looks
 * late, and never early.
 */

import type { Clock } from "./clock.ts";

export interface Alarm {
  readonly atMs: number;
  readonly ring: () => void;
}

export interface Alarms {
  set(afterMs: number, ring: () => void): Alarm;
  /** Of one that has rung, or was cancelled before, it does nothing. */
  cancel(alarm: Alarm): void;
  stop(): void;
}

export function openAlarms(everyMs: number, clock: Pick<Clock, "monotonicMs">): Alarms {
  const pending = new Set<Alarm>();
  let nowMs = clock.monotonicMs();

  function look(): void {
    nowMs = clock.monotonicMs();
    for (const alarm of pending) {
      if (alarm.atMs > nowMs) continue;
      pending.delete(alarm);
      alarm.ring();
    }
  }

  const timer = setInterval(look, everyMs);
  timer.unref();
  return {
    set(afterMs, ring) {
      const alarm: Alarm = { atMs: nowMs + everyMs + afterMs, ring };
      pending.add(alarm);
      return alarm;
    },
    cancel: (alarm) => void pending.delete(alarm),
    stop: () => clearInterval(timer),
  };
}
