/**
 * The memory that large bodies may take, those of all clients together. Nobody reads one before there is room for it, so
 * that its client is held up and not this process filled. Whoever finds none waits a moment: the oldest first, but for
 * those whose owner holds a share already. There is one for large bodies, one for small ones, and one for disk space.
 */

import { ApiError } from "../../errors.ts";
import type { Deadlines } from "../../net/wire/deadlines.ts";

export interface BodyBudgetOptions {
  bytesMax: number;
  /** For one owner with several bodies; a single one may take all there is. */
  ownerBytesMax: number;
  waitingMax: number;
  ownerWaitingMax: number;
  patienceMs: number;
  alarms: Deadlines;
  monotonicMs(): number;
}

/** Whose body it is. Keys of one user count together: anybody can make many. */
export interface BodyOwner {
  readonly id: string;
  readonly userId: string | null;
}

export interface BodyBudget {
  /** For one body; it holds nothing yet. */
  open(owner: BodyOwner, client: { readonly signal: AbortSignal }): BodyReservation;
  /** Somebody waits for room that others hold, so those others must not be slow. */
  isCrowded(): boolean;
  /** When to try again: after about as long as a body stays. */
  retryAfterSeconds(): number;
  report(): BodyBudgetReport;
}

export interface BodyBudgetReport {
  readonly heldBytes: number;
  readonly bytesMax: number;
  readonly waiting: number;
  /** Since the process began. */
  readonly refused: number;
}

export type ReservationResult = "room" | "full" | "left";

/** What one body holds. */
export interface BodyReservation {
  readonly room: BodyBudget;
  readonly bytes: number;
  /** Makes it this large, at once or when there is room. */
  growTo(bytes: number): ReservationResult | Promise<ReservationResult>;
  /** The same without waiting: for what is in memory already. */
  growNow(bytes: number): boolean;
  shrinkTo(bytes: number): void;
  /** Gives all of it back; once is enough. */
  release(): void;
}

interface Place {
  readonly owner: string;
  bytes: number;
  sinceMs: number;
  waiter: Waiter | null;
}

interface Waiter {
  readonly place: Place;
  readonly to: number;
  isServed: boolean;
  /** Ends the wait; null while nobody waits yet. */
  end: ((found: ReservationResult) => void) | null;
}

const RETRY_SECONDS_MAX = 60;
/** How much one body's stay moves the mean. */
const MEAN_WEIGHT = 1 / 8;

export function openBodyBudget(options: BodyBudgetOptions): BodyBudget {
  const { bytesMax, ownerBytesMax, patienceMs, alarms, monotonicMs } = options;
  const byOwner = new Map<string, number>();
  const line: Waiter[] = [];
  let bytes = 0;
  let refused = 0;
  let meanStayMs = patienceMs;

  function resize(place: Place, to: number): void {
    const more = to - place.bytes;
    if (place.bytes === 0) place.sinceMs = monotonicMs();
    place.bytes = to;
    bytes += more;
    const own = (byOwner.get(place.owner) ?? 0) + more;
    if (own > 0) byOwner.set(place.owner, own);
    else byOwner.delete(place.owner);
  }

  function isWithinShare({ place, to }: Waiter): boolean {
    const others = (byOwner.get(place.owner) ?? 0) - place.bytes;
    return others === 0 || others + to <= ownerBytesMax;
  }

  /** Nobody passes one who came before, or the largest would wait for ever. */
  function serve(): void {
    for (const waiter of [...line]) {
      if (!isWithinShare(waiter)) continue;
      if (bytes + waiter.to - waiter.place.bytes > bytesMax) return;
      resize(waiter.place, waiter.to);
      waiter.isServed = true;
      leaveLine(waiter);
      waiter.end?.("room");
    }
  }

  /** Waits in line, or is served at once. A body that is partly here goes first: others wait for what it holds. */
  function ask(place: Place, to: number): Waiter {
    const waiter: Waiter = { place, to, isServed: false, end: null };
    place.waiter = waiter;
    if (place.bytes > 0) line.unshift(waiter);
    else line.push(waiter);
    serve();
    return waiter;
  }

  function leaveLine(waiter: Waiter): void {
    const at = line.indexOf(waiter);
    if (at !== -1) line.splice(at, 1);
    waiter.place.waiter = null;
  }

  function isLineFull({ owner }: Place): boolean {
    const own = line.filter(({ place }) => place.owner === owner);
    return line.length > options.waitingMax || own.length > options.ownerWaitingMax;
  }

  function giveUp(waiter: Waiter): void {
    leaveLine(waiter);
    // Whoever stood behind a large one may fit.
    serve();
  }

  function wait(waiter: Waiter, { signal }: { readonly signal: AbortSignal }): Promise<ReservationResult> {
    const { promise, resolve } = Promise.withResolvers<ReservationResult>();
    const left = () => end("left");
    const late = alarms.set(patienceMs, () => end("full"));
    function end(found: ReservationResult): void {
      alarms.cancel(late);
      signal.removeEventListener("abort", left);
      if (found === "full") refused++;
      if (!waiter.isServed) giveUp(waiter);
      resolve(found);
    }
    waiter.end = end;
    signal.addEventListener("abort", left);
    if (signal.aborted) left();
    return promise;
  }

  const room: BodyBudget = {
    open(owner, client) {
      const place: Place = { owner: owner.userId ?? owner.id, bytes: 0, sinceMs: 0, waiter: null };
      return {
        room,
        get bytes() {
          return place.bytes;
        },
        growTo(to) {
          if (to <= place.bytes) return "room";
          const waiter = ask(place, to);
          if (waiter.isServed) return "room";
          if (!isLineFull(place)) return wait(waiter, client);
          giveUp(waiter);
          refused++;
          return "full";
        },
        growNow(to) {
          if (to <= place.bytes) return true;
          const waiter = ask(place, to);
          if (waiter.isServed) return true;
          giveUp(waiter);
          refused++;
          return false;
        },
        shrinkTo(to) {
          if (to >= place.bytes) return;
          resize(place, to);
          serve();
        },
        release() {
          place.waiter?.end?.("left");
          if (place.bytes === 0) return;
          meanStayMs += (monotonicMs() - place.sinceMs - meanStayMs) * MEAN_WEIGHT;
          resize(place, 0);
          serve();
        },
      };
    },
    isCrowded: () => line.some(isWithinShare),
    retryAfterSeconds: () => Math.min(RETRY_SECONDS_MAX, Math.max(1, Math.ceil(meanStayMs / 1_000))),
    report: () => ({ heldBytes: bytes, bytesMax, waiting: line.length, refused }),
  };
  return room;
}

export function noRoomError(seconds: number, of: "memory" | "disk" = "memory"): ApiError {
  const message =
    of === "memory"
      ? `The bodies of other requests take all the memory there is for them. Try again in ${seconds} s, or send a smaller body.`
      : `The uploads of other requests take all the disk space there is for them. Try again in ${seconds} s, or send smaller files.`;
  return new ApiError("no_room_for_body", message, { headers: { "retry-after": String(seconds) } });
}
