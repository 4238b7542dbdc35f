/** The state of accounts and of models on them. Only a new credential or address resets it. */

import type { PolicyAccount } from "../accounts/account.ts";
import type { Subject } from "../limits/limiter-types.ts";
import { isUnlimited } from "../limits/subject-state.ts";
import type { ResponseHeaders } from "../net/http-client/contract.ts";
import type { AccountRoute } from "../policy/snapshot.ts";
import type { Unit } from "../records/limits.ts";
import { hashAffinity } from "./affinity.ts";
import { type Circuit, close, closedCircuit, isOpen } from "./health.ts";
import { type Gauge, newGauge } from "./score.ts";

/** The state of an account by its id, independent of its credential. */
export interface AccountState {
  inFlight: number;
  /** Until then its own rate limits reject requests that need this amount or more. */
  shortUntilMs: number;
  shortUnit: Unit;
  shortAmount: number;
  health: AccountHealth;
}

/** The health of an account while its address and credential stay the same. */
export interface AccountHealth {
  readonly account: PolicyAccount;
  readonly circuit: Circuit;
  readonly models: Map<string, ModelRoute>;
}

export interface ModelRoute {
  readonly circuit: Circuit;
  readonly gauge: Gauge;
  /** The typical latency of the tier at the last weighing; 0 while unknown. */
  typicalMs: number;
  /** Started streams in a row that broke off. */
  brokenStreams: number;
  /** The last response with rate-limit headers of the upstream. */
  lastRateLimits: { readonly headers: ResponseHeaders; readonly atMs: number } | null;
}

/** Everything the selection needs of a route. */
export interface PoolSlot {
  readonly route: AccountRoute;
  readonly seed: number;
  readonly weight: number;
  readonly accountState: AccountState;
  readonly health: AccountHealth;
  readonly model: ModelRoute;
  /** The account as a subject of the limiter; null if it has no limits. */
  readonly limited: readonly [Subject] | null;
}

const MODEL_IDLE_MS = 3_600_000;

export class AccountStates {
  readonly #byAccount = new Map<string, AccountState>();
  readonly #slots = new WeakMap<AccountRoute, PoolSlot>();

  getSlot(route: AccountRoute): PoolSlot {
    return this.#slots.get(route) ?? this.#createSlot(route);
  }

  /** Null if the account was never used with its current address and credential. */
  find(account: PolicyAccount): AccountState | null {
    const state = this.#byAccount.get(account.id);
    return state && hasSameAccess(state.health.account, account) ? state : null;
  }

  /** Attempts in flight, also of an account that was removed. */
  countInFlight(accountId: string): number {
    return this.#byAccount.get(accountId)?.inFlight ?? 0;
  }

  /** The account's own rate limits may admit requests again. */
  endShortage(accountId: string): void {
    const state = this.#byAccount.get(accountId);
    if (state !== undefined) state.shortUntilMs = 0;
  }

  /** Also for an account that was never used. */
  getCircuit(account: PolicyAccount): Circuit {
    return this.#getState(account).health.circuit;
  }

  /** Also for a model that was never used. */
  getModelCircuit(account: PolicyAccount, upstreamModel: string): Circuit {
    return getModel(this.#getState(account).health, upstreamModel).circuit;
  }

  /** Returns the health that was reset; null if the account was never used. */
  resetHealth(accountId: string): AccountHealth | null {
    const health = this.#byAccount.get(accountId)?.health;
    if (!health) return null;
    close(health.circuit);
    for (const { circuit, gauge } of health.models.values()) {
      close(circuit);
      Object.assign(gauge, newGauge());
    }
    return health;
  }

  /** Drops the state of removed accounts, and of models that were not used for long. */
  retain(accounts: ReadonlyMap<string, PolicyAccount>, nowMs: number): void {
    for (const [id, { health, inFlight }] of this.#byAccount) {
      // Attempts in flight are counted to their end.
      if (!accounts.has(id) && inFlight === 0) this.#byAccount.delete(id);
      for (const [model, { circuit, gauge }] of health.models) {
        const isIdle = nowMs - gauge.measuredAtMs > MODEL_IDLE_MS && nowMs >= circuit.untilMs;
        if (isIdle) health.models.delete(model);
      }
    }
  }

  #getState(account: PolicyAccount): AccountState {
    const existing = this.#byAccount.get(account.id);
    if (!existing) {
      const state: AccountState = {
        inFlight: 0,
        shortUntilMs: 0,
        shortUnit: "requests",
        shortAmount: 0,
        health: newHealth(account),
      };
      this.#byAccount.set(account.id, state);
      return state;
    }
    // Attempts in flight keep the health they started with: a rejected old credential is not the fault of the new one.
    if (!hasSameAccess(existing.health.account, account)) existing.health = newHealth(account);
    return existing;
  }

  #createSlot(route: AccountRoute): PoolSlot {
    const { account, upstreamModel } = route;
    const accountState = this.#getState(account);
    const { health } = accountState;
    const slot = {
      route,
      seed: hashAffinity(account.id),
      weight: account.weight,
      accountState,
      health,
      model: getModel(health, upstreamModel),
      limited: buildSubjects(account),
    };
    this.#slots.set(route, slot);
    return slot;
  }
}

function getModel({ models }: AccountHealth, upstreamModel: string): ModelRoute {
  const existing = models.get(upstreamModel);
  if (existing) return existing;
  const model: ModelRoute = {
    circuit: closedCircuit(),
    gauge: newGauge(),
    typicalMs: 0,
    brokenStreams: 0,
    lastRateLimits: null,
  };
  models.set(upstreamModel, model);
  return model;
}

function buildSubjects({ id, limits }: PolicyAccount): readonly [Subject] | null {
  return isUnlimited(limits) ? null : [{ scope: "account", id, limits }];
}

function newHealth(account: PolicyAccount): AccountHealth {
  return { account, circuit: closedCircuit(), models: new Map() };
}

function hasSameAccess(a: PolicyAccount, b: PolicyAccount): boolean {
  if (a === b) return true;
  return (
    a.credential === b.credential &&
    a.baseUrl === b.baseUrl &&
    a.kind === b.kind &&
    a.region === b.region &&
    a.project === b.project
  );
}

/** Healthy enough for a conversation, whether or not a slot is free now. */
export function isHealthy({ health, model }: PoolSlot, nowMs: number): boolean {
  return !isOpen(health.circuit, nowMs) && !isOpen(model.circuit, nowMs);
}
