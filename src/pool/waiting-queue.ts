/**
 * Queue of requests while every account that could serve them is busy or cooling down. First in, first out within a
 * key, round-robin between keys, so a key with a thousand requests delays the first request of another key by at most
 * one service time. A released account slot goes to the next request in the queue before a new request can take it.
 * If time alone frees an account, the waiting requests retry when it is due.
 */

import { QueueOccupancy } from "../limits/queue-occupancy.ts";
import type { Clock } from "../net/wire/clock.ts";

export interface Ticket<T> {
  keyId: string;
  groupId: string;
  /** A release on any of these may help. */
  accountIds: ReadonlySet<string>;
  /** Maximum number of waiting requests of this group. */
  maxWaiting: number;
  timeoutMs: number;
  /** Milliseconds until time alone (a cool-down, a rate window) may help; null if only a release can. */
  freesInMs: number | null;
  /**
   * Takes an account slot if there is one. Called in turn; `hopeless` ends the wait, any other failure keeps the
   * ticket in the queue.
   */
  attempt(): { taken: T } | { freesInMs: number | null } | "hopeless";
  /** Aborts when the client has disconnected. */
  left: AbortSignal;
}

export type WaitResult<T> =
  | { kind: "served"; value: T; waitedMs: number }
  | { kind: "full" }
  /** The accounts changed, and waiting cannot help within the time that is left. */
  | { kind: "hopeless"; waitedMs: number }
  | { kind: "timeout"; waitedMs: number }
  | { kind: "left"; waitedMs: number };

export interface WaitingQueue {
  wait<T>(ticket: Ticket<T>): Promise<WaitResult<T>>;
  /** An account has a free slot: the next waiting request that can use it gets it now. */
  freed(accountId: string): void;
  /** Waiting requests of the group, for an account or for a slot of their own concurrency. */
  waiting(groupId: string): number;
}

interface Waiter {
  readonly keyId: string;
  readonly groupId: string;
  readonly accountIds: ReadonlySet<string>;
  wakeAtMs: number;
  /** True if the request was served. */
  tryNow(): boolean;
}

export function openWaitingQueue(
  clock: Pick<Clock, "monotonicMs">,
  occupancy = new QueueOccupancy(),
): WaitingQueue {
  /** Keys in the order of their turns. A map keeps insertion order, and a served key moves to the end. */
  const queues = new Map<string, Set<Waiter>>();
  let timer: ReturnType<typeof setTimeout> | null = null;
  let timerAtMs = Number.POSITIVE_INFINITY;

  function enter(waiter: Waiter): void {
    const queue = queues.get(waiter.keyId);
    if (queue) queue.add(waiter);
    else queues.set(waiter.keyId, new Set([waiter]));
    wakeBy(waiter.wakeAtMs);
  }

  function leave(waiter: Waiter): void {
    const queue = queues.get(waiter.keyId);
    if (!queue?.delete(waiter)) return;
    if (queue.size === 0) queues.delete(waiter.keyId);
    occupancy.leave(waiter.groupId);
  }

  /** Visits the keys in turn and serves the first fitting request of each, until no other can be served. */
  function serve(fits: (waiter: Waiter) => boolean, atMost: number): void {
    let served = 0;
    // Serving moves a key to the end, so serving more than one needs a copy of the original order.
    for (const [keyId, queue] of atMost === 1 ? queues : [...queues]) {
      for (const waiter of queue) {
        if (!fits(waiter) || !waiter.tryNow()) continue;
        leave(waiter);
        const rest = queues.get(keyId);
        if (rest) {
          queues.delete(keyId);
          queues.set(keyId, rest);
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
    timer = setTimeout(retryDue, Math.max(1, Math.ceil(atMs - clock.monotonicMs())));
  }

  /** Time may have helped some requests: they retry in turn and set their next retry time. */
  function retryDue(): void {
    timer = null;
    timerAtMs = Number.POSITIVE_INFINITY;
    const nowMs = clock.monotonicMs();
    let before: number;
    do {
      before = size();
      serve((waiter) => waiter.wakeAtMs <= nowMs, Number.POSITIVE_INFINITY);
    } while (size() < before);
    for (const queue of queues.values()) for (const waiter of queue) wakeBy(waiter.wakeAtMs);
  }

  function size(): number {
    let total = 0;
    for (const queue of queues.values()) total += queue.size;
    return total;
  }

  return {
    waiting: (groupId) => occupancy.waiting(groupId),
    freed(accountId) {
      // The queue is usually empty.
      if (queues.size > 0) serveAt(accountId);
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
