/** The limits of a caller and their remainders, for `GET /v1/usage`. */

import type { Allowance, Limiter, LimitStanding, Subject } from "../../limits/limiter.ts";
import { usdText } from "../../money/nano.ts";
import type { Caller } from "../admission/authenticate.ts";
import { callerSubjects } from "../admission/caller-limits.ts";

interface Remainder {
  limit: number;
  used: number;
  remaining: number;
  resets_at: number;
}

export interface WindowReport {
  per_seconds: number;
  requests: Remainder | null;
  tokens: Remainder | null;
  usd: { limit: string; used: string; remaining: string; resets_at: number } | null;
}

interface ScopeLimits {
  rpm: Remainder | null;
  tpm: Remainder | null;
  concurrency: { limit: number; used: number; remaining: number } | null;
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
      subjects.filter((subject) => subject.scope === scope).map((subject) => limiter.standing(subject)),
      nowMs,
    );
  return {
    key: scopeReport("key"),
    user: caller.key.userId === null ? null : scopeReport("user"),
    group: scopeReport("group"),
  };
}

function scopeLimits(standings: readonly LimitStanding[], nowMs: number): ScopeLimits {
  const tightestRemainder = (allowances: (Allowance | null | undefined)[]): Remainder | null => {
    const tight = tightest(allowances);
    if (tight === null) return null;
    const { limit, used, remaining } = tight;
    return { limit, used, remaining, resets_at: resetsAt(tight, nowMs) };
  };
  const slots = standings
    .flatMap(({ concurrency }) => concurrency ?? [])
    .map(({ limit, inUse }) => ({ limit, used: inUse, remaining: Math.max(0, limit - inUse) }));
  const lengths = [...new Set(standings.flatMap(({ windows }) => windows.map(({ perMs }) => perMs)))];
  return {
    rpm: tightestRemainder(standings.map(({ requests }) => requests)),
    tpm: tightestRemainder(standings.map(({ tokens }) => tokens)),
    concurrency: slots.sort((a, b) => a.remaining - b.remaining)[0] ?? null,
    windows: lengths
      .sort((a, b) => a - b)
      .map((perMs) => {
        const same = standings.flatMap(({ windows }) => windows.filter((window) => window.perMs === perMs));
        const money = tightest(same.map(({ nano }) => nano));
        return {
          per_seconds: perMs / 1000,
          requests: tightestRemainder(same.map(({ requests }) => requests)),
          tokens: tightestRemainder(same.map(({ tokens }) => tokens)),
          usd:
            money === null
              ? null
              : {
                  limit: usd(money.limit),
                  used: usd(money.used),
                  remaining: usd(money.remaining),
                  resets_at: resetsAt(money, nowMs),
                },
        };
      }),
  };
}

function tightest(allowances: readonly (Allowance | null | undefined)[]): Allowance | null {
  const present = allowances.flatMap((allowance) => allowance ?? []);
  return present.sort((a, b) => a.remaining - b.remaining)[0] ?? null;
}

/** When the whole limit is free again; now if nothing is used. */
function resetsAt({ resetMs }: Allowance, nowMs: number): number {
  return Math.ceil((nowMs + resetMs) / 1000);
}

function usd(nano: number): string {
  return usdText(BigInt(Math.round(nano)));
}
