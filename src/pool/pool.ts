/**
 * Selects the account for the next attempt: the best priority with an eligible account; in it the account of the
 * conversation if that is healthy and has a free slot, otherwise the less loaded of two random ones. Never an account
 * that the request has tried.
 */

import { isBlameless, readRetryHint, type UpstreamFailure } from "../accounts/failure.ts";
import { readHeadroom } from "../accounts/rate-limit.ts";
import type { Limiter, LimitLease } from "../limits/limiter.ts";
import type { AnswerHeaders } from "../net/http-client/contract.ts";
import type { Clock } from "../net/wire/clock.ts";
import type { AccountRoute, PolicyAccount } from "../policy/snapshot.ts";
import { findHome, hashAffinity, openHomeAccounts } from "./affinity.ts";
import {
  buildCandidate,
  type Candidate,
  chosenCandidate,
  computeOutlook,
  isFree,
  isTried,
  noteRefusal,
  type Outlook,
  type SelectionRequest,
} from "./eligibility.ts";
import { abandon, begin, park, recordFailure, recordSuccess } from "./health.ts";
import { type AccountReport, buildReport } from "./report.ts";
import { noteFailure, noteHeadroom, noteSuccess } from "./score.ts";
import { isHealthy, openStandings, type PoolSlot } from "./standing.ts";
import { buildTiers, choose, type Tier } from "./tier.ts";

export type { Candidate, IneligibleReason } from "./eligibility.ts";

export interface PickRequest {
  /** One route per account. Derived data is cached per list, so pass the same object again. */
  routes: readonly AccountRoute[];
  tried: ReadonlySet<AccountRoute>;
  /** Scoped to the tenant; null if the request has none. */
  affinity: string | null;
  tokensEstimate: number;
}

export type Choice =
  | {
      kind: "picked";
      route: AccountRoute;
      lease: LimitLease;
      /** Computed when called, from the state at that time. */
      candidates(): Candidate[];
      /** The attempt is a probe: other requests follow if it succeeds. */
      probe: boolean;
    }
  | ({ kind: "none"; candidates(): Candidate[] } & Outlook);

export interface Pool {
  pick(request: PickRequest): Choice;
  /** The attempt is over. Called once for each picked route, before or after `lease.release()`. */
  succeeded(route: AccountRoute, firstByteMs: number, headers: AnswerHeaders | null): void;
  failed(route: AccountRoute, failure: UpstreamFailure): void;
  /** The stored state of the conversation was found at this account and not at its assigned one. */
  moved(routes: readonly AccountRoute[], affinity: string, route: AccountRoute): void;
  /** A started stream reached its end. */
  finished(route: AccountRoute): void;
  /** A started stream broke off: too late for a failover, but it counts against the account. */
  brokeOff(route: AccountRoute, failure: UpstreamFailure): void;
  /** An administrator takes the account out of use in this process, until `forgive`. */
  park(account: PolicyAccount): void;
  /** Credential or settings changed, or an administrator acted: the health of the account is reset. */
  forgive(accountId: string): void;
  /** A new snapshot: drops the state of accounts that are not in it. */
  retain(accounts: ReadonlyMap<string, PolicyAccount>): void;
  describe(route: AccountRoute): Candidate;
  /** Why none of these accounts can take a request now; null if one can. */
  outlook(routes: readonly AccountRoute[]): Outlook | null;
  report(account: PolicyAccount): AccountReport;
  /** Attempts in flight, also of an account that is disabled now. */
  inFlightOf(accountId: string): number;
}

export interface PoolOptions {
  clock: Clock;
  random(): number;
  limiter: Limiter;
}

type Picked = Extract<Choice, { kind: "picked" }>;

/** Below this number, computing the account of a conversation is as cheap as caching it. */
const SLOTS_WORTH_CACHING = 33;
const HOMES_KEPT_HALF = 16_384;
const NONE_TRIED: readonly AccountRoute[] = [];

/** Number of broken streams in a row after which the account cools down. */
const BREAKS_MAX = 3;

