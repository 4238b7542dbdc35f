/**
 * Selects the account for the next attempt: the best priority with an eligible account; in it the account of the
 * conversation if that is healthy and has a free slot, otherwise the less loaded of two random ones. Never an account
 * that the request has tried.
 */

import type { PolicyAccount } from "../accounts/account.ts";
import { isBlameless, readRetryHint, type UpstreamFailure } from "../accounts/failure.ts";
import { readHeadroom } from "../accounts/rate-limit.ts";
import type { Clock } from "../base/clock.ts";
import { NO_AMOUNTS } from "../limits/amounts.ts";
import type { EstimatedUse, Limiter, LimitLease, Subject } from "../limits/limiter-types.ts";
import type { ResponseHeaders } from "../net/http-client/contract.ts";
import type { AccountRoute } from "../policy/snapshot.ts";
import { AccountStates, isHealthy, type PoolSlot } from "./account-state.ts";
import { findHome, hashAffinity, openHomeAccounts } from "./affinity.ts";
import { AttemptLease } from "./attempt-lease.ts";
import {
  buildCandidate,
  type Candidate,
  chosenCandidate,
  computeUnavailability,
  isFree,
  isTried,
  noteRejection,
  type SelectionRequest,
  type Unavailability,
} from "./eligibility.ts";
import { begin, type FailureImpact, park, recordFailure, recordSuccess } from "./health.ts";
import { type AccountReport, buildReport } from "./health-report.ts";
import { noteFailure, noteHeadroom, noteSuccess } from "./score.ts";
import {
  applyReport,
  captureHealth,
  type HealthObserver,
  type HealthReport,
  HealthReporter,
} from "./shared-health.ts";
import { buildTiers, choose, type Tier } from "./tier.ts";

export type { Candidate, IneligibleReason } from "./eligibility.ts";

export interface PickRequest {
  /** One route per account. Derived data is cached per list, so pass the same object again. */
  routes: readonly AccountRoute[];
  tried: ReadonlySet<AccountRoute>;
  /** Scoped to the tenant; null if the request has none. */
  affinity: string | null;
  /** The account that is taken first among those of its priority; null if there is none. */
  preferred?: AccountRoute | null;
  /** What the limits of the accounts count. */
  estimate: EstimatedUse;
  /** Ids of the accounts whose limits this request has tried to borrow. */
  asked?: ReadonlySet<string>;
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
  /** This node has to borrow a part of the limits of the best account. */
  | { kind: "lacking"; accountId: string; subjects: readonly [Subject] }
  | ({ kind: "none"; candidates(): Candidate[] } & Unavailability);

export interface Pool {
  pick(request: PickRequest): Choice;
  /** The attempt is over. Called once for each picked route, before or after `lease.release()`. */
  recordSuccess(route: AccountRoute, firstByteMs: number, headers: ResponseHeaders | null): void;
  recordFailure(route: AccountRoute, failure: UpstreamFailure): void;
  /** The stored state of the conversation was found at this account and not at its assigned one. */
  moveConversation(routes: readonly AccountRoute[], affinity: string, route: AccountRoute): void;
  recordStreamEnd(route: AccountRoute): void;
  /** A started stream broke off: too late for a failover, but it counts against the account. */
  recordBrokenStream(route: AccountRoute, failure: UpstreamFailure): void;
  /** An administrator takes the account out of use, until `resetHealth`. */
  park(account: PolicyAccount): void;
  /** Credential or settings changed, or an administrator acted: the health of the account is reset. */
  resetHealth(accountId: string): void;
  /** Another node reports the health of an account, or of a model on it. */
  applyReport(account: PolicyAccount, model: string | null, received: ReceivedReport): void;
  /** From now on, changes of health that other nodes must know are reported. */
  observeHealth(observer: HealthObserver): void;
  /** A new snapshot: drops the state of accounts that are not in it. */
  retain(accounts: ReadonlyMap<string, PolicyAccount>): void;
  describe(route: AccountRoute): Candidate;
  /** Why none of these accounts can take a request now; null if one can. */
  findUnavailability(routes: readonly AccountRoute[]): Unavailability | null;
  report(account: PolicyAccount): AccountReport;
  /** This node may use more of the account's own limits than before. */
  noteLimitGain(accountId: string): void;
  /** Attempts in flight, also of an account that is disabled now. */
  countInFlight(accountId: string): number;
}

interface PoolOptions {
  clock: Clock;
  random(): number;
  limiter: Limiter;
}

interface ReceivedReport {
  readonly report: HealthReport;
  /** How long this node leaves a probe to others. */
  readonly probeDelayMs: number;
}

type Picked = Extract<Choice, { kind: "picked" }>;
type Lacking = Extract<Choice, { kind: "lacking" }>;

/** Below this number, computing the account of a conversation is as cheap as caching it. */
const SLOTS_WORTH_CACHING = 33;
const CACHED_HOMES_HALF = 16_384;
const NONE_TRIED: readonly AccountRoute[] = [];

/** Number of broken streams in a row after which the account cools down. */
const BROKEN_STREAMS_MAX = 3;

export function openPool(options: PoolOptions): Pool {
  return new AccountPool(options);
}

class AccountPool implements Pool {
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #limiter: Limiter;
  readonly #states = new AccountStates();
  readonly #tiersByRoutes = new WeakMap<readonly AccountRoute[], readonly Tier[]>();
  /** The accounts of conversations that are cached, or that are not the computed ones. */
  readonly #homes = openHomeAccounts<PoolSlot>(CACHED_HOMES_HALF);
  #hasMovedConversations = false;
  #attempts = 0;
  /** Null if no other node uses the accounts. */
  #reporter: HealthReporter | null = null;

