/** How an account is, for people who look after it: what it does now, and what is held against it. */

import { type ReportedLimit, readReportedLimits } from "../accounts/rate-limit.ts";
import { type Cause, type Circuit, isHalfOpen, isOpen, isParked, opensInMs } from "./health.ts";
import type { AccountStanding, ModelRoute } from "./standing.ts";

/** `probing`: its cool-down is over, and a single request tries it before others may. */
export type AccountCondition = "well" | "cooling" | "probing" | "parked";

export interface CircuitReport {
  condition: AccountCondition;
  /** The failure for which it is not being used; null when it is well. */
  cause: Cause | null;
  /** Until it is asked again; null when it is well, or when somebody has to act. */
  freesInMs: number | null;
}

export interface AccountReport extends CircuitReport {
  /** Attempts under way. */
  inFlight: number;
  /** Whether this process has asked it since it was last changed. Otherwise nothing is known of it. */
  isTried: boolean;
  /** The models that were asked for lately. */
  models: ModelReport[];
}

export interface ModelReport extends CircuitReport {
  upstreamModel: string;
  /** Time to the first byte, averaged; null until there was one. */
  latencyMs: number | null;
  /** Share of attempts that failed lately: 0 to 1. */
  errors: number;
  /** What the upstream's headers said of its limits, and how long ago; null when they never did. */
  told: { limits: ReportedLimit[]; agoMs: number } | null;
}

const UNKNOWN: AccountReport = {
  inFlight: 0,
  condition: "well",
  cause: null,
  freesInMs: null,
  isTried: false,
  models: [],
};

export function buildReport(standing: AccountStanding | null, nowMs: number): AccountReport {
  if (standing === null) return UNKNOWN;
  const { health, inFlight } = standing;
  const models = [...health.lanes].map(([upstreamModel, lane]) => modelReport(upstreamModel, lane, nowMs));
  const wasMeasured = [...health.lanes.values()].some(({ gauge }) => gauge.latencyMs > 0 || gauge.errors > 0);
  const circuit = circuitReport(health.circuit, nowMs);
  const isTried = wasMeasured || circuit.condition !== "well" || health.circuit.strikes > 0;
  return { ...circuit, inFlight, isTried, models };
}

function modelReport(
  upstreamModel: string,
  { circuit, gauge, told }: ModelRoute,
  nowMs: number,
): ModelReport {
  return {
    upstreamModel,
    ...circuitReport(circuit, nowMs),
    latencyMs: gauge.latencyMs === 0 ? null : Math.round(gauge.latencyMs),
    errors: gauge.errors,
    told: told === null ? null : { limits: readReportedLimits(told.headers), agoMs: nowMs - told.atMs },
  };
}

function circuitReport(circuit: Circuit, nowMs: number): CircuitReport {
  const { cause } = circuit;
  if (isParked(circuit)) return { condition: "parked", cause, freesInMs: null };
  if (isHalfOpen(circuit, nowMs)) return { condition: "probing", cause, freesInMs: null };
  if (isOpen(circuit, nowMs)) return { condition: "cooling", cause, freesInMs: opensInMs(circuit, nowMs) };
  return { condition: "well", cause: null, freesInMs: null };
}
