/** `from`, `to` and `granularity` of `GET /v1/usage`: whole hours or days in UTC. */

import { DAY_MS, HOUR_MS } from "../../base/time.ts";
import { type ApiError, paramError } from "../../errors.ts";

interface UsageRange {
  fromMs: number;
  /** Exclusive. */
  toMs: number;
  granularity: "hour" | "day";
}

const UNIT_MS = { hour: HOUR_MS, day: DAY_MS } as const;
export const POINTS_MAX = 400;
const DEFAULT_DAYS = 30;
const DEFAULT_HOURS = 48;
/** The end of the year 9999: later dates have no ISO format. */
const LATEST_MS = 253_402_300_799_999;

const INSTANT_RULE =
  "an ISO date like 2026-09-01, a date and time like 2026-09-01T12:00:00Z, or Unix seconds";

/** Defaults to the last 30 days by day. */
export function parseUsageRange(query: URLSearchParams, nowMs: number): UsageRange {
  const granularity = parseGranularity(readSingle(query, "granularity"));
  const unitMs = UNIT_MS[granularity];
  const from = parseInstant("from", readSingle(query, "from"));
  const to = parseInstant("to", readSingle(query, "to"));
  const floor = (ms: number) => Math.floor(ms / unitMs) * unitMs;
  // A day as `to` is included as a whole.
  const endMs = to === null ? nowMs + 1 : to.isDay ? to.ms + DAY_MS : to.ms;
  const toMs = Math.ceil(endMs / unitMs) * unitMs;
  const units = granularity === "day" ? DEFAULT_DAYS : DEFAULT_HOURS;
  const fromMs = from === null ? Math.max(0, toMs - units * unitMs) : floor(from.ms);
  if (fromMs >= toMs) {
    throw invalidValue(
      from === null ? "to" : "from",
      to === null
        ? "`from` is in the future. Send a time in the past."
        : "`from` must be before `to`. Send an earlier `from` or a later `to`.",
    );
  }
  const points = (toMs - fromMs) / unitMs;
  if (points > POINTS_MAX) {
    const hint = granularity === "hour" ? " or granularity=day" : "";
    throw invalidValue(
      "from",
      `The range has ${points} data points with granularity ${granularity}, and at most ${POINTS_MAX} are allowed. Send a shorter range${hint}.`,
    );
  }
  return { fromMs, toMs, granularity };
}

function parseGranularity(value: string | null): UsageRange["granularity"] {
  if (value === null || value === "day") return "day";
  if (value === "hour") return "hour";
  throw invalidValue("granularity", `\`granularity\` is ${quote(value)}. Allowed: hour, day.`);
}

interface Instant {
  ms: number;
  isDay: boolean;
}

function parseInstant(param: string, value: string | null): Instant | null {
  if (value === null) return null;
  const ms = /^\d{1,12}$/.test(value) ? Number(value) * 1000 : isoMs(value);
  if (ms === null || ms < 0 || ms > LATEST_MS) {
    throw invalidValue(param, `\`${param}\` is ${quote(value)}. Allowed: ${INSTANT_RULE}.`);
  }
  return { ms, isDay: DAY.test(value) };
}

const DAY = /^\d{4}-\d{2}-\d{2}$/;
const INSTANT = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2})$/;

function isoMs(value: string): number | null {
  if (!DAY.test(value) && !INSTANT.test(value)) return null;
  const ms = Date.parse(value);
  // Date.parse turns 31 February into March, so the day must round-trip.
  const day = new Date(`${value.slice(0, 10)}T00:00:00Z`);
  if (Number.isNaN(ms) || Number.isNaN(day.getTime())) return null;
  return day.toISOString().slice(0, 10) === value.slice(0, 10) ? ms : null;
}

function readSingle(query: URLSearchParams, param: string): string | null {
  const values = query.getAll(param);
  if (values.length > 1) {
    throw paramError(param, "duplicate_parameter", `\`${param}\` was sent more than once. Send it once.`);
  }
  return values[0] ?? null;
}

function invalidValue(param: string, message: string): ApiError {
  return paramError(param, "invalid_value", message);
}

function quote(value: string): string {
  return JSON.stringify(value.length > 80 ? `${value.slice(0, 79)}…` : value);
}
