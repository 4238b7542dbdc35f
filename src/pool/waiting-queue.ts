/**
 * Queue of requests while every account that could serve them is busy or cooling down. First in, first out within a
 * key, round-robin between keys, so a key with a thousand requests delays the first request of another key by at most
 * one service time. A released account slot goes to the next request in the queue before a new request can take it.
 * If time alone frees an account, the waiting requests retry when it is due.
 */

import type { Clock } from "../base/clock.ts";
import { QueueOccupancy } from "../limits/queue-occupancy.ts";

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
  /** Takes a free account slot, in turn. `hopeless` ends the wait; other failures keep the ticket. */
  attempt(): { taken: T } | { freesInMs: number | null } | "hopeless";
  /** Aborts when the client has disconnected. */
  clientSignal: AbortSignal;
}

type WaitResult<T> =
  | { kind: "served"; value: T; waitedMs: number }
  | { kind: "full" }
  /** The accounts changed, and waiting cannot help within the time that is left. */
  | { kind: "hopeless"; waitedMs: number }
  | { kind: "timeout"; waitedMs: number }
  | { kind: "left"; waitedMs: number };

export interface WaitingQueue {
  wait<T>(ticket: Ticket<T>): Promise<WaitResult<T>>;
  /** An account has a free slot: the next waiting request that can use it gets it now. */
  serveFreedSlot(accountId: string): void;
  /** Waiting requests of the group, for an account or for their concurrency limit. */
  countWaiting(groupId: string): number;
}

export function openWaitingQueue(
  clock: Pick<Clock, "monotonicMs">,
  occupancy = new QueueOccupancy(),
): WaitingQueue {
  return new FairWaitingQueue(clock, occupancy);
}

type MonotonicClock = Pick<Clock, "monotonicMs">;

/** What the queue needs of a waiting request, whatever its attempt returns. */
type Waiter = Pick<WaitingRequest<unknown>, "ticket" | "wakeAtMs" | "tryNow">;

class FairWaitingQueue implements WaitingQueue {
  readonly #clock: MonotonicClock;
  readonly #occupancy: QueueOccupancy;
  /** Keys in the order of their turns. A map keeps insertion order, and a served key moves to the end. */
  readonly #waitersByKey = new Map<string, Set<Waiter>>();
  /** The next time at which a waiting request retries; null if only a released slot can help. */
  #retry: { readonly timer: ReturnType<typeof setTimeout>; readonly atMs: number } | null = null;

  constructor(clock: MonotonicClock, occupancy: QueueOccupancy) {
    this.#clock = clock;
    this.#occupancy = occupancy;
  }

  countWaiting(groupId: string): number {
    return this.#occupancy.waiting(groupId);
  }

  serveFreedSlot(accountId: string): void {
    // The queue is usually empty.
    if (this.#waitersByKey.size === 0) return;
    this.#serve(({ ticket }) => ticket.accountIds.has(accountId), 1);
  }

  wait<T>(ticket: Ticket<T>): Promise<WaitResult<T>> {
    if (!this.#occupancy.enter(ticket.groupId, ticket.maxWaiting)) return Promise.resolve({ kind: "full" });
    const waiter = new WaitingRequest(ticket, this.#clock, () => this.#leave(waiter));
    this.#enter(waiter);
    waiter.watchClient();
    return waiter.result;
  }

  #enter(waiter: Waiter): void {
    const { keyId } = waiter.ticket;
    const waiters = this.#waitersByKey.get(keyId);
    if (waiters) waiters.add(waiter);
    else this.#waitersByKey.set(keyId, new Set([waiter]));
    this.#scheduleRetry(waiter.wakeAtMs);
  }

  #leave(waiter: Waiter): void {
    const { keyId, groupId } = waiter.ticket;
    const waiters = this.#waitersByKey.get(keyId);
    if (!waiters?.delete(waiter)) return;
    if (waiters.size === 0) this.#waitersByKey.delete(keyId);
    this.#occupancy.leave(groupId);
  }

  /** Visits the keys in turn and serves the first fitting request of each, until no other can be served. */
  #serve(fits: (waiter: Waiter) => boolean, atMost: number): void {
    let served = 0;
    // Serving moves a key to the end, so serving more than one needs a copy of the original order.
    const turns = atMost === 1 ? this.#waitersByKey : [...this.#waitersByKey];
    for (const [keyId, waiters] of turns) {
      for (const waiter of waiters) {
        if (!fits(waiter) || !waiter.tryNow()) continue;
        this.#moveToEnd(keyId);
        served++;
        break;
      }
      if (served >= atMost) return;
    }
  }

