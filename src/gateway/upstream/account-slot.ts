/** A place at an account, for one attempt: taken from the pool, or waited for in line, and always given back. */

import type { UpstreamFailure } from "../../accounts/failure.ts";
import type { ApiError } from "../../errors.ts";
import type { LimitLease } from "../../limits/limiter.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import { decide } from "../../pool/outlook.ts";
import type { Choice, PickRequest, Pool } from "../../pool/pool.ts";
import type { WaitingQueue } from "../../pool/waiting.ts";
import { waitText } from "../admission/caller-limits.ts";
import { endWait, failAttempt, waitedMs } from "../request/trace.ts";
import type { UpstreamAttempt } from "./attempt.ts";
import { isAnswered, rejectAfterWait, rejectNow, withRetryTime } from "./no-account.ts";
import { clientGone } from "./send-request.ts";

export interface AccountSlot {
  readonly route: AccountRoute;
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
export interface AccountSlotSource {
  pool: Pool;
  room: WaitingQueue;
  monotonicMs(): number;
}

/** Routes are made once for a publication, so what was found for a list stays true as long as it lives. */
const tokenLimits = new WeakMap<readonly AccountRoute[], boolean>();

function limitTokens(routes: readonly AccountRoute[]): boolean {
  const known = tokenLimits.get(routes);
  if (known !== undefined) return known;
  const found = routes.some(({ account }) => account.limits.tpm !== null);
  tokenLimits.set(routes, found);
  return found;
}

/** `last` is what the client is told if nothing else can be tried. */
export function takeAccountSlot(
  source: AccountSlotSource,
  order: UpstreamAttempt,
  tried: ReadonlySet<AccountRoute>,
  last: ApiError | null,
): AccountSlot | Promise<AccountSlot> {
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
  source: AccountSlotSource,
  order: UpstreamAttempt,
  wanted: PickRequest,
  first: None,
  last: ApiError | null,
): Promise<AccountSlot> {
  const { pool, room, monotonicMs } = source;
  const startedMs = monotonicMs();
  // All waits of a request together take no longer than its group allows.
  const leftMs = order.queue.timeoutMs - waitedMs(order.trace, startedMs);
  const verdict = decide(first.obstacles, leftMs);
  if (verdict.waitMs === 0 || isAnswered(last, verdict)) {
    throw withRetryTime(rejectNow(verdict, order, last), pool, order);
  }
  const untilMs = startedMs + verdict.waitMs;
  let latest = first;
  order.trace.waitingSinceMs = startedMs;
  const waited = await room.wait<Picked>({
    keyId: order.keyId,
    groupId: order.groupId,
    accountIds: new Set(order.routes.map(({ account }) => account.id)),
    // A request that has waited before keeps its right to wait.
    maxWaiting: order.trace.endedWaitsMs > 0 ? Number.POSITIVE_INFINITY : order.queue.maxWaiting,
    timeoutMs: verdict.waitMs,
    freesInMs: first.freesInMs,
    attempt() {
      const again = pool.pick(wanted);
      if (again.kind === "picked") return { taken: again };
      latest = again;
      const isHopeless = decide(again.obstacles, untilMs - monotonicMs()).waitMs === 0;
      return isHopeless ? "hopeless" : { freesInMs: again.freesInMs };
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
      throw rejectAfterWait(verdict, order, last, fullText(order.queue.maxWaiting));
    case "hopeless":
      noteWeighed(pool, order, latest);
      throw withRetryTime(rejectNow(decide(latest.obstacles, 0), order, last), pool, order);
    case "timeout": {
      // This last look also says when to come back.
      const final = pool.pick(wanted);
      if (final.kind === "picked") return new TakenPlace(source, order, final);
      noteWeighed(pool, order, final);
      const why = `No place came free within ${waitText(order.queue.timeoutMs)}.`;
      throw rejectAfterWait(decide(final.obstacles, 0), order, last, why);
    }
  }
}

/** Describing all candidates takes microseconds among few; among hundreds, only the one that was taken is described. */
const WEIGHED_MAX = 12;
/** Where nothing could be taken the reasons matter, but nobody reads hundreds of them. */
const REFUSED_MAX = 50;

function noteWeighed(pool: Pool, order: UpstreamAttempt, pick: Choice): void {
  if (pick.kind === "none") order.trace.candidates = pick.candidates().slice(0, REFUSED_MAX);
  else if (order.routes.length > WEIGHED_MAX) order.trace.candidates = [pool.describe(pick.route)];
  else if (order.routes.length > 1) order.trace.candidates = pick.candidates();
}

/** A class, so that the usual request costs one object here and no closures. */
class TakenPlace implements AccountSlot {
  readonly route: AccountRoute;
  private readonly source: AccountSlotSource;
  private readonly order: UpstreamAttempt;
  private readonly lease: LimitLease;
  private isOver = false;

  constructor(source: AccountSlotSource, order: UpstreamAttempt, { route, lease }: Picked) {
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
