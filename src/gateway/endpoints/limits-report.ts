/** The limits of a caller and their remainders, for `GET /v1/usage`. */

import { mapKinds } from "../../base/map-kinds.ts";
import type { Allowance, Limiter, LimitStatus, Subject } from "../../limits/limiter-types.ts";
import { roundedUsd } from "../../money/nano.ts";
import { MINUTE_KINDS, type MinuteKind, WINDOW_COUNTS, type WindowCount } from "../../records/limits.ts";
import type { Caller } from "../admission/authenticate.ts";
import { callerSubjects } from "../admission/caller-limits.ts";

interface Remainder<Amount = number> {
  limit: Amount;
  used: Amount;
  remaining: Amount;
  resets_at: number;
}

export interface WindowReport extends Record<WindowCount, Remainder | null> {
  per_seconds: number;
  usd: Remainder<string> | null;
}

interface ScopeLimits extends Record<MinuteKind, Remainder | null> {
  concurrency: Omit<Remainder, "resets_at"> | null;
  windows: WindowReport[];
}

/** `key` is the tighter of the key's own limits and the per-key limits of its group. `user` is null without a user. */
export interface LimitsReport {
  key: ScopeLimits;
  user: ScopeLimits | null;
  group: ScopeLimits;
}

export function limitsReport(limiter: Limiter, caller: Caller, nowMs: number): LimitsReport {
  const subjects = callerSubjects(caller);
  const scopeReport = (scope: Subject["scope"]) =>
    scopeLimits(
      subjects.filter((subject) => subject.scope === scope).map((subject) => limiter.readStatus(subject)),
      nowMs,
    );
  return {
    key: scopeReport("key"),
    user: caller.key.userId === null ? null : scopeReport("user"),
    group: scopeReport("group"),
  };
}

function scopeLimits(statuses: readonly LimitStatus[], nowMs: number): ScopeLimits {
  const tightestRemainder = (allowances: (Allowance | null)[]): Remainder | null => {
    const tight = tightest(allowances);
    if (tight === null) return null;
    const { resetMs, ...amounts } = tight;
    // When the whole limit is free again; now if nothing is used.
    return { ...amounts, resets_at: Math.ceil((nowMs + resetMs) / 1000) };
  };
  const slots = statuses
    .flatMap(({ concurrency }) => concurrency ?? [])
    .map(({ limit, inUse }) => ({ limit, used: inUse, remaining: Math.max(0, limit - inUse) }));
  const lengths = [...new Set(statuses.flatMap(({ windows }) => windows.map(({ perMs }) => perMs)))];
  return {
    ...mapKinds(MINUTE_KINDS, (kind) => tightestRemainder(statuses.map((status) => status[kind]))),
    concurrency: slots.sort((a, b) => a.remaining - b.remaining)[0] ?? null,
    windows: lengths
      .sort((a, b) => a - b)
      .map((perMs) => {
        const same = statuses.flatMap(({ windows }) => windows.filter((window) => window.perMs === perMs));
        const money = tightestRemainder(same.map(({ nano }) => nano));
        return {
          per_seconds: perMs / 1000,
          ...mapKinds(WINDOW_COUNTS, (unit) => tightestRemainder(same.map((window) => window[unit]))),
          usd: money === null ? null : toUsd(money),
        };
      }),
  };
}

function tightest(allowances: readonly (Allowance | null)[]): Allowance | null {
  const present = allowances.flatMap((allowance) => allowance ?? []);
  return present.sort((a, b) => a.remaining - b.remaining)[0] ?? null;
}

function toUsd({ limit, used, remaining, resets_at }: Remainder): Remainder<string> {
  return {
    limit: roundedUsd(limit),
    used: roundedUsd(used),
    remaining: roundedUsd(remaining),
    resets_at,
  };
}
