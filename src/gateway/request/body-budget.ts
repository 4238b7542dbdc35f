/**
 * The memory that the large bodies of all clients share. A body is read only when there is room for it, so that the
 * client waits instead of this process running out of memory. Waiting bodies are served oldest first, except those
 * whose owner already holds its share. There is one budget for large bodies, one for small ones, and one for disk
 * space.
 */

import { ApiError } from "../../errors.ts";
import type { Deadlines } from "../../net/wire/deadlines.ts";

export interface BodyBudgetOptions {
  bytesMax: number;
  /** The maximum of one owner with several bodies. A single body may take the whole budget. */
  ownerBytesMax: number;
  waitingMax: number;
  ownerWaitingMax: number;
  patienceMs: number;
  alarms: Deadlines;
  monotonicMs(): number;
}

/** The owner of a body. The keys of one user count together, because a user can create many. */
export interface BodyOwner {
  readonly id: string;
  readonly userId: string | null;
}

export interface BodyBudget {
  /** Opens the reservation of one body, initially empty. */
  open(owner: BodyOwner, client: { readonly signal: AbortSignal }): BodyReservation;
  /** True if a body waits for room that others hold: those others must then arrive faster. */
  isCrowded(): boolean;
  /** When to retry: after the mean time that a body stays. */
  retryAfterSeconds(): number;
  report(): BodyBudgetReport;
}

export interface BodyBudgetReport {
  readonly heldBytes: number;
  readonly bytesMax: number;
  readonly waiting: number;
  /** Since the process started. */
  readonly refused: number;
}

export type ReservationResult = "room" | "full" | "left";

/** The room that one body holds. */
export interface BodyReservation {
  readonly room: BodyBudget;
  readonly bytes: number;
  /** Grows the reservation to this size, at once or when there is room. */
  growTo(bytes: number): ReservationResult | Promise<ReservationResult>;
  /** Grows without waiting: for bytes that are already in memory. */
  growNow(bytes: number): boolean;
  shrinkTo(bytes: number): void;
  /** Releases all of it. Further calls have no effect. */
  release(): void;
}

interface BodyHolding {
  readonly owner: string;
  bytes: number;
  sinceMs: number;
  waiter: Waiter | null;
}

interface Waiter {
  readonly holding: BodyHolding;
  readonly to: number;
  isServed: boolean;
  /** Ends the wait; null before the wait begins. */
  end: ((result: ReservationResult) => void) | null;
}

const RETRY_SECONDS_MAX = 60;
/** The weight of one body's stay in the moving mean. */
const MEAN_WEIGHT = 1 / 8;

export function openBodyBudget(options: BodyBudgetOptions): BodyBudget {
  const { bytesMax, ownerBytesMax, patienceMs, alarms, monotonicMs } = options;
  const byOwner = new Map<string, number>();
  const queue: Waiter[] = [];
  let bytes = 0;
  let refused = 0;
  let meanStayMs = patienceMs;

  function resize(holding: BodyHolding, to: number): void {
    const more = to - holding.bytes;
    if (holding.bytes === 0) holding.sinceMs = monotonicMs();
    holding.bytes = to;
    bytes += more;
    const ownerBytes = (byOwner.get(holding.owner) ?? 0) + more;
    if (ownerBytes > 0) byOwner.set(holding.owner, ownerBytes);
    else byOwner.delete(holding.owner);
  }

  function isWithinShare({ holding, to }: Waiter): boolean {
    const others = (byOwner.get(holding.owner) ?? 0) - holding.bytes;
    return others === 0 || others + to <= ownerBytesMax;
  }

  /** First in, first out: otherwise the largest body would wait for ever. */
  function serve(): void {
    for (const waiter of [...queue]) {
      if (!isWithinShare(waiter)) continue;
      if (bytes + waiter.to - waiter.holding.bytes > bytesMax) return;
      resize(waiter.holding, waiter.to);
      waiter.isServed = true;
      dequeue(waiter);
      waiter.end?.("room");
    }
  }

  /**
   * Enqueues the body, or serves it at once. A body that has partly arrived goes first: others wait for the room it
   * holds.
   */
  function enqueue(holding: BodyHolding, to: number): Waiter {
    const waiter: Waiter = { holding, to, isServed: false, end: null };
    holding.waiter = waiter;
    if (holding.bytes > 0) queue.unshift(waiter);
    else queue.push(waiter);
    serve();
    return waiter;
  }

  function dequeue(waiter: Waiter): void {
    const at = queue.indexOf(waiter);
    if (at !== -1) queue.splice(at, 1);
    waiter.holding.waiter = null;
  }

  function isQueueFull({ owner }: BodyHolding): boolean {
    const ownerBytes = queue.filter(({ holding }) => holding.owner === owner);
    return queue.length > options.waitingMax || ownerBytes.length > options.ownerWaitingMax;
  }

  function abandonWait(waiter: Waiter): void {
    dequeue(waiter);
    // A body that waited after a large one may now fit.
    serve();
  }

  function wait(waiter: Waiter, { signal }: { readonly signal: AbortSignal }): Promise<ReservationResult> {
    const { promise, resolve } = Promise.withResolvers<ReservationResult>();
    const onLeave = () => end("left");
    const timeout = alarms.set(patienceMs, () => end("full"));
    function end(result: ReservationResult): void {
      alarms.cancel(timeout);
      signal.removeEventListener("abort", onLeave);
      if (result === "full") refused++;
      if (!waiter.isServed) abandonWait(waiter);
      resolve(result);
    }
    waiter.end = end;
    signal.addEventListener("abort", onLeave);
    if (signal.aborted) onLeave();
    return promise;
  }

  const room: BodyBudget = {
    open(owner, client) {
      const holding: BodyHolding = { owner: owner.userId ?? owner.id, bytes: 0, sinceMs: 0, waiter: null };
      return {
        room,
        get bytes() {
          return holding.bytes;
        },
        growTo(to) {
          if (to <= holding.bytes) return "room";
          const waiter = enqueue(holding, to);
          if (waiter.isServed) return "room";
          if (!isQueueFull(holding)) return wait(waiter, client);
          abandonWait(waiter);
          refused++;
          return "full";
        },
        growNow(to) {
          if (to <= holding.bytes) return true;
          const waiter = enqueue(holding, to);
          if (waiter.isServed) return true;
          abandonWait(waiter);
          refused++;
          return false;
        },
        shrinkTo(to) {
          if (to >= holding.bytes) return;
          resize(holding, to);
          serve();
        },
        release() {
          holding.waiter?.end?.("left");
          if (holding.bytes === 0) return;
          meanStayMs += (monotonicMs() - holding.sinceMs - meanStayMs) * MEAN_WEIGHT;
          resize(holding, 0);
          serve();
        },
      };
    },
    isCrowded: () => queue.some(isWithinShare),
    retryAfterSeconds: () => Math.min(RETRY_SECONDS_MAX, Math.max(1, Math.ceil(meanStayMs / 1_000))),
    report: () => ({ heldBytes: bytes, bytesMax, waiting: queue.length, refused }),
  };
  return room;
}

export function noCapacityError(seconds: number, of: "memory" | "disk" = "memory"): ApiError {
  const message =
    of === "memory"
      ? `The bodies of other requests take all the memory there is for them. Try again in ${seconds} s, or send a smaller body.`
      : `The uploads of other requests take all the disk space there is for them. Try again in ${seconds} s, or send smaller files.`;
  return new ApiError("no_room_for_body", message, { headers: { "retry-after": String(seconds) } });
}
