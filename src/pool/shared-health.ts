/**
 * The health of accounts as nodes share it. A change of a circuit is reported to an observer, and the report of another
 * node is applied to a circuit.
 */

import type { PolicyAccount } from "../accounts/account.ts";
import type { AccountHealth, PoolSlot } from "./account-state.ts";
import { type Cause, type Circuit, close } from "./health.ts";

export type HealthReport =
  | { readonly kind: "works" }
  | {
      readonly kind: "unusable";
      readonly cause: Cause;
      /** Infinity: until an administrator acts. */
      readonly forMs: number;
      readonly needsProbe: boolean;
    };

export interface HealthObserver {
  /** `model` is null for the whole account. */
  onHealthChange(account: PolicyAccount, model: string | null, report: HealthReport): void;
}

/**
 * Failures that the upstream itself reported. Connections that fail, time out or break may be a problem of this node's network,
 * and must not take the account from the others.
 */
const SHARED_CAUSES: ReadonlySet<Cause> = new Set<Cause>([
  "credential",
  "rate_limited",
  "quota",
  "overloaded",
  "server",
  "bad_answer",
  "model_missing",
  "operator",
]);

/** While a node probes, the others wait for the result this long. */
const PROBE_MS = 10_000;

interface CircuitBefore {
  readonly untilMs: number;
  readonly cause: Cause | null;
}

/** The two circuits of a slot before a change. */
export interface HealthBefore {
  readonly account: CircuitBefore;
  readonly model: CircuitBefore;
}

export function captureHealth({ health, model }: PoolSlot): HealthBefore {
  const { circuit } = health;
  return {
    account: { untilMs: circuit.untilMs, cause: circuit.cause },
    model: { untilMs: model.circuit.untilMs, cause: model.circuit.cause },
  };
}

/** Reports changes of circuits, in the terms of the whole installation. */
export class HealthReporter {
  readonly #observer: HealthObserver;

  constructor(observer: HealthObserver) {
    this.#observer = observer;
  }

  /** Call it after a change, with the state before. */
  reportChanges({ health, model, route }: PoolSlot, before: HealthBefore, nowMs: number): void {
    this.#reportChange(health, null, { circuit: health.circuit, before: before.account, nowMs });
    this.#reportChange(health, route.upstreamModel, { circuit: model.circuit, before: before.model, nowMs });
  }

  /** This node probes: the others wait for the result. */
  reportProbe({ health, model, route }: PoolSlot, attempt: number): void {
    this.#reportHeld(health, null, { circuit: health.circuit, attempt, forMs: PROBE_MS });
    this.#reportHeld(health, route.upstreamModel, { circuit: model.circuit, attempt, forMs: PROBE_MS });
  }

  /** The probe ends without a result: another node may probe. Call it before the circuits are released. */
  reportAbandoned({ health, model, route }: PoolSlot, attempt: number): void {
    this.#reportHeld(health, null, { circuit: health.circuit, attempt, forMs: 0 });
    this.#reportHeld(health, route.upstreamModel, { circuit: model.circuit, attempt, forMs: 0 });
  }

  reportParked(account: PolicyAccount): void {
    const forMs = Number.POSITIVE_INFINITY;
    this.#observer.onHealthChange(account, null, {
      kind: "unusable",
      cause: "operator",
      forMs,
      needsProbe: false,
    });
  }

  reportReset({ account, models }: AccountHealth): void {
    for (const model of [null, ...models.keys()])
      this.#observer.onHealthChange(account, model, { kind: "works" });
  }

  #reportChange(
    { account }: AccountHealth,
    model: string | null,
    { circuit, before, nowMs }: { circuit: Circuit; before: CircuitBefore; nowMs: number },
  ): void {
    if (circuit.untilMs === before.untilMs) return;
    if (circuit.untilMs === 0) {
      if (isShared(before.cause)) this.#observer.onHealthChange(account, model, { kind: "works" });
      return;
    }
    const { cause, needsProbe } = circuit;
    const forMs = circuit.untilMs - nowMs;
    if (isShared(cause))
      this.#observer.onHealthChange(account, model, { kind: "unusable", cause, forMs, needsProbe });
  }

  #reportHeld(
    { account }: AccountHealth,
    model: string | null,
    { circuit, attempt, forMs }: { circuit: Circuit; attempt: number; forMs: number },
  ): void {
    const { cause } = circuit;
    if (circuit.probedBy !== attempt || !isShared(cause)) return;
    this.#observer.onHealthChange(account, model, { kind: "unusable", cause, forMs, needsProbe: true });
  }
}

function isShared(cause: Cause | null): cause is Cause {
  return cause !== null && SHARED_CAUSES.has(cause);
}

/**
 * Applies the report of another node. What this node has found out by itself is only made longer. `probeDelayMs`: how
 * long this node leaves the probe to others.
 */
export function applyReport(
  circuit: Circuit,
  report: HealthReport,
  { nowMs, probeDelayMs }: { nowMs: number; probeDelayMs: number },
): void {
  if (report.kind === "works") {
    if (isShared(circuit.cause)) close(circuit);
    return;
  }
  const { cause, needsProbe } = report;
  const untilMs = nowMs + report.forMs + (needsProbe ? probeDelayMs : 0);
  // An old fact: the time is over, and a probe of this node may already run.
  if (untilMs <= nowMs) return;
  if (!circuit.isReported && nowMs < circuit.untilMs && circuit.untilMs >= untilMs) return;
  circuit.untilMs = untilMs;
  circuit.needsProbe = needsProbe;
  circuit.probedBy = 0;
  circuit.cause = cause;
  circuit.isReported = true;
}