  #moveToEnd(keyId: string): void {
    const waiters = this.#waitersByKey.get(keyId);
    if (!waiters) return;
    this.#waitersByKey.delete(keyId);
    this.#waitersByKey.set(keyId, waiters);
  }

  #scheduleRetry(atMs: number): void {
    if (atMs === Number.POSITIVE_INFINITY) return;
    if (this.#retry !== null) {
      if (atMs >= this.#retry.atMs) return;
      clearTimeout(this.#retry.timer);
    }
    const delayMs = Math.max(1, Math.ceil(atMs - this.#clock.monotonicMs()));
    this.#retry = { timer: setTimeout(() => this.#retryDue(), delayMs), atMs };
  }

  /** Time may have helped some requests: they retry in turn and set their next retry time. */
  #retryDue(): void {
    this.#retry = null;
    const nowMs = this.#clock.monotonicMs();
    let before: number;
    do {
      before = this.#count();
      this.#serve((waiter) => waiter.wakeAtMs <= nowMs, Number.POSITIVE_INFINITY);
    } while (this.#count() < before);
    for (const waiters of this.#waitersByKey.values())
      for (const waiter of waiters) this.#scheduleRetry(waiter.wakeAtMs);
  }

  #count(): number {
    let total = 0;
    for (const waiters of this.#waitersByKey.values()) total += waiters.size;
    return total;
  }
}

/** One request in the queue, until it is served, times out or its client disconnects. */
class WaitingRequest<T> {
  readonly ticket: Ticket<T>;
  readonly result: Promise<WaitResult<T>>;
  /** When time alone may help; infinite if only a released slot can. */
  wakeAtMs: number;
  readonly #clock: MonotonicClock;
  readonly #onEnd: () => void;
  readonly #resolve: (result: WaitResult<T>) => void;
  readonly #startedMs: number;
  readonly #timeout: ReturnType<typeof setTimeout>;

  /** `onEnd` is called before the result is resolved. */
  constructor(ticket: Ticket<T>, clock: MonotonicClock, onEnd: () => void) {
    const { promise, resolve } = Promise.withResolvers<WaitResult<T>>();
    this.ticket = ticket;
    this.result = promise;
    this.#resolve = resolve;
    this.#clock = clock;
    this.#onEnd = onEnd;
    this.#startedMs = clock.monotonicMs();
    this.wakeAtMs = this.#computeWakeAt(ticket.freesInMs);
    const onTimeout = () => this.#end({ kind: "timeout", waitedMs: this.#waitedMs() });
    this.#timeout = setTimeout(onTimeout, ticket.timeoutMs);
  }

  watchClient(): void {
    const { clientSignal } = this.ticket;
    clientSignal.addEventListener("abort", this.#onDisconnect);
    if (clientSignal.aborted) this.#onDisconnect();
  }

  /** Returns whether the request was served. */
  tryNow(): boolean {
    const result = this.ticket.attempt();
    if (result === "hopeless") {
      this.#end({ kind: "hopeless", waitedMs: this.#waitedMs() });
      return false;
    }
    if ("taken" in result) {
      this.#end({ kind: "served", value: result.taken, waitedMs: this.#waitedMs() });
      return true;
    }
    this.wakeAtMs = this.#computeWakeAt(result.freesInMs);
    return false;
  }

  readonly #onDisconnect = (): void => {
    this.#end({ kind: "left", waitedMs: this.#waitedMs() });
  };

  #end(result: WaitResult<T>): void {
    clearTimeout(this.#timeout);
    this.ticket.clientSignal.removeEventListener("abort", this.#onDisconnect);
    this.#onEnd();
    this.#resolve(result);
  }

  #waitedMs(): number {
    return this.#clock.monotonicMs() - this.#startedMs;
  }

  #computeWakeAt(freesInMs: number | null): number {
    return freesInMs === null ? Number.POSITIVE_INFINITY : this.#clock.monotonicMs() + Math.max(1, freesInMs);
  }
}
