/** The account slot of one attempt: taken from the pool or waited for in the queue, and always released. */

import type { UpstreamFailure } from "../../accounts/failure.ts";
import type { MaybePromise } from "../../base/maybe-promise.ts";
import type { ApiError } from "../../errors.ts";
import { NO_AMOUNTS } from "../../limits/amounts.ts";
import type { BorrowRequest, LimitBorrower, QueuedAsk } from "../../limits/borrower/limit-borrower.ts";
import type { LimitLease, TrueUse } from "../../limits/limiter-types.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import type { Choice, PickRequest, Pool } from "../../pool/pool.ts";
import { decideWait, type SelectionVerdict } from "../../pool/wait-decision.ts";
import type { WaitingQueue } from "../../pool/waiting-queue.ts";
import { waitText } from "../admission/caller-limits.ts";
import { type CountedUnits, estimateCounts, findCountedUnits } from "../metering/limited-use.ts";
import { endWait, waitedMs } from "../request/trace.ts";
import type { DispatchRequest } from "./dispatch-request.ts";
import type { NoSlot } from "./no-account.ts";
import { clientGone } from "./send-request.ts";

export interface AccountSlot {
  readonly route: AccountRoute;
  /** Whether its limits are still reserved: see `LimitLease`. */
  isHeld(): boolean;
  /** Ends the attempt, with its use if known. The next request for this account is served at once. */
  release(use: TrueUse | null): void;
  /** Records the use of the attempt once it is known, before or after its end. */
  settle(use: TrueUse): void;
  /** Ends an attempt that failed before any content was delivered. */
  fail(failure: UpstreamFailure): void;
}

type PickedChoice = Extract<Choice, { kind: "picked" }>;
type LackingChoice = Extract<Choice, { kind: "lacking" }>;
type NoChoice = Extract<Choice, { kind: "none" }>;

export interface AccountSlotSource {
  pool: Pool;
  waitingQueue: WaitingQueue;
  /** Null if there is one node. */
  limitBorrower: Pick<LimitBorrower, "borrow" | "queue"> | null;
  monotonicMs(): number;
}

/** An account that this request has not asked for may have become the best one. */
const BORROW_AGAIN_MS = 200;

/** The routes of a publication are immutable, so the result for a list holds as long as the list exists. */
const countedByRoutes = new WeakMap<readonly AccountRoute[], CountedUnits>();

function getCountedUnits(routes: readonly AccountRoute[]): CountedUnits {
  const cached = countedByRoutes.get(routes);
  if (cached !== undefined) return cached;
  const counted = findCountedUnits(routes.map(({ account }) => account.limits));
  countedByRoutes.set(routes, counted);
  return counted;
}

/** What earlier attempts for the request have shown. */
export interface PastFailures {
  readonly tried: ReadonlySet<AccountRoute>;
  /** The error for the client if no other account can be tried. */
  readonly error: ApiError | null;
}

export function takeAccountSlot(
  source: AccountSlotSource,
  dispatchRequest: DispatchRequest,
  failures: PastFailures,
): MaybePromise<AccountSlot | NoSlot> {
  const pickRequest: PickRequest = {
    routes: dispatchRequest.routes,
    tried: failures.tried,
    affinity: dispatchRequest.affinity,
    preferred: dispatchRequest.seals?.issuer ?? null,
    // Account limits have no money: the spending of an account is a matter between its owner and the upstream.
    estimate: estimateCounts(dispatchRequest.request, getCountedUnits(dispatchRequest.routes), 0),
  };
  const first = source.pool.pick(pickRequest);
  recordCandidates(source.pool, dispatchRequest, first);
  switch (first.kind) {
    case "picked":
      return new TakenSlot(source, first);
    case "lacking":
      return borrowSlot(source, dispatchRequest, { pickRequest, first, last: failures.error });
    case "none":
      return waitForSlot(source, dispatchRequest, { pickRequest, first, last: failures.error, lacking: [] });
  }
}

