/** The limits of a caller: those of its key, its user and its group, reserved in one step or not at all. */

import { retryAfter } from "../../accounts/failure.ts";
import type { Clock } from "../../base/clock.ts";
import { MINUTE_MS, wholeSeconds } from "../../base/time.ts";
import { ApiError, type RejectingLimit } from "../../errors.ts";
import type {
  Allowance,
  EstimatedUse,
  Limiter,
  LimitLease,
  Scope,
  Shortage,
  Subject,
} from "../../limits/limiter-types.ts";
import { isUnlimited } from "../../limits/subject-state.ts";
import { amountText, spanText } from "../../money/amount-text.ts";
import type { Key } from "../../policy/key-index.ts";
import type { PolicyGroup } from "../../policy/snapshot.ts";
import { type CallerLimits, MINUTE_KINDS, MINUTE_LIMITS, WINDOW_UNITS } from "../../records/limits.ts";
import { type CountedUnits, findCountedUnits } from "../metering/limited-use.ts";
import type { Caller } from "./authenticate.ts";

/** Keys and groups are replaced when they change, so a cached result stays valid as long as its objects exist. */
const subjectsByKey = new WeakMap<Key, { group: PolicyGroup; subjects: readonly Subject[] }>();

export function callerSubjects(caller: Caller): readonly Subject[] {
  const cached = subjectsByKey.get(caller.key);
  if (cached?.group === caller.group) return cached.subjects;
  const subjects = subjectsFor(caller);
  subjectsByKey.set(caller.key, { group: caller.group, subjects });
  return subjects;
}

/** The estimates that the caller's limits need before a request can be admitted. */
interface ReservedUse {
  counted: CountedUnits;
  /** The caller has token or USD windows of hours or days. Use that is not counted in them would be free. */
  windows: boolean;
  /** The smallest USD window; infinite without one. */
  nanoMax: number;
}

const reservedUseBySubjects = new WeakMap<readonly Subject[], ReservedUse>();

export function computeReservedUse(subjects: readonly Subject[]): ReservedUse {
  const cached = reservedUseBySubjects.get(subjects);
  if (cached !== undefined) return cached;
  const windows = subjects.flatMap(({ limits }) => ("windows" in limits ? limits.windows : []));
  const computed: ReservedUse = {
    counted: findCountedUnits(subjects.map(({ limits }) => limits)),
    windows: windows.some((window) =>
      WINDOW_UNITS.some((unit) => unit !== "requests" && window[unit] !== null),
    ),
    nanoMax: Math.min(...windows.map(({ nano }) => nano ?? Number.POSITIVE_INFINITY)),
  };
  reservedUseBySubjects.set(subjects, computed);
  return computed;
}

/** A group sets limits for each of its keys and for all of them together. A key and a user may have their own. */
function subjectsFor(caller: Caller): readonly Subject[] {
  return [...ownSubjects(caller), ...groupSubjects(caller)];
}

/** The limits that a caller has in every group. */
export function ownSubjects({ key }: Pick<Caller, "key">): Subject[] {
  const subjects: Subject[] = [{ scope: "key", id: key.id, limits: key.limits }];
  if (key.userId !== null) subjects.push(userSubject(key.userId, key.userLimits));
  return subjects;
}

/** The limits that a caller has in its group: those for each key, and those for all keys together. */
export function groupSubjects({ key, group }: Caller): Subject[] {
  return [keyInGroupSubject(key, group), groupSubject(group)];
}

export function keySubjects(key: Pick<Key, "id" | "limits">, group: PolicyGroup): Subject[] {
  return [{ scope: "key", id: key.id, limits: key.limits }, keyInGroupSubject(key, group)];
}

function keyInGroupSubject({ id }: Pick<Key, "id">, group: PolicyGroup): Subject {
  return { scope: "key", id: keyInGroupId(id, group.id), limits: group.limits };
}

export function keyInGroupId(keyId: string, groupId: string): string {
  return `${keyId} in ${groupId}`;
}

export function groupSubject(group: PolicyGroup): Subject {
  return { scope: "group", id: group.id, limits: group.groupLimits };
}

export function userSubject(id: string, limits: CallerLimits): Subject {
  return { scope: "user", id, limits };
}

/** Throws if the request is larger than what the windows have left. The caller then cancels the lease. */
export function raiseReservation(
  limits: LimitSource,
  { lease, subjects }: { readonly lease: LimitLease; readonly subjects: readonly Subject[] },
  estimate: EstimatedUse,
): void {
  const shortage = limits.limiter.raise(lease, subjects, estimate);
  if (shortage !== null) throw limitError(limits, subjects, shortage);
}

interface LimitSource {
  readonly limiter: Limiter;
  readonly clock: Pick<Clock, "nowMs">;
}

export function limitError(
  { limiter, clock }: LimitSource,
  subjects: readonly Subject[],
  shortage: Shortage,
): ApiError {
  const headerMap = new Map([["retry-after", retryAfter(shortage.freesInMs)]]);
  addRateHeaders(headerMap, limiter, subjects);
  const headers = Object.fromEntries(headerMap);
  if (shortage.isReserved) return reservedInFlight(shortage, headers);
  if (shortage.unit === "nano") return windowExhausted(shortage, headers, clock.nowMs());
  return new ApiError("rate_limit_exceeded", shortageText(shortage), {
    headers,
    limit: rejectingLimit(shortage),
  });
}

export function hasLimits(subjects: readonly Subject[]): boolean {
  return subjects.some(({ limits }) => !isUnlimited(limits));
}

/** For installations that prefer no service to limits that are not exact. */
export function coordinatorLost(): ApiError {
  return new ApiError(
    "store_unavailable",
    "The limits of this key cannot be checked now, because the coordinator of the gateway's nodes does not respond. Try again in a few seconds.",
    { headers: { "retry-after": retryAfter(COORDINATOR_RETRY_MS) } },
  );
}

