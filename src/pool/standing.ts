/** What is known of each account and of each model on it. It outlives snapshots: only a new credential starts afresh. */

import type { Subject } from "../limits/limiter.ts";
import type { AnswerHeaders } from "../net/http-client/contract.ts";
import type { AccountRoute, PolicyAccount } from "../policy/snapshot.ts";
import { hashAffinity } from "./affinity.ts";
import { type Circuit, close, closedCircuit, isOpen } from "./health.ts";
import { freshGauge, type Gauge } from "./score.ts";

/** An account by its id, whatever its credential. */
export interface AccountStanding {
  inFlight: number;
  /** Until then its own rate limits refuse requests of this many tokens or more. */
  shortUntilMs: number;
  shortTokens: number;
  health: AccountHealth;
}

/** An account for as long as its address and credential stay the same. */
export interface AccountHealth {
  readonly of: PolicyAccount;
  readonly circuit: Circuit;
  readonly lanes: Map<string, ModelRoute>;
}

/** One upstream model on one account. */
export interface ModelRoute {
  readonly circuit: Circuit;
  readonly gauge: Gauge;
  /** Latency that is usual where this was last weighed; 0 while unknown. */
  typicalMs: number;
  /** Streams in a row that broke off after they had begun. */
  breaks: number;
  /** The last answer that told the upstream's rate limits. */
  told: { readonly headers: AnswerHeaders; readonly atMs: number } | null;
}

/** All that choosing needs of a route, in one place. */
export interface PoolSlot {
  readonly route: AccountRoute;
  readonly seed: number;
  readonly weight: number;
  readonly standing: AccountStanding;
  readonly health: AccountHealth;
  readonly lane: ModelRoute;
  /** The account, for the limiter; null when it has no limits of its own. */
  readonly limited: readonly [Subject] | null;
}

export interface Standings {
  seatOf(route: AccountRoute): PoolSlot;
  /** Null if it was never asked, reached as it is now. */
  find(account: PolicyAccount): AccountStanding | null;
  /** Attempts under way, also of an account that is no longer there. */
  inFlightOf(accountId: string): number;
  /** Also for an account that was never asked. */
  circuitOf(account: PolicyAccount): Circuit;
  forgive(accountId: string): void;
  /** Drops what is known of accounts that are no longer there, and of models nobody has asked for in a long time. */
  retain(accounts: ReadonlyMap<string, PolicyAccount>, nowMs: number): void;
}

const LANE_IDLE_MS = 3_600_000;

export function openStandings(): Standings {
  const standings = new Map<string, AccountStanding>();
  const seats = new WeakMap<AccountRoute, PoolSlot>();

  function standingOf(account: PolicyAccount): AccountStanding {
    const known = standings.get(account.id);
    if (!known) {
      const standing = { inFlight: 0, shortUntilMs: 0, shortTokens: 0, health: healthOf(account) };
      standings.set(account.id, standing);
      return standing;
    }
    // Attempts under way keep the health they began with: an old credential's refusal is not the new one's.
    if (!isReachedAlike(known.health.of, account)) known.health = healthOf(account);
    return known;
  }

  function take(route: AccountRoute): PoolSlot {
    const { account, upstreamModel } = route;
    const standing = standingOf(account);
    const { health } = standing;
    let lane = health.lanes.get(upstreamModel);
    if (!lane) {
      lane = { circuit: closedCircuit(), gauge: freshGauge(), typicalMs: 0, breaks: 0, told: null };
      health.lanes.set(upstreamModel, lane);
    }
    const seed = hashAffinity(account.id);
    const seat = {
      route,
      seed,
      weight: account.weight,
      standing,
      health,
      lane,
      limited: subjectsOf(account),
    };
    seats.set(route, seat);
    return seat;
  }

  return {
    seatOf: (route) => seats.get(route) ?? take(route),
    find(account) {
      const known = standings.get(account.id);
      return known && isReachedAlike(known.health.of, account) ? known : null;
    },
    inFlightOf: (accountId) => standings.get(accountId)?.inFlight ?? 0,
    circuitOf: (account) => standingOf(account).health.circuit,
    forgive(accountId) {
      const health = standings.get(accountId)?.health;
      if (!health) return;
      close(health.circuit);
      for (const { circuit, gauge } of health.lanes.values()) {
        close(circuit);
        Object.assign(gauge, freshGauge());
      }
    },
    retain(accounts, nowMs) {
      for (const [id, { health, inFlight }] of standings) {
        // What it still does is counted to its end.
        if (!accounts.has(id) && inFlight === 0) standings.delete(id);
        for (const [model, { circuit, gauge }] of health.lanes) {
          const idle = nowMs - gauge.measuredAtMs > LANE_IDLE_MS && nowMs >= circuit.untilMs;
          if (idle) health.lanes.delete(model);
        }
      }
    },
  };
}

function subjectsOf({ id, limits }: PolicyAccount): readonly [Subject] | null {
  const { concurrency, rpm, tpm } = limits;
  if (concurrency === null && rpm === null && tpm === null) return null;
  return [{ scope: "account", id, limits }];
}

function healthOf(account: PolicyAccount): AccountHealth {
  return { of: account, circuit: closedCircuit(), lanes: new Map() };
}

function isReachedAlike(a: PolicyAccount, b: PolicyAccount): boolean {
  if (a === b) return true;
  return a.credential === b.credential && a.baseUrl === b.baseUrl && a.kind === b.kind;
}

/** Well enough to be a conversation's home, whether or not there is a place right now. */
export function isHealthy({ health, lane }: PoolSlot, nowMs: number): boolean {
  return !isOpen(health.circuit, nowMs) && !isOpen(lane.circuit, nowMs);
}
