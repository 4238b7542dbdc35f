/** A place at an account, for one attempt: taken from the pool, or waited for in line, and always given back. */

import { ApiError } from "../errors.ts";
import type { Lease } from "../limits/limiter.ts";
import type { Route } from "../policy/snapshot.ts";
import type { Choice, PickRequest, Pool } from "../pool/pool.ts";
import type { WaitingRoom } from "../pool/waiting.ts";
import { noAvailableAccount, retryAfter, type UpstreamFailure } from "../upstreams/failure.ts";
import type { Order } from "./order.ts";
import { clientGone } from "./send.ts";
import { endWait, failAttempt } from "./trace.ts";

export interface Place {
  readonly route: Route;
  /** The attempt is over; tokens if they became known. Whoever waits for this account is served at once. */
  release(tokens: number | null): void;
  /** What the attempt used, once known, which may be before or after its end. */
  settle(tokens: number): void;
  /** The attempt failed before anything was delivered. */
  abandon(failure: UpstreamFailure): void;
}

type Picked = Extract<Choice, { kind: "picked" }>;
type None = Extract<Choice, { kind: "none" }>;

/** Where places are given out. */
export interface PlaceSource {
  pool: Pool;
  room: WaitingRoom;
  monotonicMs(): number;
}

/** Routes are made once for a publication, so what was found for a list stays true as long as it lives. */
const tokenLimits = new WeakMap<readonly Route[], boolean>();

function limitTokens(routes: readonly Route[]): boolean {
  const known = tokenLimits.get(routes);
  if (known !== undefined) return known;
  const found = routes.some(({ account }) => account.limits.tpm !== null);
  tokenLimits.set(routes, found);
  return found;
}

/** `last` is what the client is told if nothing else can be tried. */
export function takePlace(
  source: PlaceSource,
  order: Order,
  tried: ReadonlySet<Route>,
  last: ApiError | null,
): Place | Promise<Place> {
  const wanted: PickRequest = {
    routes: order.routes,
    tried,
    affinity: order.affinity,
    tokensEstimate: limitTokens(order.routes) ? order.request.tokensEstimate() : 0,
  };
  const first = source.pool.pick(wanted);
  noteWeighed(source.pool, order, first);
  return first.kind === "picked"
    ? new TakenPlace(source, order, first)
    : waitForPlace(source, order, wanted, first, last);
}

async function waitForPlace(
  source: PlaceSource,
  order: Order,
  wanted: PickRequest,
  first: None,
  last: ApiError | null,
): Promise<Place> {
  const { pool, room, monotonicMs } = source;
  const untilMs = order.queue.timeoutMs;
  const onRelease = first.candidates().some(({ reason }) => reason === "at_capacity");
  if (!first.mayFree || (!onRelease && (first.freesInMs ?? 0) > untilMs)) {
    throw last ?? capacityError(first, order);
  }
  // "Not found" cannot be said while an account that may come free has not been asked.
  const told = last?.status === 404 ? null : last;
  order.trace.waitingSinceMs = monotonicMs();
  const waited = await room.wait<Picked>({
    keyId: order.keyId,
    groupId: order.groupId,
    accountIds: new Set(order.routes.map(({ account }) => account.id)),
    maxWaiting: order.queue.maxWaiting,
    timeoutMs: untilMs,
    freesInMs: first.freesInMs,
    attempt() {
      const again = pool.pick(wanted);
      return again.kind === "picked" ? { taken: again } : { freesInMs: again.freesInMs };
    },
    left: (order.client.inPerson ?? order.client).signal,
  });
  endWait(order.trace, monotonicMs());
  switch (waited.kind) {
    case "served":
      noteWeighed(pool, order, waited.value);
      return new TakenPlace(source, order, waited.value);
    case "left":
      throw clientGone();
    case "full":
      throw told ?? waitError(first, order, fullText(order.queue.maxWaiting));
    case "timeout": {
      // This last look also says when to come back.
      const final = pool.pick(wanted);
      if (final.kind === "picked") return new TakenPlace(source, order, final);
      throw told ?? waitError(final, order, `No place came free within ${Math.round(untilMs / 1000)} s.`);
    }
  }
}

/** Describing all candidates takes microseconds among few; among hundreds, only the one that was taken is described. */
const WEIGHED_MAX = 12;
/** Where nothing could be taken the reasons matter, but nobody reads hundreds of them. */
const REFUSED_MAX = 50;

function noteWeighed(pool: Pool, order: Order, pick: Choice): void {
  if (pick.kind === "none") order.trace.candidates = pick.candidates().slice(0, REFUSED_MAX);
  else if (order.routes.length > WEIGHED_MAX) order.trace.candidates = [pool.describe(pick.route)];
  else if (order.routes.length > 1) order.trace.candidates = pick.candidates();
}

/** A class, so that the usual request costs one object here and no closures. */
class TakenPlace implements Place {
  readonly route: Route;
  private readonly source: PlaceSource;
  private readonly order: Order;
  private readonly lease: Lease;
  private isOver = false;

  constructor(source: PlaceSource, order: Order, { route, lease }: Picked) {
    this.source = source;
    this.order = order;
    this.route = route;
    this.lease = lease;
  }

  release(tokens: number | null): void {
    if (this.isOver) return;
    this.isOver = true;
    if (tokens !== null) this.lease.settle(tokens, 0);
    this.lease.release();
    this.source.room.freed(this.route.account.id);
  }

  settle(tokens: number): void {
    this.lease.settle(tokens, 0);
  }

  abandon(failure: UpstreamFailure): void {
    failAttempt(this.order.trace, failure, this.source.monotonicMs());
    this.source.pool.failed(this.route, failure);
    this.release(0);
  }
}

function fullText(maxWaiting: number): string {
  return maxWaiting === 0
    ? "All of its accounts are at work, and your group does not wait for them."
    : `${maxWaiting} requests of your group wait already.`;
}

/** Nobody should wait longer than this: another model, or another time, is better. */
const SOON_MS = 60_000;

function capacityError(none: None, order: Order): ApiError {
  if (none.needsSomebody) return noAvailableAccount(order.request.publicModel);
  if (none.mayFree && none.freesInMs !== null && none.freesInMs <= SOON_MS) {
    return busyError(none, order, "All of its accounts are cooling down.");
  }
  const when = none.freesInMs === null ? "later" : `in ${Math.ceil(none.freesInMs / 60_000)} min`;
  return new ApiError(
    "server_is_overloaded",
    `Selected model is at capacity. Choose another model, or try again ${when}.`,
  );
}

function waitError(none: None, order: Order, why: string): ApiError {
  return none.needsSomebody ? noAvailableAccount(order.request.publicModel) : busyError(none, order, why);
}

function busyError({ freesInMs }: None, order: Order, why: string): ApiError {
  const seconds = retryAfter(freesInMs);
  return new ApiError(
    "rate_limit_exceeded",
    `The model \`${order.request.publicModel}\` is busy. ${why} Please try again in ${seconds}s.`,
    { headers: { "retry-after": seconds } },
  );
}