const COORDINATOR_RETRY_MS = 5_000;

function rejectingLimit({ scope, id, kind, unit }: Shortage): RejectingLimit {
  return { scope, kind: unit === "nano" ? "money" : kind, subjectId: id };
}

/** The error of a request that waited in vain for its concurrency limit, or whose queue is full. */
export function queueTimeoutError(
  { limiter }: LimitSource,
  subjects: readonly Subject[],
  { scope, id, max }: Shortage,
  detail: string,
): ApiError {
  const headerMap = new Map([["retry-after", retryAfter(null)]]);
  addRateHeaders(headerMap, limiter, subjects);
  return new ApiError(
    "rate_limit_exceeded",
    `Rate limit reached for ${SCOPE_TEXT[scope]}: ${slotsText(max)}. ${detail} Please try again in ${retryAfter(null)}s.`,
    {
      headers: Object.fromEntries(headerMap),
      limit: { scope, kind: "concurrency", isQueue: true, subjectId: id },
    },
  );
}

/** Formats a timeout. */
export function waitText(ms: number): string {
  return ms < 1_000 ? `${ms} ms` : `${Math.round(ms / 1_000)} s`;
}

function slotsText(max: number): string {
  return `${max} concurrent ${max === 1 ? "request" : "requests"}`;
}

const IN_FLIGHT_RETRY_MS = 1_000;

/** The window is reserved, not used up: it frees when a request in flight ends, so a retry soon makes sense. */
function reservedInFlight({ scope, id, max, perMs }: Shortage, headers: Record<string, string>): ApiError {
  return new ApiError(
    "rate_limit_exceeded",
    `Rate limit reached for ${SCOPE_TEXT[scope]}: the remaining quota of ${amountText("nano", max)} per ${spanText(perMs ?? 0)} is reserved for requests in flight. Try again when one of them has ended, or set a lower maximum of output tokens.`,
    {
      headers: { ...headers, "retry-after": retryAfter(IN_FLIGHT_RETRY_MS) },
      limit: { scope, kind: "money", subjectId: id },
    },
  );
}

/** For a longer wait `x-should-retry: false` is sent: libraries that retry would only keep their users waiting. */
const RETRY_WORTHWHILE_MS = 60_000;

/** A used-up USD window. Codex knows this error type: it shows the reset time instead of retrying. */
function windowExhausted(
  { scope, id, max, used, perMs, freesInMs }: Shortage,
  headers: Record<string, string>,
  nowMs: number,
): ApiError {
  const limit = `${amountText("nano", max)} per ${spanText(perMs ?? 0)}`;
  const what =
    used >= max ? `${limit} is exhausted` : `only ${amountText("nano", max - used)} of ${limit} is left`;
  const resetsAtMs = freesInMs === null ? null : Math.ceil((nowMs + freesInMs) / 1000) * 1000;
  const when =
    resetsAtMs === null ? "" : ` Try again at ${new Date(resetsAtMs).toISOString().replace(".000Z", "Z")}.`;
  return new ApiError(
    "usage_limit_reached",
    `Usage limit reached for ${SCOPE_TEXT[scope]}: ${what}.${when}`,
    {
      headers: (freesInMs ?? 0) > RETRY_WORTHWHILE_MS ? { ...headers, "x-should-retry": "false" } : headers,
      resetsAtMs,
      limit: { scope, kind: "money", subjectId: id },
    },
  );
}

const SCOPE_TEXT: Readonly<Record<Scope, string>> = {
  key: "this API key",
  user: "your user",
  group: "this key's group",
  account: "the model",
};

function shortageText({ scope, kind, max, used, unit, perMs, freesInMs }: Shortage): string {
  const when =
    freesInMs === null
      ? "Capacity becomes available when a request finishes."
      : `Please try again in ${wholeSeconds(freesInMs)}s.`;
  const limit =
    kind === "concurrency" ? slotsText(max) : `${amountText(unit, max)} per ${spanText(perMs ?? MINUTE_MS)}`;
  const left =
    unit !== "requests" && used < max
      ? `, of which ${max - used} are left, fewer than this request may need`
      : "";
  return `Rate limit reached for ${SCOPE_TEXT[scope]}: ${limit}${left}. ${when}`;
}

/** `x-ratelimit-*` for the key: the tightest of its own limits and the per-key limits of its group. */
export function addRateHeaders(
  headers: Pick<Headers, "set">,
  limiter: Limiter,
  subjects: readonly Subject[],
): void {
  for (const kind of MINUTE_KINDS) {
    let tightest: Allowance | null = null;
    for (const subject of subjects) {
      if (subject.scope !== "key") continue;
      const allowance = limiter.allowance(subject, kind);
      if (allowance && (tightest === null || allowance.remaining < tightest.remaining)) tightest = allowance;
    }
    if (tightest === null) continue;
    const { header } = MINUTE_LIMITS[kind];
    headers.set(`x-ratelimit-limit-${header}`, String(tightest.limit));
    headers.set(`x-ratelimit-remaining-${header}`, String(Math.max(0, tightest.remaining)));
    headers.set(`x-ratelimit-reset-${header}`, formatGoDuration(tightest.resetMs));
  }
}

/** `12ms`, `1.5s`, `6m0s`: the format that OpenAI's clients parse. */
export function formatGoDuration(ms: number): string {
  if (ms < 1_000) return `${Math.ceil(Math.max(0, ms))}ms`;
  const tenths = Math.ceil(ms / 100);
  if (tenths < 600) return `${tenths / 10}s`;
  const seconds = Math.ceil(ms / 1_000);
  return `${Math.floor(seconds / 60)}m${seconds % 60}s`;
}
