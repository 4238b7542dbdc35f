/**
 * Queue of requests over a concurrency limit of their key, user or group: first in, first out within a key,
 * round-robin between keys. A waiting request holds nothing. All requests of a key have the same subjects, so only
 * the oldest one is tried: a key waits at the one subject without a free slot, and only a release there wakes it.
 */

import type { Clock } from "../base/clock.ts";
import type { ConcurrencyBlocker, Limiter, Subject } from "./limiter-types.ts";
import { QueueOccupancy } from "./queue-occupancy.ts";

interface SlotRequest<T> {
  keyId: string;
  groupId: string;
  subjects: readonly Subject[];
  /** Maximum number of waiting requests of the group, for accounts and slots together. */
  maxWaiting: number;
  timeoutMs: number;
  /** Takes the limits if they allow it. `rejected` ends the wait, because another limit is exceeded now. */
  attempt(): { taken: T } | "blocked" | "rejected";
  /** Aborts when the client has disconnected. */
  disconnectSignal: AbortSignal;
}

export type SlotResult<T> =
  | { kind: "taken"; value: T }
  | { kind: "full" }
  | { kind: "rejected" }
  | { kind: "timeout" }
  | { kind: "left" };

interface Waiter {
  readonly subjects: readonly Subject[];
  readonly groupId: string;
  /** Returns true if the wait is over. */
  tryNow(): boolean;
}

/** The waiting requests of one key, oldest first, and the subject that they wait for. */
interface KeyQueue {
  readonly keyId: string;
  readonly waiters: Set<Waiter>;
  blocker: ConcurrencyBlocker | null;
}

/** A limit may be raised or removed without a release. The oldest requests retry at this interval. */
const RETRY_MS = 1_000;

export class ConcurrencyQueue {
  readonly #limiter: Pick<Limiter, "findBlocker">;
  readonly #clock: Pick<Clock, "monotonicMs">;
  readonly #occupancy: QueueOccupancy;
  readonly #slotOccupancy = new QueueOccupancy();
  readonly #queueByKey = new Map<string, KeyQueue>();
  /** Keys in the order of their turns; a served key moves to the end. */
  readonly #queuesByBlocker = new Map<ConcurrencyBlocker, Set<KeyQueue>>();
  #timer: ReturnType<typeof setTimeout> | null = null;

  constructor(
    limiter: Pick<Limiter, "findBlocker">,
    occupancy: QueueOccupancy,
    clock: Pick<Clock, "monotonicMs">,
  ) {
    this.#limiter = limiter;
    this.#occupancy = occupancy;
    this.#clock = clock;
  }

  /** Requests of the group that wait for a slot. The occupancy also counts those that wait for an account. */
  waiting(groupId: string): number {
    return this.#slotOccupancy.waiting(groupId);
  }

  /** What the requests of this key lack may have been borrowed: they are tried in turn, until one does not fit. */
  serveKey(keyId: string): void {
    const keyQueue = this.#queueByKey.get(keyId);
    if (keyQueue === undefined) return;
    this.#unblock(keyQueue);
    this.#retry(keyQueue);
  }

