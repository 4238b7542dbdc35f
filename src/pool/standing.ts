/**
 * The state of each account and of each model on it. It survives new snapshots; only a new credential or address
 * resets it.
 */

import type { Subject } from "../limits/limiter.ts";
import type { AnswerHeaders } from "../net/http-client/contract.ts";
import type { AccountRoute, PolicyAccount } from "../policy/snapshot.ts";
import { hashAffinity } from "./affinity.ts";
import { type Circuit, close, closedCircuit, isOpen } from "./health.ts";
import { type Gauge, newGauge } from "./score.ts";

/** The state of an account by its id, independent of its credential. */
export interface AccountStanding {
  inFlight: number;
  /** Until then its own rate limits refuse requests of this many tokens or more. */
  shortUntilMs: number;
  shortTokens: number;
  health: AccountHealth;
}

/** The health of an account while its address and credential stay the same. */
export interface AccountHealth {
  readonly of: PolicyAccount;
  readonly circuit: Circuit;
  readonly lanes: Map<string, ModelRoute>;
}

/** One upstream model on one account. */
export interface ModelRoute {
  readonly circuit: Circuit;
  readonly gauge: Gauge;
  /** The typical latency of the tier at the last weighing; 0 while unknown. */
  typicalMs: number;
  /** Started streams in a row that broke off. */
  breaks: number;
  /** The last response with rate-limit headers of the upstream. */
  told: { readonly headers: AnswerHeaders; readonly atMs: number } | null;
}

/** Everything the selection needs of a route. */
export interface PoolSlot {
  readonly route: AccountRoute;
  readonly seed: number;
  readonly weight: number;
  readonly standing: AccountStanding;
  readonly health: AccountHealth;
  readonly lane: ModelRoute;
  /** The account as a subject of the limiter; null if it has no limits. */
  readonly limited: readonly [Subject] | null;
}

export interface Standings {
  seatOf(route: AccountRoute): PoolSlot;
  /** Null if the account was never used with its current address and credential. */
  find(account: PolicyAccount): AccountStanding | null;
  /** Attempts in flight, also of an account that was removed. */
  inFlightOf(accountId: string): number;
  /** Also for an account that was never used. */
  circuitOf(account: PolicyAccount): Circuit;
  forgive(accountId: string): void;
  /** Drops the state of removed accounts, and of models that were not used for long. */
  retain(accounts: ReadonlyMap<string, PolicyAccount>, nowMs: number): void;
}

const MODEL_IDLE_MS = 3_600_000;

export function openStandings(): Standings {
  const standings = new Map<string, AccountStanding>();
  const slots = new WeakMap<AccountRoute, PoolSlot>();

  function getStanding(account: PolicyAccount): AccountStanding {
    const known = standings.get(account.id);
    if (!known) {
      const standing = { inFlight: 0, shortUntilMs: 0, shortTokens: 0, health: newHealth(account) };
      standings.set(account.id, standing);
      return standing;
    }
    // Attempts in flight keep the health they started with: a rejected old credential says nothing about the new one.
    if (!hasSameAccess(known.health.of, account)) known.health = newHealth(account);
    return known;
  }

  function createSlot(route: AccountRoute): PoolSlot {
    const { account, upstreamModel } = route;
    const standing = getStanding(account);
    const { health } = standing;
    let lane = health.lanes.get(upstreamModel);
    if (!lane) {
      lane = { circuit: closedCircuit(), gauge: newGauge(), typicalMs: 0, breaks: 0, told: null };
      health.lanes.set(upstreamModel, lane);
    }
    const seed = hashAffinity(account.id);
    const slot = {
      route,
      seed,
      weight: account.weight,
      standing,
      health,
      lane,
      limited: buildSubjects(account),
    };
    slots.set(route, slot);
    return slot;
  }

  return {
    seatOf: (route) => slots.get(route) ?? createSlot(route),
    find(account) {
      const known = standings.get(account.id);
      return known && hasSameAccess(known.health.of, account) ? known : null;
    },
    inFlightOf: (accountId) => standings.get(accountId)?.inFlight ?? 0,
    circuitOf: (account) => getStanding(account).health.circuit,
    forgive(accountId) {
      const health = standings.get(accountId)?.health;
      if (!health) return;
      close(health.circuit);
      for (const { circuit, gauge } of health.lanes.values()) {
        close(circuit);
        Object.assign(gauge, newGauge());
      }
    },
    retain(accounts, nowMs) {
      for (const [id, { health, inFlight }] of standings) {
        // Attempts in flight are counted to their end.
        if (!accounts.has(id) && inFlight === 0) standings.delete(id);
        for (const [model, { circuit, gauge }] of health.lanes) {
          const idle = nowMs - gauge.measuredAtMs > MODEL_IDLE_MS && nowMs >= circuit.untilMs;
          if (idle) health.lanes.delete(model);
        }
      }
    },
  };
}

function buildSubjects({ id, limits }: PolicyAccount): readonly [Subject] | null {
  const { concurrency, rpm, tpm } = limits;
  if (concurrency === null && rpm === null && tpm === null) return null;
  return [{ scope: "account", id, limits }];
}

function newHealth(account: PolicyAccount): AccountHealth {
  return { of: account, circuit: closedCircuit(), lanes: new Map() };
}

function hasSameAccess(a: PolicyAccount, b: PolicyAccount): boolean {
  if (a === b) return true;
  return a.credential === b.credential && a.baseUrl === b.baseUrl && a.kind === b.kind;
}

/** Healthy enough for a conversation, whether or not a slot is free now. */
export function isHealthy({ health, lane }: PoolSlot, nowMs: number): boolean {
  return !isOpen(health.circuit, nowMs) && !isOpen(lane.circuit, nowMs);
}