export function openPool({ clock, random, limiter }: PoolOptions): Pool {
  const standings = openStandings();
  const tiersByRoutes = new WeakMap<readonly AccountRoute[], readonly Tier[]>();
  const homes = openHomeAccounts<PoolSlot>(HOMES_KEPT_HALF);
  let hasMoved = false;
  let attempts = 0;

  function tiersFor(routes: readonly AccountRoute[]): readonly Tier[] {
    const known = tiersByRoutes.get(routes);
    if (known) return known;
    const built = buildTiers(routes.map(standings.seatOf));
    tiersByRoutes.set(routes, built);
    return built;
  }

  /** The account of the conversation. It depends on health and not on load, so a load peak moves no conversation. */
  function findHomeIn({ seats }: Tier, affinity: string, selection: SelectionRequest): PoolSlot | null {
    const isUsable = (slot: PoolSlot) => isHealthy(slot, selection.nowMs) && !isTried(slot, selection.tried);
    const isFew = seats.length < SLOTS_WORTH_CACHING;
    if (isFew && !hasMoved) return findHome(seats, hashAffinity(affinity), isUsable);
    let found = homes.find(affinity, seats);
    if (found === null && !isFew) {
      found = findHome(seats, hashAffinity(affinity), () => true);
      if (found !== null) homes.keep(affinity, seats, found);
    }
    return found !== null && isUsable(found) ? found : findHome(seats, hashAffinity(affinity), isUsable);
  }

  /** Null if the account's own limits refuse. */
  function take(slot: PoolSlot, tiers: readonly Tier[], selection: SelectionRequest): Picked | null {
    let admitted: LimitLease | null = null;
    if (slot.limited !== null) {
      // Account limits have no money: the spending of an account is a matter between its owner and the upstream.
      const admission = limiter.admit(slot.limited, selection.tokens, 0);
      if (!admission.ok) {
        noteRefusal(slot, admission.shortage, selection);
        return null;
      }
      admitted = admission.lease;
    }
    const attempt = ++attempts;
    const probesAccount = begin(slot.health.circuit, attempt, selection.nowMs);
    const probesModel = begin(slot.lane.circuit, attempt, selection.nowMs);
    const lease = new AttemptLease(slot, admitted, attempt);
    return new PickedSlot(slot, lease, probesAccount || probesModel, tiers, selection, listCandidates);
  }

  function pick(request: PickRequest): Choice {
    const { affinity } = request;
    const selection = buildSelection(request, clock.monotonicMs());
    const tiers = tiersFor(request.routes);
    for (const tier of tiers) {
      const home = affinity === null ? null : findHomeIn(tier, affinity, selection);
      let slot = home !== null && isFree(home, selection) ? home : choose(tier, selection, random);
      // Each refusal adds an obstacle, so this loop ends.
      while (slot !== null) {
        const picked = take(slot, tiers, selection);
        if (picked !== null) return picked;
        slot = choose(tier, selection, random);
      }
    }
    return buildNone(tiers, selection);
  }

  function buildNone(tiers: readonly Tier[], selection: SelectionRequest): Choice {
    const outlook = computeOutlook(
      tiers.flatMap(({ seats }) => seats),
      selection,
    );
    return { kind: "none", candidates: () => listCandidates(tiers, selection, null), ...outlook };
  }

  function listCandidates(
    tiers: readonly Tier[],
    selection: SelectionRequest,
    chosen: PoolSlot | null,
  ): Candidate[] {
    const now = { ...selection, nowMs: clock.monotonicMs() };
    return tiers.flatMap(({ seats }) =>
      seats.map((slot) =>
        slot === chosen ? chosenCandidate(slot, now) : buildCandidate(slot, now, limiter),
      ),
    );
  }

  return {
    pick,
    succeeded(route, firstByteMs, headers) {
      const { health, lane } = standings.seatOf(route);
      const nowMs = clock.monotonicMs();
      recordSuccess(health.circuit, lane.circuit, nowMs);
      noteSuccess(lane.gauge, firstByteMs, nowMs);
      const headroom = headers === null ? null : readHeadroom(headers);
      if (headers === null || headroom === null) return;
      noteHeadroom(lane.gauge, headroom, nowMs);
      lane.told = { headers, atMs: nowMs };
    },
    moved(routes, affinity, route) {
      const slot = standings.seatOf(route);
      const tier = tiersFor(routes).find(({ seats }) => seats.includes(slot));
      if (tier === undefined) return;
      homes.keep(affinity, tier.seats, slot);
      hasMoved = true;
    },
    finished(route) {
      standings.seatOf(route).lane.breaks = 0;
    },
    brokeOff(route, failure) {
      const { health, lane } = standings.seatOf(route);
      const nowMs = clock.monotonicMs();
      noteFailure(lane.gauge, nowMs);
      // A started stream counts as a success, which clears other failures. So broken streams are counted separately.
      if (++lane.breaks < BREAKS_MAX) return;
      lane.breaks = 0;
      lane.circuit.strikes = BREAKS_MAX;
      recordFailure(health.circuit, lane.circuit, { kind: failure.class, hintMs: null }, nowMs, random);
    },
    failed(route, failure) {
      const { health, lane } = standings.seatOf(route);
      const nowMs = clock.monotonicMs();
      const impact = { kind: failure.class, hintMs: readRetryHint(failure, clock.nowMs()) };
      recordFailure(health.circuit, lane.circuit, impact, nowMs, random);
      if (!isBlameless(failure.class)) noteFailure(lane.gauge, nowMs);
    },
    park: (account) => park(standings.circuitOf(account)),
    forgive: standings.forgive,
    retain(accounts) {
      standings.retain(accounts, clock.monotonicMs());
      homes.clear();
      hasMoved = false;
    },
    describe(route) {
      const selection = { tried: NONE_TRIED, tokens: 0, nowMs: clock.monotonicMs(), refused: null };
      return buildCandidate(standings.seatOf(route), selection, limiter);
    },
    outlook(routes) {
      const selection = { tried: NONE_TRIED, tokens: 0, nowMs: clock.monotonicMs(), refused: null };
      const seats = routes.map(standings.seatOf);
      return seats.some((slot) => isFree(slot, selection)) ? null : computeOutlook(seats, selection);
    },
    inFlightOf: standings.inFlightOf,
    report: (account) => buildReport(standings.find(account), clock.monotonicMs()),
  };
}

