/** The state of the usage page is in its address, so that it can be bookmarked, shared and restored. */

import { useMemo } from "react";
import { useSearchParams } from "wouter";
import type { Input } from "../../api.ts";
import { useNow } from "../../ui/values.tsx";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

export const RANGES = ["day", "week", "month", "quarter"] as const;
export type Range = (typeof RANGES)[number] | "custom";
const RANGE_MS = { day: DAY_MS, week: 7 * DAY_MS, month: 30 * DAY_MS, quarter: 90 * DAY_MS } as const;
/** Ranges up to this length are drawn by hours. */
const HOURLY_MS = 3 * DAY_MS;

export const SPLITS = ["total", "model", "key", "user", "group"] as const;
export type Split = (typeof SPLITS)[number];

export const METRICS = ["requests", "cost", "tokens", "firstToken", "latency", "errors"] as const;
export type Metric = (typeof METRICS)[number];

export const OUTCOMES = [
  "completed",
  "incomplete",
  "failed",
  "cancelled",
  "pending",
  "client_gone",
  "upstream_cut",
  "refused",
] as const;
export const STATUSES = ["2", "4", "5"] as const;

export type FilterName = "whose" | "user" | "key" | "group" | "account" | "model" | "outcome" | "status";
/** The scope stays when the other filters are cleared. */
const CLEARED = ["user", "key", "group", "account", "model", "outcome", "status"] as const;

export interface UsageQuery {
  range: Range;
  /** Days as typed: "2026-03-01". */
  from: string;
  to: string;
  by: Split;
  metric: Metric;
  filters: Readonly<Partial<Record<FilterName, string>>>;
  hasFilters: boolean;
  granularity: "day" | "hour";
  chart: NonNullable<Input<"usage.chart">["query"]>;
  requests: NonNullable<Input<"usage.requests">["query"]>;
  /** An empty value removes the parameter. */
  set(name: FilterName | "range" | "from" | "to" | "by" | "metric", value: string): void;
  clear(): void;
}

export function useUsageQuery(): UsageQuery {
  const [params, setParams] = useSearchParams();
  // Rounded to the hour: a query that begins a minute later is the same query.
  const hourMs = Math.floor(useNow(60_000) / HOUR_MS) * HOUR_MS;
  return useMemo((): UsageQuery => {
    const scope = readScope(params);
    const rows = {
      ...given("outcome", parseChoice(OUTCOMES, params.get("outcome"))),
      ...given("status", parseChoice(STATUSES, params.get("status"))),
    };
    const asked = readRange(params, hourMs);
    const set: UsageQuery["set"] = (name, value) =>
      setParams(
        (before) => {
          const next = new URLSearchParams(before);
          if (value === "") next.delete(name);
          else next.set(name, value);
          // Typed days belong to a custom range.
          if (name === "range" && value !== "custom") for (const day of ["from", "to"]) next.delete(day);
          return next;
        },
        { replace: true },
      );
    return {
      ...asked,
      by: parseChoice(SPLITS, params.get("by")) ?? "model",
      metric: parseChoice(METRICS, params.get("metric")) ?? "requests",
      filters: { ...scope, ...rows },
      hasFilters: CLEARED.some((name) => params.has(name)),
      chart: { ...scope, ...asked.times, granularity: asked.granularity },
      requests: { ...scope, ...asked.times, ...rows },
      set,
      clear: () =>
        setParams((before) => {
          const next = new URLSearchParams(before);
          for (const name of CLEARED) next.delete(name);
          return next;
        }),
    };
  }, [params, setParams, hourMs]);
}

function readScope(params: URLSearchParams) {
  return {
    ...given("whose", parseChoice(["everybody"] as const, params.get("whose"))),
    ...given("user", params.get("user")),
    ...given("key", params.get("key")),
    ...given("group", params.get("group")),
    ...given("account", params.get("account")),
    ...given("model", params.get("model")),
  };
}

/** Omits empty values. */
function given<Name extends string, Value extends string>(
  name: Name,
  value: Value | null,
): { [name in Name]?: Value } {
  const made: { [name in Name]?: Value } = {};
  if (value !== null && value !== "") made[name] = value;
  return made;
}

function parseChoice<Value extends string>(values: readonly Value[], wanted: string | null): Value | null {
  return values.find((value) => value === wanted) ?? null;
}

function readRange(params: URLSearchParams, hourMs: number) {
  const range: Range = parseChoice([...RANGES, "custom"] as const, params.get("range")) ?? "week";
  const today = new Date(hourMs).toISOString().slice(0, 10);
  const from = dayText(params.get("from")) ?? new Date(hourMs - 6 * DAY_MS).toISOString().slice(0, 10);
  const to = dayText(params.get("to")) ?? today;
  if (range !== "custom") {
    const lengthMs = RANGE_MS[range];
    // The range includes the current, partial day.
    const fromMs =
      lengthMs <= HOURLY_MS ? hourMs - lengthMs + HOUR_MS : startOfDay(hourMs) - lengthMs + DAY_MS;
    return { range, from, to, granularity: chooseGranularity(lengthMs), times: { from_at: fromMs } };
  }
  const fromMs = Date.parse(`${from}T00:00:00Z`);
  const toMs = Date.parse(`${to}T00:00:00Z`) + DAY_MS;
  return {
    range,
    from,
    to,
    granularity: chooseGranularity(toMs - fromMs),
    times: { from_at: fromMs, to_at: toMs },
  };
}

function chooseGranularity(lengthMs: number): "day" | "hour" {
  return lengthMs <= HOURLY_MS ? "hour" : "day";
}

function startOfDay(ms: number): number {
  return Math.floor(ms / DAY_MS) * DAY_MS;
}

function dayText(value: string | null): string | null {
  return value !== null && /^\d{4}-\d{2}-\d{2}$/.test(value) && !Number.isNaN(Date.parse(value))
    ? value
    : null;
}