/** Borrows a part of the limits of the best account, or else of the next one. */
async function borrowSlot(
  source: AccountSlotSource,
  dispatchRequest: DispatchRequest,
  { pickRequest, first, last }: { pickRequest: PickRequest; first: LackingChoice; last: ApiError | null },
): Promise<AccountSlot | NoSlot> {
  const { pool, limitBorrower } = source;
  const asked = new Set<string>();
  const lacking: LackingChoice[] = [];
  const request: PickRequest = { ...pickRequest, asked };
  let choice: Choice = first;
  while (choice.kind === "lacking") {
    asked.add(choice.accountId);
    lacking.push(choice);
    let taken: PickedChoice | null = null;
    await limitBorrower?.borrow({
      ...borrowTerms(dispatchRequest, pickRequest, choice),
      attempt() {
        const again = pool.pick(request);
        if (again.kind === "picked") taken = again;
        return again.kind === "picked";
      },
    });
    choice = taken ?? pool.pick(request);
  }
  if (dispatchRequest.client.signal.aborted) {
    if (choice.kind === "picked") choice.lease.cancel();
    throw clientGone();
  }
  recordCandidates(pool, dispatchRequest, choice);
  if (choice.kind === "picked") return new TakenSlot(source, choice);
  return waitForSlot(source, dispatchRequest, { pickRequest: request, first: choice, last, lacking });
}

function borrowTerms(
  { keyId }: DispatchRequest,
  { estimate }: PickRequest,
  { subjects }: LackingChoice,
): Omit<BorrowRequest, "attempt"> {
  return { key: keyId, subjects, use: estimate, leastNano: 0, raises: null };
}

/** While a request waits, the coordinator is asked for all accounts that lack something. */
function queueAsks(
  { pool, waitingQueue, limitBorrower }: AccountSlotSource,
  dispatchRequest: DispatchRequest,
  { pickRequest, lacking }: FailedPick,
): QueuedAsk[] {
  if (limitBorrower === null) return [];
  return lacking.map((choice) =>
    limitBorrower.queue({
      ...borrowTerms(dispatchRequest, pickRequest, choice),
      attempt() {
        pool.noteLimitGain(choice.accountId);
        waitingQueue.serveFreedSlot(choice.accountId);
        return false;
      },
    }),
  );
}

interface FailedPick {
  readonly pickRequest: PickRequest;
  readonly first: NoChoice;
  /** The error of earlier attempts. */
  readonly last: ApiError | null;
  /** Accounts of whose limits this node could not borrow enough. */
  readonly lacking: readonly LackingChoice[];
}