  constructor({ clock, random, limiter }: PoolOptions) {
    this.#clock = clock;
    this.#random = random;
    this.#limiter = limiter;
  }

  pick(request: PickRequest): Choice {
    const { affinity } = request;
    const selection = buildSelection(request, this.#clock.monotonicMs());
    const tiers = this.#getTiers(request.routes);
    const preferred = request.preferred ? this.#states.getSlot(request.preferred) : null;
    for (const tier of tiers) {
      if (preferred?.route.account.priority === tier.priority && isFree(preferred, selection)) {
        const picked = this.#take(preferred, tiers, selection);
        if (picked !== null) return picked;
      }
      const home = affinity === null ? null : this.#findHome(tier, affinity, selection);
      let slot = home !== null && isFree(home, selection) ? home : choose(tier, selection, this.#random);
      // Each rejection adds an obstacle, so this loop ends.
      while (slot !== null) {
        const picked = this.#take(slot, tiers, selection);
        if (picked !== null) return picked;
        slot = choose(tier, selection, this.#random);
      }
    }
    return this.#buildNone(tiers, selection);
  }

  #getTiers(routes: readonly AccountRoute[]): readonly Tier[] {
    const existing = this.#tiersByRoutes.get(routes);
    if (existing) return existing;
    const tiers = buildTiers(routes.map((route) => this.#states.getSlot(route)));
    this.#tiersByRoutes.set(routes, tiers);
    return tiers;
  }

  /** The account of the conversation. It depends on health and not on load, so a load peak moves no conversation. */
  #findHome({ slots }: Tier, affinity: string, selection: SelectionRequest): PoolSlot | null {
    const isUsable = (slot: PoolSlot) => isHealthy(slot, selection.nowMs) && !isTried(slot, selection.tried);
    const isFew = slots.length < SLOTS_WORTH_CACHING;
    if (isFew && !this.#hasMovedConversations) return findHome(slots, hashAffinity(affinity), isUsable);
    let home = this.#homes.find(affinity, slots);
    if (home === null && !isFew) {
      home = findHome(slots, hashAffinity(affinity), () => true);
      if (home !== null) this.#homes.set(affinity, slots, home);
    }
    return home !== null && isUsable(home) ? home : findHome(slots, hashAffinity(affinity), isUsable);
  }

  /** Null if the account's own limits reject. */
  #take(slot: PoolSlot, tiers: readonly Tier[], selection: SelectionRequest): Picked | Lacking | null {
    let admitted: LimitLease | null = null;
    if (slot.limited !== null) {
      const admission = this.#limiter.admit(slot.limited, selection.estimate);
      if (!admission.ok) {
        const { id } = slot.route.account;
        if (admission.mayGrow && !selection.asked?.has(id))
          return { kind: "lacking", accountId: id, subjects: slot.limited };
        noteRejection(slot, admission.shortage, selection);
        return null;
      }
      admitted = admission.lease;
    }
    const attempt = ++this.#attempts;
    const probesAccount = begin(slot.health.circuit, attempt, selection.nowMs);
    const probesModel = begin(slot.model.circuit, attempt, selection.nowMs);
    const probe = probesAccount || probesModel;
    const lease = new AttemptLease(slot, admitted, attempt);
    if (probe && this.#reporter !== null) lease.reportProbe(this.#reporter);
    return new PickedSlot({ slot, lease, probe, tiers, selection, pool: this });
  }

  #buildNone(tiers: readonly Tier[], selection: SelectionRequest): Choice {
    const unavailability = computeUnavailability(
      tiers.flatMap(({ slots }) => slots),
      selection,
    );
    return { kind: "none", candidates: () => this.listCandidates(tiers, selection, null), ...unavailability };
  }

  listCandidates(tiers: readonly Tier[], selection: SelectionRequest, chosen: PoolSlot | null): Candidate[] {
    const now = { ...selection, nowMs: this.#clock.monotonicMs() };
    return tiers.flatMap(({ slots }) =>
      slots.map((slot) =>
        slot === chosen ? chosenCandidate(slot, now) : buildCandidate(slot, now, this.#limiter),
      ),
    );
  }

  recordSuccess(route: AccountRoute, firstByteMs: number, headers: ResponseHeaders | null): void {
    const slot = this.#states.getSlot(route);
    const { health, model } = slot;
    const nowMs = this.#clock.monotonicMs();
    if (health.circuit.untilMs === 0 && model.circuit.untilMs === 0) {
      recordSuccess(health.circuit, model.circuit, nowMs);
    } else {
      const before = captureHealth(slot);
      recordSuccess(health.circuit, model.circuit, nowMs);
      this.#reporter?.reportChanges(slot, before, nowMs);
    }
    noteSuccess(model.gauge, firstByteMs, nowMs);
    const headroom = headers === null ? null : readHeadroom(headers);
    if (headers === null || headroom === null) return;
    noteHeadroom(model.gauge, headroom, nowMs);
    model.lastRateLimits = { headers, atMs: nowMs };
  }

  recordFailure(route: AccountRoute, failure: UpstreamFailure): void {
    const slot = this.#states.getSlot(route);
    const nowMs = this.#clock.monotonicMs();
    this.#strike(slot, { kind: failure.class, hintMs: readRetryHint(failure, this.#clock.nowMs()) }, nowMs);
    if (!isBlameless(failure.class)) noteFailure(slot.model.gauge, nowMs);
  }

  #strike(slot: PoolSlot, impact: FailureImpact, nowMs: number): void {
    const before = captureHealth(slot);
    recordFailure(slot.health.circuit, slot.model.circuit, impact, nowMs, this.#random);
    this.#reporter?.reportChanges(slot, before, nowMs);
  }

  recordStreamEnd(route: AccountRoute): void {
    this.#states.getSlot(route).model.brokenStreams = 0;
  }

  recordBrokenStream(route: AccountRoute, failure: UpstreamFailure): void {
    const slot = this.#states.getSlot(route);
    const { model } = slot;
    const nowMs = this.#clock.monotonicMs();
    noteFailure(model.gauge, nowMs);
    // A started stream counts as a success, which clears other failures. So broken streams are counted separately.
    if (++model.brokenStreams < BROKEN_STREAMS_MAX) return;
    model.brokenStreams = 0;
    model.circuit.strikes = BROKEN_STREAMS_MAX;
    this.#strike(slot, { kind: failure.class, hintMs: null }, nowMs);
  }

  moveConversation(routes: readonly AccountRoute[], affinity: string, route: AccountRoute): void {
    const slot = this.#states.getSlot(route);
    const tier = this.#getTiers(routes).find(({ slots }) => slots.includes(slot));
    if (tier === undefined) return;
    this.#homes.set(affinity, tier.slots, slot);
    this.#hasMovedConversations = true;
  }

  park(account: PolicyAccount): void {
    park(this.#states.getCircuit(account));
    this.#reporter?.reportParked(account);
  }

  resetHealth(accountId: string): void {
    const health = this.#states.resetHealth(accountId);
    if (health !== null) this.#reporter?.reportReset(health);
  }

  observeHealth(observer: HealthObserver): void {
    this.#reporter = new HealthReporter(observer);
  }

  applyReport(account: PolicyAccount, model: string | null, { report, probeDelayMs }: ReceivedReport): void {
    const circuit =
      model === null ? this.#states.getCircuit(account) : this.#states.getModelCircuit(account, model);
    applyReport(circuit, report, { nowMs: this.#clock.monotonicMs(), probeDelayMs });
  }

  retain(accounts: ReadonlyMap<string, PolicyAccount>): void {
    this.#states.retain(accounts, this.#clock.monotonicMs());
    this.#homes.clear();
    this.#hasMovedConversations = false;
  }

  describe(route: AccountRoute): Candidate {
    return buildCandidate(this.#states.getSlot(route), this.#emptySelection(), this.#limiter);
  }

  findUnavailability(routes: readonly AccountRoute[]): Unavailability | null {
    const selection = this.#emptySelection();
    const slots = routes.map((route) => this.#states.getSlot(route));
    return slots.some((slot) => isFree(slot, selection)) ? null : computeUnavailability(slots, selection);
  }

  report(account: PolicyAccount): AccountReport {
    return buildReport(this.#states.find(account), this.#clock.monotonicMs());
  }

  noteLimitGain(accountId: string): void {
    this.#states.endShortage(accountId);
  }

  countInFlight(accountId: string): number {
    return this.#states.countInFlight(accountId);
  }

  #emptySelection(): SelectionRequest {
    return { tried: NONE_TRIED, estimate: NO_AMOUNTS, nowMs: this.#clock.monotonicMs(), refused: null };
  }
}

/** Copies the set, because the caller adds to it later. */
function buildSelection({ tried, estimate, asked }: PickRequest, nowMs: number): SelectionRequest {
  return {
    tried: tried.size === 0 ? NONE_TRIED : [...tried],
    estimate,
    nowMs,
    refused: null,
    asked,
  };
}

interface PickedSlotOptions {
  readonly slot: PoolSlot;
  readonly lease: LimitLease;
  readonly probe: boolean;
  readonly tiers: readonly Tier[];
  readonly selection: SelectionRequest;
  readonly pool: AccountPool;
}

/** A class, so that a choice costs no closure. */
class PickedSlot implements Picked {
  readonly kind = "picked";
  readonly route: AccountRoute;
  readonly lease: LimitLease;
  readonly probe: boolean;
  readonly #slot: PoolSlot;
  readonly #tiers: readonly Tier[];
  readonly #selection: SelectionRequest;
  readonly #pool: AccountPool;

  constructor({ slot, lease, probe, tiers, selection, pool }: PickedSlotOptions) {
    this.route = slot.route;
    this.lease = lease;
    this.probe = probe;
    this.#slot = slot;
    this.#tiers = tiers;
    this.#selection = selection;
    this.#pool = pool;
  }

  candidates(): Candidate[] {
    return this.#pool.listCandidates(this.#tiers, this.#selection, this.#slot);
  }
}
