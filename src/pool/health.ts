/**
 * The health of accounts. Each account has a circuit, and each upstream model on it has another. A failure opens one
 * of the two for a time; after a serious failure a single request probes before others may follow.
 */

import { BLAMELESS_FAILURES, type FailureClass, isBlameless } from "../accounts/failure.ts";
import { type Cause, type CoolDownCause, coolDown, coolDownRules, growsWithFailures } from "./cool-down.ts";

export interface Circuit {
  /** 0: closed. Infinity: parked, until an administrator acts. */
  untilMs: number;
  /** A probe must succeed before the circuit closes. Without it, the circuit closes by time alone. */
  needsProbe: boolean;
  /** The number of the probing attempt; 0 if there is none. */
  probedBy: number;
  cause: Cause | null;
  /** Failures in a row that have not led to a cool-down yet. */
  strikes: number;
  coolDownsInRow: number;
  /** Another node has reported the current state. */
  isReported: boolean;
}

export function closedCircuit(): Circuit {
  return {
    untilMs: 0,
    needsProbe: false,
    probedBy: 0,
    cause: null,
    strikes: 0,
    coolDownsInRow: 0,
    isReported: false,
  };
}

export function isOpen(circuit: Circuit, nowMs: number): boolean {
  return circuit.untilMs !== 0 && (nowMs < circuit.untilMs || circuit.probedBy !== 0);
}

export function isParked(circuit: Circuit): boolean {
  return circuit.untilMs === Number.POSITIVE_INFINITY;
}

/** Whether the cause does not end by itself. */
export function needsAttention({ cause }: Circuit): boolean {
  return cause !== null && coolDownRules(cause).nature === "persistent";
}

/** A fault of the upstream itself: not a limit, and nothing that an administrator has to change. */
export function isFault(cause: Cause): boolean {
  return coolDownRules(cause).nature === "fault";
}

export function isFaulty({ cause }: Circuit): boolean {
  return cause !== null && isFault(cause);
}

/** A probe after the fault failed too, so the fault persists. */
export function hasFailedProbe({ coolDownsInRow }: Circuit): boolean {
  return coolDownsInRow > 1;
}

type CircuitOpening = Pick<Circuit, "untilMs" | "needsProbe" | "isReported"> & { readonly cause: Cause };

/** Opens the circuit, or changes until when it is open. A probe that is under way decides nothing any more. */
export function open(circuit: Circuit, { untilMs, needsProbe, cause, isReported }: CircuitOpening): void {
  circuit.untilMs = untilMs;
  circuit.needsProbe = needsProbe;
  circuit.probedBy = 0;
  circuit.cause = cause;
  circuit.isReported = isReported;
}

export function park(circuit: Circuit): void {
  const untilMs = Number.POSITIVE_INFINITY;
  open(circuit, { untilMs, needsProbe: false, cause: "operator", isReported: false });
}

/** The cool-down is over, and it is unknown whether the account works again. */
export function isHalfOpen(circuit: Circuit, nowMs: number): boolean {
  return circuit.untilMs !== 0 && circuit.needsProbe && nowMs >= circuit.untilMs;
}

/** The end of a probe cannot be predicted, so waiting requests check again after this time. */
const PROBE_POLL_MS = 500;

/** Time until an open circuit may be used. */
export function usableInMs(circuit: Circuit, nowMs: number): number {
  return nowMs < circuit.untilMs ? circuit.untilMs - nowMs : PROBE_POLL_MS;
}

/** Starts an attempt. Returns true if it is the probe. */
export function begin(circuit: Circuit, attempt: number, nowMs: number): boolean {
  if (!isHalfOpen(circuit, nowMs)) return false;
  circuit.probedBy = attempt;
  return true;
}

/** The attempt ended without a result (its client disconnected): another request must probe. */
export function abandon(circuit: Circuit, attempt: number): void {
  if (circuit.probedBy === attempt) circuit.probedBy = 0;
}

export function recordSuccess(account: Circuit, model: Circuit, nowMs: number): void {
  closeIfDue(account, nowMs);
  closeIfDue(model, nowMs);
}

function closeIfDue(circuit: Circuit, nowMs: number): void {
  // The success of an attempt from before the cool-down proves nothing about the current state.
  if (nowMs >= circuit.untilMs) close(circuit);
}

/** On the path of every success, so field by field. */
export function close(circuit: Circuit): void {
  circuit.untilMs = 0;
  circuit.needsProbe = false;
  circuit.probedBy = 0;
  circuit.cause = null;
  circuit.strikes = 0;
  circuit.coolDownsInRow = 0;
  circuit.isReported = false;
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
  if (REACHED.has(kind)) recordReached(account, nowMs);
  if (isBlameless(kind)) {
    // The request was at fault. The upstream read it, so the upstream is reachable.
    if (isHalfOpen(model, nowMs)) {
      if (model.cause !== null && coolDownRules(model.cause).isDisprovable) close(model);
      else model.probedBy = 0;
    }
    return;
  }
  const [failing, other] = coolDownRules(kind).scope === "account" ? [account, model] : [model, account];
  strike(failing, kind, hintMs, nowMs, random);
  // If this was the probe of the other circuit, it had no result for it.
  if (isHalfOpen(other, nowMs)) other.probedBy = 0;
}

/** Failures that only a reachable upstream can produce. */
const REACHED: ReadonlySet<FailureClass> = new Set<FailureClass>([
  "reset",
  "credential",
  "rate_limited",
  "quota",
  "overloaded",
  "server",
  "bad_answer",
  "model_missing",
  ...BLAMELESS_FAILURES,
]);

function recordReached(account: Circuit, nowMs: number): void {
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
  // Attempts in flight at the start of the cool-down fail one after the other: they count as one failure.
  if (cooling && growsWithFailures(kind, hintMs)) return;
  circuit.strikes++;
  if (!isHalfOpen(circuit, nowMs) && circuit.strikes < coolDownRules(kind).strikes) return;
  const { ms, probe } = coolDown(kind, hintMs, circuit.coolDownsInRow, random);
  circuit.strikes = 0;
  circuit.probedBy = 0;
  if (cooling && nowMs + ms <= circuit.untilMs) return;
  open(circuit, { untilMs: nowMs + ms, needsProbe: probe, cause: kind, isReported: false });
  if (!cooling) circuit.coolDownsInRow++;
}
