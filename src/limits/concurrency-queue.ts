/**
 * Where requests over a concurrency limit of their key, user or group wait: first come, first served within a key, turn
 * by turn between keys. A waiting request holds nothing. All requests of a key have the same subjects, so the oldest one
 * is tried for all of them: a key waits at the one subject that has no slot for it, and only a release there wakes it.
 */

import type { Clock } from "../net/wire/clock.ts";
import { QueueOccupancy } from "./queue-occupancy.ts";
import type { ConcurrencyBlocker, Limiter, Subject } from "./terms.ts";

export interface SlotRequest<T> {
  keyId: string;
  groupId: string;
  subjects: readonly Subject[];
  /** How many requests of the group may wait at once, for accounts or for slots. */
  maxWaiting: number;
  timeoutMs: number;
  /** Takes the limits if they allow it. `rejected` ends the wait: another limit is exceeded by now. */
  attempt(): { taken: T } | "blocked" | "rejected";
  /** Aborts when the client has left. */
  left: AbortSignal;
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
  /** True if the wait is over. */
  tryNow(): boolean;
}

/** The waiting requests of one key, oldest first, and the subject that they wait for. */
interface KeyLine {
  readonly keyId: string;
  readonly waiters: Set<Waiter>;
  blocker: ConcurrencyBlocker | null;
}

/** A limit may be raised or removed, which no release announces: so often the oldest requests look again. */
const LOOK_AGAIN_MS = 1_000;

export class ConcurrencyQueue {
  private readonly limiter: Pick<Limiter, "findBlocker">;
  private readonly clock: Pick<Clock, "monotonicMs">;
  private readonly occupancy: QueueOccupancy;
  private readonly own = new QueueOccupancy();
  private readonly lineByKey = new Map<string, KeyLine>();
  /** Keys in the order of their turns; a served key goes to the end. */
  private readonly linesByBlocker = new Map<ConcurrencyBlocker, Set<KeyLine>>();
  private timer: ReturnType<typeof setTimeout> | null = null;

  constructor(
    limiter: Pick<Limiter, "findBlocker">,
    occupancy: QueueOccupancy,
    clock: Pick<Clock, "monotonicMs">,
  ) {
    this.limiter = limiter;
    this.occupancy = occupancy;
    this.clock = clock;
  }

  /** Requests of the group that wait for a slot; the occupancy counts those that wait for an account, too. */
  waiting(groupId: string): number {
    return this.own.waiting(groupId);
  }

  wait<T>(request: SlotRequest<T>): Promise<SlotResult<T>> {
    if (request.left.aborted) return Promise.resolve({ kind: "left" });
    if (!this.occupancy.enter(request.groupId, request.maxWaiting)) return Promise.resolve({ kind: "full" });
    return new Promise((resolve) => {
      const end = (result: SlotResult<T>) => {
        clearTimeout(deadline);
        request.left.removeEventListener("abort", onLeft);
        this.remove(line, waiter);
        resolve(result);
      };
      const onLeft = () => end({ kind: "left" });
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
      const untilMs = this.clock.monotonicMs() + request.timeoutMs;
      const onDeadline = () => {
        // A busy process may run timers late, and slots that came free meanwhile went to others by then.
        const leftMs = untilMs - this.clock.monotonicMs();
        if (leftMs > 1) deadline = setTimeout(onDeadline, leftMs);
        else if (!waiter.tryNow()) end({ kind: "timeout" });
      };
      let deadline = setTimeout(onDeadline, request.timeoutMs);
      request.left.addEventListener("abort", onLeft);
      const line = this.add(request.keyId, waiter);
    });
  }

  private add(keyId: string, waiter: Waiter): KeyLine {
    let line = this.lineByKey.get(keyId);
    if (line === undefined) {
      line = { keyId, waiters: new Set(), blocker: null };
      this.lineByKey.set(keyId, line);
    }
    line.waiters.add(waiter);
    this.own.enter(waiter.groupId, Number.POSITIVE_INFINITY);
    if (line.blocker === null) this.block(line, this.limiter.findBlocker(waiter.subjects));
    this.timer ??= setTimeout(this.lookAgain, LOOK_AGAIN_MS);
    return line;
  }

  private remove(line: KeyLine, waiter: Waiter): void {
    if (!line.waiters.delete(waiter)) return;
    this.own.leave(waiter.groupId);
    this.occupancy.leave(waiter.groupId);
    if (line.waiters.size > 0) return;
    this.unblock(line);
    this.lineByKey.delete(line.keyId);
  }

  private block(line: KeyLine, blocker: ConcurrencyBlocker | null): void {
    line.blocker = blocker;
    if (blocker === null) return;
    let lines = this.linesByBlocker.get(blocker);
    if (lines === undefined) {
      lines = new Set();
      this.linesByBlocker.set(blocker, lines);
      blocker.onRelease = () => this.serve(blocker);
    }
    lines.add(line);
  }

  private unblock(line: KeyLine): void {
    const { blocker } = line;
    line.blocker = null;
    const lines = blocker === null ? undefined : this.linesByBlocker.get(blocker);
    if (blocker === null || lines === undefined) return;
    lines.delete(line);
    if (lines.size > 0) return;
    this.linesByBlocker.delete(blocker);
    blocker.onRelease = null;
  }

  /** Gives the slots of a subject to the keys in turn, until it has none left or no key waits there. */
  private serve(blocker: ConcurrencyBlocker): void {
    for (;;) {
      const lines = this.linesByBlocker.get(blocker);
      const line = first(lines);
      const head = first(line?.waiters);
      if (lines === undefined || line === undefined || head === undefined) return;
      if (head.tryNow()) {
        // `delete` tells whether the key still waits; one whose last request was served does not.
        if (lines.delete(line)) lines.add(line);
        continue;
      }
      const next = this.limiter.findBlocker(head.subjects);
      if (next === blocker) return;
      this.unblock(line);
      this.block(line, next);
    }
  }

  private readonly lookAgain = (): void => {
    this.timer = null;
    for (const blocker of [...this.linesByBlocker.keys()]) this.serve(blocker);
    for (const line of [...this.lineByKey.values()]) if (line.blocker === null) this.retry(line);
    if (this.lineByKey.size > 0) this.timer = setTimeout(this.lookAgain, LOOK_AGAIN_MS);
  };

  /** A key that waits at no subject: the limit that stopped it was changed in the meantime. */
  private retry(line: KeyLine): void {
    for (let head = first(line.waiters); head !== undefined; head = first(line.waiters)) {
      if (head.tryNow()) continue;
      this.block(line, this.limiter.findBlocker(head.subjects));
      return;
    }
  }
}

function first<T>(set: ReadonlySet<T> | undefined): T | undefined {
  return set?.values().next().value;
}
