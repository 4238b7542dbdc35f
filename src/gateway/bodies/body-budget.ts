/**
 * The memory that the large bodies of all clients share. A body is read only when there is room for it, so that the
 * client waits instead of this process running out of memory. Waiting bodies are served oldest first, except those
 * whose owner already holds its share. There is one budget for large bodies, one for small ones, and one for disk
 * space.
 */

import type { Deadlines } from "../../base/deadlines.ts";
import { wholeSeconds } from "../../base/time.ts";
import { ApiError } from "../../errors.ts";

export interface BodyBudgetOptions {
  bytesMax: number;
  /** The maximum of one owner with several bodies. A single body may take the whole budget. */
  ownerBytesMax: number;
  waitingMax: number;
  ownerWaitingMax: number;
  waitTimeoutMs: number;
  deadlines: Deadlines;
  monotonicMs(): number;
}

/** The owner of a body. The keys of one user count together, because a user can create many. */
export interface BodyOwner {
  readonly id: string;
  readonly userId: string | null;
}

/** The client that sends the body. The signal is aborted when it disconnects. */
interface BodyClient {
  readonly signal: AbortSignal;
}

export interface BodyBudget {
  /** Opens the reservation of one body, initially empty. */
  open(owner: BodyOwner, client: BodyClient): BodyReservation;
  /** True if a body waits for room that others hold: those others must then arrive faster. */
  isContended(): boolean;
  /** When to retry: after the mean time that a body stays. */
  retryAfterSeconds(): number;
  report(): BodyBudgetReport;
}

interface BodyBudgetReport {
  readonly heldBytes: number;
  readonly bytesMax: number;
  readonly waiting: number;
  /** Since the process started. */
  readonly refused: number;
}

export type ReservationResult = "room" | "full" | "left";

/** The room that one body holds. */
export interface BodyReservation {
  readonly budget: BodyBudget;
  readonly bytes: number;
  /** Grows the reservation to this size, at once or when there is room. */
  growTo(bytes: number): ReservationResult | Promise<ReservationResult>;
  /** Grows without waiting: for bytes that are already in memory. */
  growNow(bytes: number): boolean;
  shrinkTo(bytes: number): void;
  /** Releases all of it. Further calls have no effect. */
  release(): void;
}

const RETRY_SECONDS_MAX = 60;
/** The weight of one body's stay in the moving mean. */
const MEAN_WEIGHT = 1 / 8;

export function openBodyBudget(options: BodyBudgetOptions): BodyBudget {
  return new SharedBodyBudget(options);
}

class SharedBodyBudget implements BodyBudget {
  readonly #options: BodyBudgetOptions;
  readonly #heldBytesByOwner = new Map<string, number>();
  /** First in, first out: otherwise the largest body would wait for ever. */
  readonly #queue: Growth[] = [];
  #heldBytes = 0;
  #refused = 0;
  #meanStayMs: number;

  constructor(options: BodyBudgetOptions) {
    this.#options = options;
    this.#meanStayMs = options.waitTimeoutMs;
  }

  open(owner: BodyOwner, client: BodyClient): BodyReservation {
    return new SharedReservation(this, owner.userId ?? owner.id, client);
  }

  isContended(): boolean {
    return this.#queue.some((growth) => this.#isWithinShare(growth));
  }

  retryAfterSeconds(): number {
    return Math.min(RETRY_SECONDS_MAX, wholeSeconds(this.#meanStayMs));
  }

  report(): BodyBudgetReport {
    return {
      heldBytes: this.#heldBytes,
      bytesMax: this.#options.bytesMax,
      waiting: this.#queue.length,
      refused: this.#refused,
    };
  }

  grow(reservation: SharedReservation, bytes: number): ReservationResult | Promise<ReservationResult> {
    const growth = this.#enqueue(reservation, bytes);
    if (growth.state.phase === "served") return "room";
    return this.#isQueueFull(reservation) ? this.#reject(growth) : this.#wait(growth);
  }

  growNow(reservation: SharedReservation, bytes: number): boolean {
    const growth = this.#enqueue(reservation, bytes);
    if (growth.state.phase === "served") return true;
    this.#reject(growth);
    return false;
  }

  shrink(reservation: SharedReservation, bytes: number): void {
    this.#resize(reservation, bytes);
    this.#serve();
  }

  release(reservation: SharedReservation): void {
    const { growth } = reservation;
    if (growth?.state.phase === "waiting") growth.state.end("left");
    if (reservation.bytes === 0) return;
    const stayMs = this.#options.monotonicMs() - reservation.sinceMs;
    this.#meanStayMs += (stayMs - this.#meanStayMs) * MEAN_WEIGHT;
    this.shrink(reservation, 0);
  }

  #resize(reservation: SharedReservation, bytes: number): void {
    const addedBytes = bytes - reservation.bytes;
    if (reservation.bytes === 0) reservation.sinceMs = this.#options.monotonicMs();
    reservation.bytes = bytes;
    this.#heldBytes += addedBytes;
    const ownerBytes = this.#countOwnerBytes(reservation) + addedBytes;
    if (ownerBytes > 0) this.#heldBytesByOwner.set(reservation.owner, ownerBytes);
    else this.#heldBytesByOwner.delete(reservation.owner);
  }

  #countOwnerBytes({ owner }: SharedReservation): number {
    return this.#heldBytesByOwner.get(owner) ?? 0;
  }

