/**
 * Metrics of finished requests that need more than their usage row: the first token, waits, limits and attempts. All
 * values only grow. Labels are names of models and groups and ids of accounts, so clients cannot add series.
 */

import { HistogramCounts, LabelledHistogram, PairCounter, type TraceReference } from "./histogram.ts";

/** In seconds. Reasoning models may take minutes to begin. */
const LATENCY_BOUNDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300] as const;
/** Output tokens in a second. */
const SPEED_BOUNDS = [1, 2.5, 5, 10, 20, 40, 60, 80, 100, 150, 200, 300, 500, 1_000] as const;

/** In seconds. Settlements and waits for other nodes take milliseconds. */
const SHORT_WAIT_BOUNDS = [
  0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5,
] as const;

/** A rate over fewer tokens is not representative of the model. */
const SPEED_TOKENS_MIN = 16;

interface LimitRejection {
  readonly scope: "key" | "user" | "group" | "account";
  readonly kind: string;
  /** The request waited in the queue of its group until its time-out, or the queue was full. */
  readonly isQueue?: boolean;
}

interface MeasuredAttempt {
  readonly accountId: string;
  readonly startedMs: number;
  readonly endedMs: number | null;
  /** Null for the attempt that served the request. */
  readonly failure: string | null;
}

/** Which step served a request instead of the first one. `from` and `to` are names of a group and a model. */
export interface ServedFallback {
  readonly from: string;
  readonly to: string;
  readonly reason: string;
}

export interface MeasuredRequest {
  /** Empty for a model that is not published. */
  readonly model: string;
  readonly group: string;
  readonly durationMs: number;
  readonly waitMs: number;
  /** Since the request was received; null if no content was streamed. */
  readonly firstContentMs: number | null;
  readonly outputTokens: number;
  readonly limit: LimitRejection | null;
  readonly attempts: readonly MeasuredAttempt[];
  readonly isSocketTurn: boolean;
  /** Null if the first step served the request, or none. */
  readonly fallback: ServedFallback | null;
  /** Null if the spans of the request are not exported. */
  readonly traceReference?: TraceReference | null;
}

export class RequestMetrics {
  /** By model. */
  readonly firstToken = new LabelledHistogram(LATENCY_BOUNDS);
  /** By model. */
  readonly outputSpeed = new LabelledHistogram(SPEED_BOUNDS);
  /** By group: only requests that waited. */
  readonly queueWait = new LabelledHistogram(LATENCY_BOUNDS);
  /** By id of the account: from the start of an attempt to its end. */
  readonly upstream = new LabelledHistogram(LATENCY_BOUNDS);
  /** By id of the account, then by failure class or `ok`. */
  readonly attempts = new PairCounter();
  /** By model, then by the failure class that made the next attempt necessary. */
  readonly failovers = new PairCounter();
  /** By scope, then by kind. */
  readonly limitRejections = new PairCounter();
  /** Requests that a fallback step served: by the target that could not serve them, the step's, and the reason. */
  readonly fallbacks = new Map<string, ServedFallback & { count: number }>();
  readonly queueRejections = new Map<string, number>();
  /** How long the end of a paid request waited for its settlement. */
  readonly settlements = new HistogramCounts(SHORT_WAIT_BOUNDS);
  /** How long requests waited to borrow a part of a limit: only requests that waited. */
  readonly shareWait = new HistogramCounts(SHORT_WAIT_BOUNDS);
  socketTurns = 0;
  socketsOpen = 0;
  /** The money that is held for requests in flight. A number for display; billing counts exactly. */
  heldNano = 0;

  add(request: MeasuredRequest): void {
    const { model, group, waitMs, limit } = request;
    if (waitMs > 0) this.queueWait.add(group, waitMs / 1_000);
    if (limit !== null) this.#addRejection(group, limit);
    if (request.isSocketTurn) this.socketTurns++;
    if (request.fallback !== null) this.#addFallback(request.fallback);
    if (model !== "") this.#addSpeed(request);
    this.#addAttempts(request);
  }

  #addFallback({ from, to, reason }: ServedFallback): void {
    const name = JSON.stringify([from, to, reason]);
    const counted = this.fallbacks.get(name);
    if (counted === undefined) this.fallbacks.set(name, { from, to, reason, count: 1 });
    else counted.count++;
  }

  #addSpeed({ model, firstContentMs, durationMs, outputTokens, traceReference }: MeasuredRequest): void {
    if (firstContentMs === null) return;
    this.firstToken.add(model, firstContentMs / 1_000, traceReference);
    const outputMs = durationMs - firstContentMs;
    if (outputTokens >= SPEED_TOKENS_MIN && outputMs > 0)
      this.outputSpeed.add(model, (outputTokens * 1_000) / outputMs);
  }

  #addRejection(group: string, { scope, kind, isQueue }: LimitRejection): void {
    this.limitRejections.add(scope, kind);
    if (isQueue === true) this.queueRejections.set(group, (this.queueRejections.get(group) ?? 0) + 1);
  }

  #addAttempts({ model, attempts, durationMs }: MeasuredRequest): void {
    for (let i = 0; i < attempts.length; i++) {
      const attempt = attempts[i];
      if (attempt === undefined) continue;
      const { accountId, failure } = attempt;
      this.attempts.add(accountId, failure ?? "ok");
      this.upstream.add(accountId, ((attempt.endedMs ?? durationMs) - attempt.startedMs) / 1_000);
      if (failure !== null && i < attempts.length - 1) this.failovers.add(model, failure);
    }
  }
}
