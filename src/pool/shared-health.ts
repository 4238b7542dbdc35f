/**
 * The health of accounts as nodes share it. A change of a circuit is reported to an observer, and the report of another
 * node is applied to a circuit.
 */

import type { PolicyAccount } from "../accounts/account.ts";
import type { AccountHealth, PoolSlot } from "./account-state.ts";
import { type Cause, coolDownRules } from "./cool-down.ts";
import { type Circuit, close, open } from "./health.ts";

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

/** While a node probes, the others wait for the result this long. */
const PROBE_MS = 10_000;

type CircuitBefore = Pick<Circuit, "untilMs" | "cause">;

/** The two circuits of a slot before a change. */
interface HealthBefore {
  readonly account: CircuitBefore;
  readonly model: CircuitBefore;
}

export function captureHealth({ health, model }: PoolSlot): HealthBefore {
  return { account: captureCircuit(health.circuit), model: captureCircuit(model.circuit) };
}

function captureCircuit({ untilMs, cause }: Circuit): CircuitBefore {
  return { untilMs, cause };
}

/** A circuit with what it belongs to: a model of the account, or, with null, the account. */
interface OwnedCircuit {
  readonly account: PolicyAccount;
  readonly model: string | null;
  readonly circuit: Circuit;
}

function accountCircuit({ health: { account, circuit } }: PoolSlot): OwnedCircuit {
  return { account, model: null, circuit };
}

function modelCircuit({ health: { account }, model: { circuit }, route }: PoolSlot): OwnedCircuit {
  return { account, model: route.upstreamModel, circuit };
}

/** Reports changes of circuits, in the terms of the whole installation. */
export class HealthReporter {
  readonly #observer: HealthObserver;

  constructor(observer: HealthObserver) {
    this.#observer = observer;
  }

  /** Call it after a change, with the state before. */
  reportChanges(slot: PoolSlot, before: HealthBefore, nowMs: number): void {
    this.#reportChange(accountCircuit(slot), before.account, nowMs);
    this.#reportChange(modelCircuit(slot), before.model, nowMs);
  }

  /** This node probes: the others wait for the result. */
  reportProbe(slot: PoolSlot, attempt: number): void {
    this.#reportHeld(slot, attempt, PROBE_MS);
  }

  /** The probe ends without a result: another node may probe. Call it before the circuits are released. */
  reportAbandoned(slot: PoolSlot, attempt: number): void {
    this.#reportHeld(slot, attempt, 0);
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

  #reportChange({ account, model, circuit }: OwnedCircuit, before: CircuitBefore, nowMs: number): void {
    const { untilMs, cause, needsProbe } = circuit;
    if (untilMs === before.untilMs) return;
    if (untilMs === 0) {
      if (isShared(before.cause)) this.#observer.onHealthChange(account, model, { kind: "works" });
    } else if (isShared(cause)) {
      const forMs = untilMs - nowMs;
      this.#observer.onHealthChange(account, model, { kind: "unusable", cause, forMs, needsProbe });
    }
  }

  #reportHeld(slot: PoolSlot, attempt: number, forMs: number): void {
    for (const { account, model, circuit } of [accountCircuit(slot), modelCircuit(slot)]) {
      const { cause, probedBy } = circuit;
      if (probedBy !== attempt || !isShared(cause)) continue;
      this.#observer.onHealthChange(account, model, { kind: "unusable", cause, forMs, needsProbe: true });
    }
  }
}

function isShared(cause: Cause | null): cause is Cause {
  return cause !== null && coolDownRules(cause).isShared;
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
  open(circuit, { untilMs, needsProbe, cause, isReported: true });
}