  #isWithinShare({ reservation, bytes }: Growth): boolean {
    const otherBytes = this.#countOwnerBytes(reservation) - reservation.bytes;
    return otherBytes === 0 || otherBytes + bytes <= this.#options.ownerBytesMax;
  }

  #serve(): void {
    for (const growth of [...this.#queue]) {
      const { reservation, bytes, state } = growth;
      if (!this.#isWithinShare(growth)) continue;
      if (this.#heldBytes + bytes - reservation.bytes > this.#options.bytesMax) return;
      this.#resize(reservation, bytes);
      this.#dequeue(growth);
      growth.state = SERVED;
      if (state.phase === "waiting") state.end("room");
    }
  }

  /** Enqueues the growth, or serves it at once. A body that has partly arrived goes first. */
  #enqueue(reservation: SharedReservation, bytes: number): Growth {
    const growth: Growth = { reservation, bytes, state: QUEUED };
    reservation.growth = growth;
    if (reservation.bytes > 0) this.#queue.unshift(growth);
    else this.#queue.push(growth);
    this.#serve();
    return growth;
  }

  #dequeue(growth: Growth): void {
    const at = this.#queue.indexOf(growth);
    if (at !== -1) this.#queue.splice(at, 1);
    growth.reservation.growth = null;
  }

  #isQueueFull({ owner }: SharedReservation): boolean {
    const sameOwner = this.#queue.filter(({ reservation }) => reservation.owner === owner);
    return this.#queue.length > this.#options.waitingMax || sameOwner.length > this.#options.ownerWaitingMax;
  }

  #abandon(growth: Growth): void {
    this.#dequeue(growth);
    // A body that waited after a large one may now fit.
    this.#serve();
  }

  #reject(growth: Growth): ReservationResult {
    this.#abandon(growth);
    this.#refused++;
    return "full";
  }

  #wait(growth: Growth): Promise<ReservationResult> {
    const { deadlines, waitTimeoutMs } = this.#options;
    const { signal } = growth.reservation.client;
    const { promise, resolve } = Promise.withResolvers<ReservationResult>();
    const onDisconnect = () => end("left");
    const timeout = deadlines.set(waitTimeoutMs, () => end("full"));
    const end = (result: ReservationResult) => {
      deadlines.cancel(timeout);
      signal.removeEventListener("abort", onDisconnect);
      if (result === "full") this.#reject(growth);
      else if (result === "left") this.#abandon(growth);
      resolve(result);
    };
    growth.state = { phase: "waiting", end };
    signal.addEventListener("abort", onDisconnect);
    if (signal.aborted) onDisconnect();
    return promise;
  }
}

class SharedReservation implements BodyReservation {
  readonly budget: SharedBodyBudget;
  readonly owner: string;
  readonly client: BodyClient;
  bytes = 0;
  /** When the reservation stopped being empty. */
  sinceMs = 0;
  /** Null unless the reservation is in the queue. */
  growth: Growth | null = null;

  constructor(budget: SharedBodyBudget, owner: string, client: BodyClient) {
    this.budget = budget;
    this.owner = owner;
    this.client = client;
  }

  growTo(bytes: number): ReservationResult | Promise<ReservationResult> {
    return bytes <= this.bytes ? "room" : this.budget.grow(this, bytes);
  }

  growNow(bytes: number): boolean {
    return bytes <= this.bytes || this.budget.growNow(this, bytes);
  }

  shrinkTo(bytes: number): void {
    if (bytes < this.bytes) this.budget.shrink(this, bytes);
  }

  release(): void {
    this.budget.release(this);
  }
}

/** A reservation in the queue, to grow to `bytes`. */
interface Growth {
  readonly reservation: SharedReservation;
  readonly bytes: number;
  state: GrowthState;
}

type GrowthState =
  | { readonly phase: "queued" | "served" }
  /** `end` ends the wait of the client. */
  | { readonly phase: "waiting"; end(result: ReservationResult): void };

const QUEUED: GrowthState = { phase: "queued" };
const SERVED: GrowthState = { phase: "served" };

export function noCapacityError(seconds: number, of: "memory" | "disk" = "memory"): ApiError {
  const message =
    of === "memory"
      ? `The memory for request bodies is full. Try again in ${seconds} s, or send a smaller body.`
      : `The disk space for uploads is full. Try again in ${seconds} s, or send smaller files.`;
  return new ApiError("no_room_for_body", message, { headers: { "retry-after": String(seconds) } });
}