/** Copies the set, because the caller adds to it later. */
function buildSelection({ tried, tokensEstimate }: PickRequest, nowMs: number): SelectionRequest {
  return {
    tried: tried.size === 0 ? NONE_TRIED : [...tried],
    tokens: tokensEstimate,
    nowMs,
    refused: null,
  };
}

/** A class, so that a choice costs one object and no closures. */
class PickedSlot implements Picked {
  readonly kind = "picked";
  readonly route: AccountRoute;
  readonly lease: LimitLease;
  readonly probe: boolean;
  private readonly seat: PoolSlot;
  private readonly tiers: readonly Tier[];
  private readonly asked: SelectionRequest;
  private readonly list: (
    tiers: readonly Tier[],
    selection: SelectionRequest,
    chosen: PoolSlot,
  ) => Candidate[];

  constructor(
    slot: PoolSlot,
    lease: LimitLease,
    probe: boolean,
    tiers: readonly Tier[],
    selection: SelectionRequest,
    list: PickedSlot["list"],
  ) {
    this.route = slot.route;
    this.lease = lease;
    this.probe = probe;
    this.seat = slot;
    this.tiers = tiers;
    this.asked = selection;
    this.list = list;
  }

  candidates(): Candidate[] {
    return this.list(this.tiers, this.asked, this.seat);
  }
}

/**
 * Counts the attempt as in flight until it ends. If a probe ends without a result, another request can probe. A
 * class, so that an attempt costs one object and no closures.
 */
class AttemptLease implements LimitLease {
  private readonly seat: PoolSlot;
  private readonly admitted: LimitLease | null;
  private readonly attempt: number;
  private isOver = false;

  constructor(slot: PoolSlot, admitted: LimitLease | null, attempt: number) {
    this.seat = slot;
    this.admitted = admitted;
    this.attempt = attempt;
    slot.standing.inFlight++;
  }

  settle(tokens: number | null, nano: number | null): void {
    this.admitted?.settle(tokens, nano);
    this.seat.standing.shortUntilMs = 0;
  }

  release(): void {
    this.end();
    this.admitted?.release();
  }

  cancel(): void {
    this.end();
    this.admitted?.cancel();
    this.seat.standing.shortUntilMs = 0;
  }

  private end(): void {
    if (this.isOver) return;
    this.isOver = true;
    const { standing, health, lane } = this.seat;
    standing.inFlight--;
    abandon(health.circuit, this.attempt);
    abandon(lane.circuit, this.attempt);
  }
}
