/**
 * Whether an account may be asked. Each account has a circuit, and each upstream model on it another: a failure
 * opens one of the two for a time, and after a serious one a single request probes before all may follow.
 */

import { type FailureClass, isBlameless } from "../accounts/failure.ts";
import { COOL_DOWN_CAUSES, type CoolDownCause, coolDown, coolDownRules, grows } from "./cool-down.ts";

/** `operator`: somebody wanted it so. */
export type Cause = CoolDownCause | "operator";
export const CAUSES: readonly Cause[] = [...COOL_DOWN_CAUSES, "operator"];

export interface Circuit {
  /** 0: closed. Infinity: parked, until somebody acts. */
  untilMs: number;
  /** A probe must succeed before it closes. Without, it closes by time alone. */
  needsProbe: boolean;
  /** The attempt that probes; 0 when none does. */
  probedBy: number;
  cause: Cause | null;
  /** Failures in a row that have not yet led to anything. */
  strikes: number;
  /** Times in a row it was left alone. */
  ejections: number;
}

export function closedCircuit(): Circuit {
  return { untilMs: 0, needsProbe: false, probedBy: 0, cause: null, strikes: 0, ejections: 0 };
}

export function isOpen(circuit: Circuit, nowMs: number): boolean {
  return circuit.untilMs !== 0 && (nowMs < circuit.untilMs || circuit.probedBy !== 0);
}

export function isParked(circuit: Circuit): boolean {
  return circuit.untilMs === Number.POSITIVE_INFINITY;
}

/** What it was opened for does not pass by itself. */
export function needsAttention({ cause }: Circuit): boolean {
  return cause !== null && LASTING.has(cause);
}

const LASTING: ReadonlySet<Cause> = new Set<Cause>(["credential", "quota", "model_missing", "operator"]);

/** Causes that are the upstream's own faults: not its limits, and nothing that an administrator has to change. */
const FAULTS: ReadonlySet<Cause> = new Set<Cause>(["connect", "timeout", "reset", "server", "bad_answer"]);

export function isFault(cause: Cause): boolean {
  return FAULTS.has(cause);
}

export function isFaulty({ cause }: Circuit): boolean {
  return cause !== null && isFault(cause);
}

/** A probe after the fault has failed too: the fault is no passing one. */
export function hasFailedProbe({ ejections }: Circuit): boolean {
  return ejections > 1;
}

export function park(circuit: Circuit): void {
  circuit.untilMs = Number.POSITIVE_INFINITY;
  circuit.probedBy = 0;
  circuit.cause = "operator";
}

/** The cool-down is over and nobody knows yet whether it was long enough. */
export function isHalfOpen(circuit: Circuit, nowMs: number): boolean {
  return circuit.untilMs !== 0 && circuit.needsProbe && nowMs >= circuit.untilMs;
}

/** A probe says by itself how it went, but not when: whoever waits for it looks again after this. */
const PROBE_LOOK_MS = 500;

/** Until it may be asked, of a circuit that is open. */
export function opensInMs(circuit: Circuit, nowMs: number): number {
  return nowMs < circuit.untilMs ? circuit.untilMs - nowMs : PROBE_LOOK_MS;
}

/** An attempt begins; true if it is the probe that decides for the others. */
export function begin(circuit: Circuit, attempt: number, nowMs: number): boolean {
  if (!isHalfOpen(circuit, nowMs)) return false;
  circuit.probedBy = attempt;
  return true;
}

/** The attempt ended without a word (its client left): somebody else has to probe. */
export function abandon(circuit: Circuit, attempt: number): void {
  if (circuit.probedBy === attempt) circuit.probedBy = 0;
}

export function recordSuccess(account: Circuit, model: Circuit, nowMs: number): void {
  succeed(account, nowMs);
  succeed(model, nowMs);
}

function succeed(circuit: Circuit, nowMs: number): void {
  // An attempt from before the cool-down proves nothing about what began since.
  if (nowMs >= circuit.untilMs) close(circuit);
}

export function close(circuit: Circuit): void {
  circuit.untilMs = 0;
  circuit.needsProbe = false;
  circuit.probedBy = 0;
  circuit.cause = null;
  circuit.strikes = 0;
  circuit.ejections = 0;
}

export interface FailureImpact {
  kind: FailureClass;
  hintMs: number | null;
}

export function recordFailure(
  account: Circuit,
  model: Circuit,
  { kind, hintMs }: FailureImpact,
  nowMs: number,
  random: () => number,
): void {
  if (REACHED.has(kind)) reached(account, nowMs);
  if (isBlameless(kind)) {
    // The request was at fault. That it was read at all shows that the upstream lives.
    if (isHalfOpen(model, nowMs)) {
      if (model.cause !== null && LIFELESS.has(model.cause)) close(model);
      else model.probedBy = 0;
    }
    return;
  }
  const [struck, spared] = coolDownRules(kind).breadth === "account" ? [account, model] : [model, account];
  strike(struck, kind, hintMs, nowMs, random);
  // If this was the spared one's probe, it said nothing about it.
  if (isHalfOpen(spared, nowMs)) spared.probedBy = 0;
}

/** Failures that only an upstream that was reached can produce. */
const REACHED: ReadonlySet<FailureClass> = new Set<FailureClass>([
  "reset",
  "credential",
  "rate_limited",
  "quota",
  "overloaded",
  "server",
  "bad_answer",
  "model_missing",
  "not_here",
  "too_large",
  "unstreamed",
  "rejected",
]);

/** Causes that any sensible answer disproves. */
const LIFELESS: ReadonlySet<Cause> = new Set<Cause>([
  "timeout",
  "reset",
  "overloaded",
  "server",
  "bad_answer",
]);

function reached(account: Circuit, nowMs: number): void {
  if (account.untilMs === 0) account.strikes = 0;
  else if (account.cause === "connect" && nowMs >= account.untilMs) close(account);
}

function strike(
  circuit: Circuit,
  kind: CoolDownCause,
  hintMs: number | null,
  nowMs: number,
  random: () => number,
): void {
  const cooling = nowMs < circuit.untilMs;
  // Attempts that were under way when it was ejected fail one by one: they are one failure, not many.
  if (cooling && grows(kind, hintMs)) return;
  circuit.strikes++;
  if (!isHalfOpen(circuit, nowMs) && circuit.strikes < coolDownRules(kind).strikes) return;
  const { ms, probe } = coolDown(kind, hintMs, circuit.ejections, random);
  circuit.strikes = 0;
  circuit.probedBy = 0;
  if (cooling && nowMs + ms <= circuit.untilMs) return;
  circuit.untilMs = nowMs + ms;
  circuit.needsProbe = probe;
  circuit.cause = kind;
  if (!cooling) circuit.ejections++;
}
