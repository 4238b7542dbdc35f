/** Time that runs as fast as its events. */

import type { BorrowerTimers } from "./borrower-timers.ts";

interface TimedEvent {
  readonly atMs: number;
  readonly order: number;
  run: (() => void) | null;
}

export class VirtualTime implements BorrowerTimers {
  nowMs = 0;
  #order = 0;
  /** A binary heap. */
  readonly #events: TimedEvent[] = [];

  after(ms: number, callback: () => void): () => void {
    const event: TimedEvent = { atMs: this.nowMs + ms, order: this.#order++, run: callback };
    this.#push(event);
    return () => {
      event.run = null;
    };
  }

  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => void this.after(ms, resolve));
  }

  async runUntil(untilMs: number): Promise<void> {
    for (;;) {
      // Continuations of the last event may add events.
      await new Promise((resolve) => setImmediate(resolve));
      const next = this.#events[0];
      if (next === undefined || next.atMs > untilMs) break;
      this.#pop();
      if (next.run === null) continue;
      this.nowMs = next.atMs;
      next.run();
    }
    this.nowMs = untilMs;
  }

  #push(event: TimedEvent): void {
    const events = this.#events;
    let index = events.push(event) - 1;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (!isBefore(event, events[parent])) break;
      events[index] = events[parent] ?? event;
      index = parent;
    }
    events[index] = event;
  }

  #pop(): void {
    const events = this.#events;
    const last = events.pop();
    if (last === undefined || events.length === 0) return;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= events.length) break;
      if (child + 1 < events.length && isBefore(events[child + 1], events[child])) child += 1;
      const least = events[child];
      if (least === undefined || !isBefore(least, last)) break;
      events[index] = least;
      index = child;
    }
    events[index] = last;
  }
}

function isBefore(a: TimedEvent | undefined, b: TimedEvent | undefined): boolean {
  if (a === undefined || b === undefined) return false;
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);
}
