/** Builds the health report of an account for administrators: current load, cool-downs and failures. */

import { type ReportedLimit, readReportedLimits } from "../accounts/rate-limit.ts";
import type { AccountState, ModelRoute } from "./account-state.ts";
import type { Cause } from "./cool-down.ts";
import { type Circuit, isHalfOpen, isOpen, isParked, usableInMs } from "./health.ts";

/** `probing`: the cool-down is over, and a single request tests the account. */
type AccountCondition = "well" | "cooling" | "probing" | "parked";

export interface CircuitReport {
  condition: AccountCondition;
  /** The failure that keeps it out of use; null if it is healthy. */
  cause: Cause | null;
  /** Time until it is used again; null if it is healthy, or if an administrator must act. */
  freesInMs: number | null;
}

export interface AccountReport extends CircuitReport {
  inFlight: number;
  /** Whether this process has used the account since its last change. If not, its health is unknown. */
  isTried: boolean;
  /** The models that were used recently. */
  models: ModelReport[];
}

export interface ModelReport extends CircuitReport {
  upstreamModel: string;
  /** Average time to the first byte; null before the first one. */
  latencyMs: number | null;
  /** Share of recent attempts that failed: 0 to 1. */
  errors: number;
  /** The rate limits in the upstream's headers, and their age; null if it never sent any. */
  reportedLimits: { limits: ReportedLimit[]; agoMs: number } | null;
}

const UNKNOWN: AccountReport = {
  inFlight: 0,
  condition: "well",
  cause: null,
  freesInMs: null,
  isTried: false,
  models: [],
};

export function buildReport(state: AccountState | null, nowMs: number): AccountReport {
  if (state === null) return UNKNOWN;
  const { health, inFlight } = state;
  const models = [...health.models].map(([upstreamModel, model]) =>
    buildModelReport(upstreamModel, model, nowMs),
  );
  const wasMeasured = [...health.models.values()].some(
    ({ gauge }) => gauge.latencyMs > 0 || gauge.errors > 0,
  );
  const circuit = buildCircuitReport(health.circuit, nowMs);
  const isTried = wasMeasured || circuit.condition !== "well" || health.circuit.strikes > 0;
  return { ...circuit, inFlight, isTried, models };
}

function buildModelReport(
  upstreamModel: string,
  { circuit, gauge, lastRateLimits }: ModelRoute,
  nowMs: number,
): ModelReport {
  return {
    upstreamModel,
    ...buildCircuitReport(circuit, nowMs),
    latencyMs: gauge.latencyMs === 0 ? null : Math.round(gauge.latencyMs),
    errors: gauge.errors,
    reportedLimits:
      lastRateLimits === null
        ? null
        : { limits: readReportedLimits(lastRateLimits.headers), agoMs: nowMs - lastRateLimits.atMs },
  };
}

function buildCircuitReport(circuit: Circuit, nowMs: number): CircuitReport {
  const { cause } = circuit;
  if (isParked(circuit)) return { condition: "parked", cause, freesInMs: null };
  if (isHalfOpen(circuit, nowMs)) return { condition: "probing", cause, freesInMs: null };
  if (isOpen(circuit, nowMs)) return { condition: "cooling", cause, freesInMs: usableInMs(circuit, nowMs) };
  return { condition: "well", cause: null, freesInMs: null };
}
