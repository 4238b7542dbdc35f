/**
 * Where requests wait while every account that could serve them is busy or cooling. First come, first served
 * within a key, turn by turn between keys, so that a key with a thousand requests delays another key's first by
 * one service time at most. Whoever frees an account serves the next in line before anyone new can take the place;
 * where time alone frees one, those in line look again when it is due.
 */

import { QueueOccupancy } from "../limits/queue-occupancy.ts";
import type { Clock } from "../net/wire/clock.ts";

export interface Ticket<T> {
  keyId: string;
  groupId: string;
  /** A release on any of these may help. */
  accountIds: ReadonlySet<string>;
  /** How many of this group may wait at once. */
  maxWaiting: number;
  timeoutMs: number;
  /** Milliseconds until time alone (a cool-down, a rate window) may help; null if only a release can. */
  freesInMs: number | null;
  /** Takes a place if there is one. Called in turn; `hopeless` ends the wait, anything else leaves the ticket in line. */
  attempt(): { taken: T } | { freesInMs: number | null } | "hopeless";
  /** Resolves when the client has left. */
  left: AbortSignal;
}

export type WaitResult<T> =
  | { kind: "served"; value: T; waitedMs: number }
  | { kind: "full" }
  /** The accounts changed so that waiting cannot help within the time that is left. */
  | { kind: "hopeless"; waitedMs: number }
  | { kind: "timeout"; waitedMs: number }
  | { kind: "left"; waitedMs: number };

export interface WaitingQueue {
  wait<T>(ticket: Ticket<T>): Promise<WaitResult<T>>;
  /** An account has a place again: the next in line that can use it gets it, now. */
  freed(accountId: string): void;
  /** Requests of the group that wait, be it for an account or for a slot of their own concurrency. */
  waiting(groupId: string): number;
}

interface Waiter {
  readonly keyId: string;
  readonly groupId: string;
  readonly accountIds: ReadonlySet<string>;
  wakeAtMs: number;
  /** True if it was served. */
  tryNow(): boolean;
}

export function openWaitingQueue(
  clock: Pick<Clock, "monotonicMs">,
  occupancy = new QueueOccupancy(),
): WaitingQueue {
  /** Keys in the order of their turns; a map keeps insertion order, and a served key goes to the end. */
  const lines = new Map<string, Set<Waiter>>();
  let timer: ReturnType<typeof setTimeout> | null = null;
  let timerAtMs = Number.POSITIVE_INFINITY;

  function enter(waiter: Waiter): void {
    const line = lines.get(waiter.keyId);
    if (line) line.add(waiter);
    else lines.set(waiter.keyId, new Set([waiter]));
    wakeBy(waiter.wakeAtMs);
  }

  function leave(waiter: Waiter): void {
    const line = lines.get(waiter.keyId);
    if (!line?.delete(waiter)) return;
    if (line.size === 0) lines.delete(waiter.keyId);
    occupancy.leave(waiter.groupId);
  }

  /** Goes through the keys in turn, the first that fits of each, until nobody else can be served. */
  function serve(fits: (waiter: Waiter) => boolean, atMost: number): void {
    let served = 0;
    // Serving moves a key to the end of the turns, so more than one needs the order as it was.
    for (const [keyId, line] of atMost === 1 ? lines : [...lines]) {
      for (const waiter of line) {
        if (!fits(waiter) || !waiter.tryNow()) continue;
        leave(waiter);
        const rest = lines.get(keyId);
        if (rest) {
          lines.delete(keyId);
          lines.set(keyId, rest);
        }
        served++;
        break;
      }
      if (served >= atMost) return;
    }
  }

  function serveAt(accountId: string): void {
    serve((waiter) => waiter.accountIds.has(accountId), 1);
  }

  function wakeBy(atMs: number): void {
    if (atMs >= timerAtMs || atMs === Number.POSITIVE_INFINITY) return;
    if (timer !== null) clearTimeout(timer);
    timerAtMs = atMs;
    timer = setTimeout(onTime, Math.max(1, Math.ceil(atMs - clock.monotonicMs())));
  }

  /** Time may have helped some: they try again, in turn, and say when it may help next. */
  function onTime(): void {
    timer = null;
    timerAtMs = Number.POSITIVE_INFINITY;
    const nowMs = clock.monotonicMs();
    let before: number;
    do {
      before = size();
      serve((waiter) => waiter.wakeAtMs <= nowMs, Number.POSITIVE_INFINITY);
    } while (size() < before);
    for (const line of lines.values()) for (const waiter of line) wakeBy(waiter.wakeAtMs);
  }

  function size(): number {
    let total = 0;
    for (const line of lines.values()) total += line.size;
    return total;
  }

  return {
    waiting: (groupId) => occupancy.waiting(groupId),
    freed(accountId) {
      // Mostly nobody waits.
      if (lines.size > 0) serveAt(accountId);
    },
    wait<T>(ticket: Ticket<T>): Promise<WaitResult<T>> {
      if (!occupancy.enter(ticket.groupId, ticket.maxWaiting)) return Promise.resolve({ kind: "full" });
      const startedMs = clock.monotonicMs();
      const waitedMs = () => clock.monotonicMs() - startedMs;
      return new Promise((resolve) => {
        const end = (result: WaitResult<T>) => {
          clearTimeout(deadline);
          ticket.left.removeEventListener("abort", onLeft);
          leave(waiter);
          resolve(result);
        };
        const onLeft = () => end({ kind: "left", waitedMs: waitedMs() });
        const deadline = setTimeout(() => end({ kind: "timeout", waitedMs: waitedMs() }), ticket.timeoutMs);
        const waiter: Waiter = {
          keyId: ticket.keyId,
          groupId: ticket.groupId,
          accountIds: ticket.accountIds,
          wakeAtMs: wakeAt(ticket.freesInMs),
          tryNow() {
            const result = ticket.attempt();
            if (result === "hopeless") {
              end({ kind: "hopeless", waitedMs: waitedMs() });
              return false;
            }
            if ("taken" in result) {
              end({ kind: "served", value: result.taken, waitedMs: waitedMs() });
              return true;
            }
            waiter.wakeAtMs = wakeAt(result.freesInMs);
            return false;
          },
        };
        ticket.left.addEventListener("abort", onLeft);
        enter(waiter);
        if (ticket.left.aborted) onLeft();
      });
    },
  };

  function wakeAt(freesInMs: number | null): number {
    return freesInMs === null ? Number.POSITIVE_INFINITY : clock.monotonicMs() + Math.max(1, freesInMs);
  }
}
