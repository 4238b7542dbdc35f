/** The account slot of one attempt: taken from the pool or waited for in the queue, and always released. */

import type { UpstreamFailure } from "../../accounts/failure.ts";
import type { ApiError } from "../../errors.ts";
import type { LimitLease } from "../../limits/limiter.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import { decide } from "../../pool/outlook.ts";
import type { Choice, PickRequest, Pool } from "../../pool/pool.ts";
import type { WaitingQueue } from "../../pool/waiting-queue.ts";
import { waitText } from "../admission/caller-limits.ts";
import { endWait, failAttempt, waitedMs } from "../request/trace.ts";
import type { UpstreamAttempt } from "./attempt.ts";
import { hasUpstreamResponse, rejectAfterWait, rejectNow, withRetryTime } from "./no-account.ts";
import { clientGone } from "./send-request.ts";

export interface AccountSlot {
  readonly route: AccountRoute;
  /**
   * Ends the attempt, with its tokens if they are known. The next request that waits for this account is served at
   * once.
   */
  release(tokens: number | null): void;
  /** Records the tokens of the attempt once they are known, before or after its end. */
  settle(tokens: number): void;
  /** Ends an attempt that failed before any content was delivered. */
  abandon(failure: UpstreamFailure): void;
}

type PickedChoice = Extract<Choice, { kind: "picked" }>;
type NoChoice = Extract<Choice, { kind: "none" }>;

/** Where account slots are taken from. */
export interface AccountSlotSource {
  pool: Pool;
  room: WaitingQueue;
  monotonicMs(): number;
}

/** The routes of a publication are immutable, so the result for a list holds as long as the list exists. */
const tokenLimits = new WeakMap<readonly AccountRoute[], boolean>();

function limitTokens(routes: readonly AccountRoute[]): boolean {
  const cached = tokenLimits.get(routes);
  if (cached !== undefined) return cached;
  const hasTokenLimit = routes.some(({ account }) => account.limits.tpm !== null);
  tokenLimits.set(routes, hasTokenLimit);
  return hasTokenLimit;
}

/** `last` is the error for the client if no other account can be tried. */
export function takeAccountSlot(
  source: AccountSlotSource,
  attempt: UpstreamAttempt,
  tried: ReadonlySet<AccountRoute>,
  last: ApiError | null,
): AccountSlot | Promise<AccountSlot> {
  const pickRequest: PickRequest = {
    routes: attempt.routes,
    tried,
    affinity: attempt.affinity,
    tokensEstimate: limitTokens(attempt.routes) ? attempt.request.tokensEstimate() : 0,
  };
  const first = source.pool.pick(pickRequest);
  recordCandidates(source.pool, attempt, first);
  return first.kind === "picked"
    ? new TakenSlot(source, attempt, first)
    : waitForSlot(source, attempt, pickRequest, first, last);
}

async function waitForSlot(
  source: AccountSlotSource,
  attempt: UpstreamAttempt,
  pickRequest: PickRequest,
  first: NoChoice,
  last: ApiError | null,
): Promise<AccountSlot> {
  const { pool, room, monotonicMs } = source;
  const startedMs = monotonicMs();
  // All waits of a request together take no longer than the queue timeout of its group.
  const leftMs = attempt.queue.timeoutMs - waitedMs(attempt.trace, startedMs);
  const verdict = decide(first.obstacles, leftMs);
  if (verdict.waitMs === 0 || hasUpstreamResponse(last, verdict)) {
    throw withRetryTime(rejectNow(verdict, attempt, last), pool, attempt);
  }
  const untilMs = startedMs + verdict.waitMs;
  let latest = first;
  attempt.trace.waitingSinceMs = startedMs;
  const waited = await room.wait<PickedChoice>({
    keyId: attempt.keyId,
    groupId: attempt.groupId,
    accountIds: new Set(attempt.routes.map(({ account }) => account.id)),
    // A request that has waited before does not count against the queue length again.
    maxWaiting: attempt.trace.endedWaitsMs > 0 ? Number.POSITIVE_INFINITY : attempt.queue.maxWaiting,
    timeoutMs: verdict.waitMs,
    freesInMs: first.freesInMs,
    attempt() {
      const again = pool.pick(pickRequest);
      if (again.kind === "picked") return { taken: again };
      latest = again;
      const isHopeless = decide(again.obstacles, untilMs - monotonicMs()).waitMs === 0;
      return isHopeless ? "hopeless" : { freesInMs: again.freesInMs };
    },
    left: (attempt.client.inPerson ?? attempt.client).signal,
  });
  endWait(attempt.trace, monotonicMs());
  switch (waited.kind) {
    case "served":
      recordCandidates(pool, attempt, waited.value);
      return new TakenSlot(source, attempt, waited.value);
    case "left":
      throw clientGone();
    case "full":
      throw rejectAfterWait(verdict, attempt, last, fullText(attempt.queue.maxWaiting));
    case "hopeless":
      recordCandidates(pool, attempt, latest);
      throw withRetryTime(rejectNow(decide(latest.obstacles, 0), attempt, last), pool, attempt);
    case "timeout": {
      // This last pick also returns when the next slot comes free, for `Retry-After`.
      const final = pool.pick(pickRequest);
      if (final.kind === "picked") return new TakenSlot(source, attempt, final);
      recordCandidates(pool, attempt, final);
      const detail = `No place came free within ${waitText(attempt.queue.timeoutMs)}.`;
      throw rejectAfterWait(decide(final.obstacles, 0), attempt, last, detail);
    }
  }
}

/**
 * Describing all candidates takes microseconds for a few of them. Above this number only the picked one is described.
 */
const DESCRIBED_CANDIDATES_MAX = 12;
/** If no slot could be taken the reasons matter, but a trace needs no more than this many. */
const REJECTED_CANDIDATES_MAX = 50;

function recordCandidates(pool: Pool, attempt: UpstreamAttempt, pick: Choice): void {
  if (pick.kind === "none") attempt.trace.candidates = pick.candidates().slice(0, REJECTED_CANDIDATES_MAX);
  else if (attempt.routes.length > DESCRIBED_CANDIDATES_MAX)
    attempt.trace.candidates = [pool.describe(pick.route)];
  else if (attempt.routes.length > 1) attempt.trace.candidates = pick.candidates();
}

/** A class, because one object per request is cheaper than closures. */
class TakenSlot implements AccountSlot {
  readonly route: AccountRoute;
  private readonly source: AccountSlotSource;
  private readonly order: UpstreamAttempt;
  private readonly lease: LimitLease;
  private isOver = false;

  constructor(source: AccountSlotSource, attempt: UpstreamAttempt, { route, lease }: PickedChoice) {
    this.source = source;
    this.order = attempt;
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
