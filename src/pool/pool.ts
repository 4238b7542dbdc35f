/**
 * Which account next. The best priority that has an eligible account; in it the conversation's own account while
 * that is well and has a place; else the less loaded of two drawn by lot. Never one that the request has tried.
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
  /** One route an account. What is worked out for a list is kept with it: pass the same object again. */
  routes: readonly AccountRoute[];
  tried: ReadonlySet<AccountRoute>;
  /** Tenant-scoped; null when the request has none. */
  affinity: string | null;
  tokensEstimate: number;
}

export type Choice =
  | {
      kind: "picked";
      route: AccountRoute;
      lease: LimitLease;
      /** Worked out when called, as things stand then. */
      candidates(): Candidate[];
      /** It is a probe: others follow if it succeeds. */
      probe: boolean;
    }
  | ({ kind: "none"; candidates(): Candidate[] } & Outlook);

export interface Pool {
  pick(request: PickRequest): Choice;
  /** The attempt is over (called once for each picked route, before or after `lease.release()`). */
  succeeded(route: AccountRoute, firstByteMs: number, headers: AnswerHeaders | null): void;
  failed(route: AccountRoute, failure: UpstreamFailure): void;
  /** What the conversation refers to was found at this account, and not where it was thought to live. */
  moved(routes: readonly AccountRoute[], affinity: string, route: AccountRoute): void;
  /** A stream that had begun came to its end. */
  finished(route: AccountRoute): void;
  /** A stream that had begun broke off: too late for another account, but the next request should be spared it. */
  brokeOff(route: AccountRoute, failure: UpstreamFailure): void;
  /** An administrator takes it out of use in this process, until it is forgiven. */
  park(account: PolicyAccount): void;
  /** Credential or settings changed, or an administrator acted: the account starts afresh. */
  forgive(accountId: string): void;
  /** A new snapshot: what is known of accounts that are not in it is dropped. */
  retain(accounts: ReadonlyMap<string, PolicyAccount>): void;
  describe(route: AccountRoute): Candidate;
  /** Why none of these accounts can take a request now; null if one can. */
  outlook(routes: readonly AccountRoute[]): Outlook | null;
  report(account: PolicyAccount): AccountReport;
  /** Attempts under way, also of an account that is disabled by now. */
  inFlightOf(accountId: string): number;
}

export interface PoolOptions {
  clock: Clock;
  random(): number;
  limiter: Limiter;
}

type Picked = Extract<Choice, { kind: "picked" }>;

/** Among fewer, finding a conversation's home costs no more than remembering it. */
const SEATS_WORTH_REMEMBERING = 33;
const HOMES_KEPT_HALF = 16_384;
const NONE_TRIED: readonly AccountRoute[] = [];

