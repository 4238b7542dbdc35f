/** What dispatch did with one request, kept so that it can be explained afterwards. */

import type { Route } from "../policy/snapshot.ts";
import type { Candidate } from "../pool/pool.ts";
import type { UpstreamFailure } from "../upstreams/failure.ts";

export interface AttemptTrace {
  accountId: string;
  accountName: string;
  upstreamModel: string;
  /** Since the request came in. */
  startedMs: number;
  firstByteMs: number | null;
  endedMs: number | null;
  status: number | null;
  /** Null for the attempt that served the request. */
  failure: string | null;
  reason: string | null;
}

/** As stored: plain data. */
export interface DispatchTrace {
  waitedMs: number;
  /** The accounts that were weighed at the last choice, with reasons and scores. */
  candidates: Candidate[];
  attempts: AttemptTrace[];
}

export interface Trace {
  /** The account of the last attempt. */
  readonly route: Route | null;
  readonly attempts: number;
  readonly waitedMs: number;
  readonly upstreamRequestId: string | null;
  /** Since the request came in. */
  firstByteMs(): number | null;
  /** How long the account of the last attempt took to its first byte, without any waiting before that. */
  latencyMs(): number | null;
  weighed(candidates: Candidate[]): void;
  waitBegins(): void;
  waitEnds(): void;
  attemptBegins(route: Route): void;
  firstByte(upstreamRequestId: string | null): void;
  attemptFailed(failure: UpstreamFailure): void;
  /** One account, one attempt, no wait: the usage row says it all. */
  isOrdinary(): boolean;
  snapshot(): DispatchTrace;
}

export function openTrace(startedMs: number, monotonicMs: () => number): Trace {
  const since = () => Math.round(monotonicMs() - startedMs);
  const attempts: AttemptTrace[] = [];
  let candidates: Candidate[] = [];
  let waitedMs = 0;
  let waitingSinceMs: number | null = null;
  let route: Route | null = null;
  let requestId: string | null = null;
  /** A client may leave while it waits: what it has waited until then counts. */
  const waited = () => waitedMs + (waitingSinceMs === null ? 0 : Math.round(monotonicMs() - waitingSinceMs));
  return {
    get route() {
      return route;
    },
    get attempts() {
      return attempts.length;
    },
    get waitedMs() {
      return waited();
    },
    get upstreamRequestId() {
      return requestId;
    },
    firstByteMs: () => attempts.at(-1)?.firstByteMs ?? null,
    latencyMs() {
      const last = attempts.at(-1);
      return last === undefined || last.firstByteMs === null ? null : last.firstByteMs - last.startedMs;
    },
    weighed(looked) {
      candidates = looked;
    },
    waitBegins() {
      waitingSinceMs = monotonicMs();
    },
    waitEnds() {
      waitedMs = waited();
      waitingSinceMs = null;
    },
    attemptBegins(taken) {
      route = taken;
      requestId = null;
      attempts.push({
        accountId: taken.account.id,
        accountName: taken.account.name,
        upstreamModel: taken.upstreamModel,
        startedMs: since(),
        firstByteMs: null,
        endedMs: null,
        status: null,
        failure: null,
        reason: null,
      });
    },
    firstByte(id) {
      requestId = id;
      const last = attempts.at(-1);
      if (last) {
        last.firstByteMs = since();
        last.status = 200;
      }
    },
    attemptFailed(failure) {
      const last = attempts.at(-1);
      if (!last) return;
      last.endedMs = since();
      last.status = failure.status;
      last.failure = failure.class;
      last.reason = failure.reason;
    },
    isOrdinary: () =>
      candidates.length === 0 && waited() === 0 && attempts.length <= 1 && attempts[0]?.failure == null,
    snapshot: () => ({ waitedMs: waited(), candidates, attempts }),
  };
}