async function waitForSlot(
  source: AccountSlotSource,
  dispatchRequest: DispatchRequest,
  failed: FailedPick,
): Promise<AccountSlot | NoSlot> {
  const { pickRequest, first, last } = failed;
  const { pool, waitingQueue, monotonicMs } = source;
  const startedMs = monotonicMs();
  // All waits of a request together take no longer than the queue timeout of its group.
  const leftMs = dispatchRequest.queue.timeoutMs - waitedMs(dispatchRequest.trace, startedMs);
  const verdict = decideWait(first.obstacles, leftMs);
  if (verdict.waitMs === 0 || isFailingEverywhere(last, verdict)) return { verdict, waited: null };
  const untilMs = startedMs + verdict.waitMs;
  let latest = first;
  dispatchRequest.trace.waitingSinceMs = startedMs;
  const asks = queueAsks(source, dispatchRequest, failed);
  const waited = await waitingQueue.wait<PickedChoice>({
    keyId: dispatchRequest.keyId,
    groupId: dispatchRequest.groupId,
    accountIds: new Set(dispatchRequest.routes.map(({ account }) => account.id)),
    // A request that has waited before does not count against the queue length again.
    maxWaiting:
      dispatchRequest.trace.endedWaitsMs > 0 ? Number.POSITIVE_INFINITY : dispatchRequest.queue.maxWaiting,
    timeoutMs: verdict.waitMs,
    freesInMs: first.freesInMs,
    attempt() {
      const again = pool.pick(pickRequest);
      if (again.kind === "picked") return { taken: again };
      if (again.kind === "lacking") return { freesInMs: BORROW_AGAIN_MS };
      latest = again;
      const isHopeless = decideWait(again.obstacles, untilMs - monotonicMs()).waitMs === 0;
      return isHopeless ? "hopeless" : { freesInMs: again.freesInMs };
    },
    clientSignal: (dispatchRequest.client.realClient ?? dispatchRequest.client).signal,
  });
  for (const ask of asks) ask.stop();
  endWait(dispatchRequest.trace, monotonicMs());
  switch (waited.kind) {
    case "served":
      recordCandidates(pool, dispatchRequest, waited.value);
      return new TakenSlot(source, waited.value);
    case "left":
      throw clientGone();
    case "full":
      return { verdict, waited: fullText(dispatchRequest.queue.maxWaiting) };
    case "hopeless":
      recordCandidates(pool, dispatchRequest, latest);
      return { verdict: decideWait(latest.obstacles, 0), waited: null };
    case "timeout": {
      // This last pick also returns when the next slot comes free, for `Retry-After`.
      const final = pool.pick(pickRequest);
      if (final.kind === "picked") return new TakenSlot(source, final);
      if (final.kind === "none") latest = final;
      recordCandidates(pool, dispatchRequest, latest);
      const waited = `No account became available within ${waitText(dispatchRequest.queue.timeoutMs)}.`;
      return { verdict: decideWait(latest.obstacles, 0), waited };
    }
  }
}

/**
 * One account of this request has failed and the others are failing too, so the client receives that failure at once. A
 * "not found" does not count: another account may have what the request names.
 */
function isFailingEverywhere(last: ApiError | null, { reason }: SelectionVerdict): boolean {
  return last !== null && last.status !== 404 && reason === "failing";
}

/** Describing candidates takes microseconds for a few. Above this number only the picked one is. */
const DESCRIBED_CANDIDATES_MAX = 12;
/** If no slot could be taken the reasons matter, but a trace needs no more than this many. */
const REJECTED_CANDIDATES_MAX = 50;

function recordCandidates(pool: Pool, dispatchRequest: DispatchRequest, pick: Choice): void {
  if (pick.kind === "lacking") return;
  if (pick.kind === "none")
    dispatchRequest.trace.candidates = pick.candidates().slice(0, REJECTED_CANDIDATES_MAX);
  else if (dispatchRequest.routes.length > DESCRIBED_CANDIDATES_MAX)
    dispatchRequest.trace.candidates = [pool.describe(pick.route)];
  else if (dispatchRequest.routes.length > 1) dispatchRequest.trace.candidates = pick.candidates();
}

/** A class, because one object per request is cheaper than closures. */
class TakenSlot implements AccountSlot {
  readonly route: AccountRoute;
  readonly #source: AccountSlotSource;
  readonly #lease: LimitLease;
  #isOver = false;

  constructor(source: AccountSlotSource, { route, lease }: PickedChoice) {
    this.#source = source;
    this.route = route;
    this.#lease = lease;
  }

  isHeld(): boolean {
    return this.#lease.isHeld();
  }

  release(use: TrueUse | null): void {
    if (this.#isOver) return;
    this.#isOver = true;
    if (use !== null) this.#lease.settle(use);
    this.#lease.release();
    this.#source.waitingQueue.serveFreedSlot(this.route.account.id);
  }

  settle(use: TrueUse): void {
    this.#lease.settle(use);
  }

  fail(failure: UpstreamFailure): void {
    this.#source.pool.recordFailure(this.route, failure);
    this.release(NO_AMOUNTS);
  }
}

function fullText(maxWaiting: number): string {
  return maxWaiting === 0
    ? "All accounts for this model are busy, and queueing is disabled for your group."
    : `The queue of your group is full (${maxWaiting} requests).`;
}