/** So many streams in a row may break off before the account is left alone for a while. */
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
    const made = buildTiers(routes.map(standings.seatOf));
    tiersByRoutes.set(routes, made);
    return made;
  }

  /** Where the conversation lives. It depends on who is well, never on who is busy, so that a rush moves nobody. */
  function homeIn({ seats }: Tier, affinity: string, asked: SelectionRequest): PoolSlot | null {
    const mayLive = (seat: PoolSlot) => isHealthy(seat, asked.nowMs) && !isTried(seat, asked.tried);
    const isFew = seats.length < SEATS_WORTH_REMEMBERING;
    if (isFew && !hasMoved) return findHome(seats, hashAffinity(affinity), mayLive);
    let found = homes.find(affinity, seats);
    if (found === null && !isFew) {
      found = findHome(seats, hashAffinity(affinity), () => true);
      if (found !== null) homes.keep(affinity, seats, found);
    }
    return found !== null && mayLive(found) ? found : findHome(seats, hashAffinity(affinity), mayLive);
  }

  /** Null when the account's own limits refuse. */
  function take(seat: PoolSlot, tiers: readonly Tier[], asked: SelectionRequest): Picked | null {
    let admitted: LimitLease | null = null;
    if (seat.limited !== null) {
      // What an account may spend is between its owner and the upstream: its limits have no money.
      const admission = limiter.admit(seat.limited, asked.tokens, 0);
      if (!admission.ok) {
        noteRefusal(seat, admission.shortage, asked);
        return null;
      }
      admitted = admission.lease;
    }
    const attempt = ++attempts;
    const probesAccount = begin(seat.health.circuit, attempt, asked.nowMs);
    const probesModel = begin(seat.lane.circuit, attempt, asked.nowMs);
    const lease = new AttemptLease(seat, admitted, attempt);
    return new TakenSeat(seat, lease, probesAccount || probesModel, tiers, asked, listed);
  }

  function pick(request: PickRequest): Choice {
    const { affinity } = request;
    const asked = askedBy(request, clock.monotonicMs());
    const tiers = tiersFor(request.routes);
    for (const tier of tiers) {
      const home = affinity === null ? null : homeIn(tier, affinity, asked);
      let seat = home !== null && isFree(home, asked) ? home : choose(tier, asked, random);
      // Each refusal adds an obstacle, so this ends.
      while (seat !== null) {
        const taken = take(seat, tiers, asked);
        if (taken !== null) return taken;
        seat = choose(tier, asked, random);
      }
    }
    return nothing(tiers, asked);
  }

  function nothing(tiers: readonly Tier[], asked: SelectionRequest): Choice {
    const outlook = computeOutlook(
      tiers.flatMap(({ seats }) => seats),
      asked,
    );
    return { kind: "none", candidates: () => listed(tiers, asked, null), ...outlook };
  }

  function listed(tiers: readonly Tier[], asked: SelectionRequest, chosen: PoolSlot | null): Candidate[] {
    const now = { ...asked, nowMs: clock.monotonicMs() };
    return tiers.flatMap(({ seats }) =>
      seats.map((seat) =>
        seat === chosen ? chosenCandidate(seat, now) : buildCandidate(seat, now, limiter),
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
      const seat = standings.seatOf(route);
      const tier = tiersFor(routes).find(({ seats }) => seats.includes(seat));
      if (tier === undefined) return;
      homes.keep(affinity, tier.seats, seat);
      hasMoved = true;
    },
    finished(route) {
      standings.seatOf(route).lane.breaks = 0;
    },
    brokeOff(route, failure) {
      const { health, lane } = standings.seatOf(route);
      const nowMs = clock.monotonicMs();
      noteFailure(lane.gauge, nowMs);
      // Each of them began well, which clears other failures of the account: so broken streams are counted separately.
      if (++lane.breaks < BREAKS_MAX) return;
      lane.breaks = 0;
      lane.circuit.strikes = BREAKS_MAX;
      recordFailure(health.circuit, lane.circuit, { kind: failure.class, hintMs: null }, nowMs, random);
    },
    failed(route, failure) {
      const { health, lane } = standings.seatOf(route);
      const nowMs = clock.monotonicMs();
      const blow = { kind: failure.class, hintMs: readRetryHint(failure, clock.nowMs()) };
      recordFailure(health.circuit, lane.circuit, blow, nowMs, random);
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
      const asked = { tried: NONE_TRIED, tokens: 0, nowMs: clock.monotonicMs(), refused: null };
      return buildCandidate(standings.seatOf(route), asked, limiter);
    },
    outlook(routes) {
      const asked = { tried: NONE_TRIED, tokens: 0, nowMs: clock.monotonicMs(), refused: null };
      const seats = routes.map(standings.seatOf);
      return seats.some((seat) => isFree(seat, asked)) ? null : computeOutlook(seats, asked);
    },
    inFlightOf: standings.inFlightOf,
    report: (account) => buildReport(standings.find(account), clock.monotonicMs()),
  };
}

/** The caller adds to its set as it goes on: what this choice knew is copied. */
function askedBy({ tried, tokensEstimate }: PickRequest, nowMs: number): SelectionRequest {
  return {
    tried: tried.size === 0 ? NONE_TRIED : [...tried],
    tokens: tokensEstimate,
    nowMs,
    refused: null,
  };
}

/** A class, so that a choice costs one object and no closures. */
class TakenSeat implements Picked {
  readonly kind = "picked";
  readonly route: AccountRoute;
  readonly lease: LimitLease;
  readonly probe: boolean;
  private readonly seat: PoolSlot;
  private readonly tiers: readonly Tier[];
  private readonly asked: SelectionRequest;
  private readonly list: (tiers: readonly Tier[], asked: SelectionRequest, chosen: PoolSlot) => Candidate[];

  constructor(
    seat: PoolSlot,
    lease: LimitLease,
    probe: boolean,
    tiers: readonly Tier[],
    asked: SelectionRequest,
    list: TakenSeat["list"],
  ) {
    this.route = seat.route;
    this.lease = lease;
    this.probe = probe;
    this.seat = seat;
    this.tiers = tiers;
    this.asked = asked;
    this.list = list;
  }

  candidates(): Candidate[] {
    return this.list(this.tiers, this.asked, this.seat);
  }
}

/**
 * Counts the attempt as under way until it is over, and lets another probe if this one ends without a word. A class, so
 * that an attempt costs one object and no closures.
 */
class AttemptLease implements LimitLease {
  private readonly seat: PoolSlot;
  private readonly admitted: LimitLease | null;
  private readonly attempt: number;
  private isOver = false;

  constructor(seat: PoolSlot, admitted: LimitLease | null, attempt: number) {
    this.seat = seat;
    this.admitted = admitted;
    this.attempt = attempt;
    seat.standing.inFlight++;
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