  wait<T>(request: SlotRequest<T>): Promise<SlotResult<T>> {
    if (request.disconnectSignal.aborted) return Promise.resolve({ kind: "left" });
    if (!this.#occupancy.enter(request.groupId, request.maxWaiting)) return Promise.resolve({ kind: "full" });
    return new Promise((resolve) => {
      const end = (result: SlotResult<T>) => {
        clearTimeout(deadline);
        request.disconnectSignal.removeEventListener("abort", onDisconnect);
        this.#remove(keyQueue, waiter);
        resolve(result);
      };
      const onDisconnect = () => end({ kind: "left" });
      const waiter: Waiter = {
        subjects: request.subjects,
        groupId: request.groupId,
        tryNow() {
          const result = request.attempt();
          if (result === "blocked") return false;
          end(result === "rejected" ? { kind: "rejected" } : { kind: "taken", value: result.taken });
          return true;
        },
      };
      const untilMs = this.#clock.monotonicMs() + request.timeoutMs;
      const onDeadline = () => {
        // A busy process may run timers late, and slots that became free meanwhile went to other requests.
        const leftMs = untilMs - this.#clock.monotonicMs();
        if (leftMs > 1) deadline = setTimeout(onDeadline, leftMs);
        else if (!waiter.tryNow()) end({ kind: "timeout" });
      };
      let deadline = setTimeout(onDeadline, request.timeoutMs);
      request.disconnectSignal.addEventListener("abort", onDisconnect);
      const keyQueue = this.#add(request.keyId, waiter);
    });
  }

  #add(keyId: string, waiter: Waiter): KeyQueue {
    let keyQueue = this.#queueByKey.get(keyId);
    if (keyQueue === undefined) {
      keyQueue = { keyId, waiters: new Set(), blocker: null };
      this.#queueByKey.set(keyId, keyQueue);
    }
    keyQueue.waiters.add(waiter);
    this.#slotOccupancy.enter(waiter.groupId, Number.POSITIVE_INFINITY);
    if (keyQueue.blocker === null) this.#block(keyQueue, this.#limiter.findBlocker(waiter.subjects));
    this.#timer ??= setTimeout(this.#retryAll, RETRY_MS);
    return keyQueue;
  }

  #remove(keyQueue: KeyQueue, waiter: Waiter): void {
    if (!keyQueue.waiters.delete(waiter)) return;
    this.#slotOccupancy.leave(waiter.groupId);
    this.#occupancy.leave(waiter.groupId);
    if (keyQueue.waiters.size > 0) return;
    this.#unblock(keyQueue);
    this.#queueByKey.delete(keyQueue.keyId);
  }

  #block(keyQueue: KeyQueue, blocker: ConcurrencyBlocker | null): void {
    keyQueue.blocker = blocker;
    if (blocker === null) return;
    let keyQueues = this.#queuesByBlocker.get(blocker);
    if (keyQueues === undefined) {
      keyQueues = new Set();
      this.#queuesByBlocker.set(blocker, keyQueues);
      blocker.onRelease = () => this.#serve(blocker);
    }
    keyQueues.add(keyQueue);
  }

  #unblock(keyQueue: KeyQueue): void {
    const { blocker } = keyQueue;
    keyQueue.blocker = null;
    const keyQueues = blocker === null ? undefined : this.#queuesByBlocker.get(blocker);
    if (blocker === null || keyQueues === undefined) return;
    keyQueues.delete(keyQueue);
    if (keyQueues.size > 0) return;
    this.#queuesByBlocker.delete(blocker);
    blocker.onRelease = null;
  }

  /** Gives the free slots of a subject to the keys in turn, until none is left or no key waits there. */
  #serve(blocker: ConcurrencyBlocker): void {
    for (;;) {
      const keyQueues = this.#queuesByBlocker.get(blocker);
      const keyQueue = first(keyQueues);
      const head = first(keyQueue?.waiters);
      if (keyQueues === undefined || keyQueue === undefined || head === undefined) return;
      if (head.tryNow()) {
        // `delete` returns false for a key whose last request was just served; it waits no longer.
        if (keyQueues.delete(keyQueue)) keyQueues.add(keyQueue);
        continue;
      }
      const next = this.#limiter.findBlocker(head.subjects);
      if (next === blocker) return;
      this.#unblock(keyQueue);
      this.#block(keyQueue, next);
    }
  }

  readonly #retryAll = (): void => {
    this.#timer = null;
    for (const blocker of [...this.#queuesByBlocker.keys()]) this.#serve(blocker);
    for (const keyQueue of [...this.#queueByKey.values()])
      if (keyQueue.blocker === null) this.#retry(keyQueue);
    if (this.#queueByKey.size > 0) this.#timer = setTimeout(this.#retryAll, RETRY_MS);
  };

  /** Retries a key that waits at no subject, because the limit that blocked it was changed. */
  #retry(keyQueue: KeyQueue): void {
    for (let head = first(keyQueue.waiters); head !== undefined; head = first(keyQueue.waiters)) {
      if (head.tryNow()) continue;
      this.#block(keyQueue, this.#limiter.findBlocker(head.subjects));
      return;
    }
  }
}

function first<T>(set: ReadonlySet<T> | undefined): T | undefined {
  return set?.values().next().value;
}
