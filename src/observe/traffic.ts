/**
 * Traffic counters of this process since its start. They only grow. Counting costs a few additions per request; a
 * rate is the difference of two readings.
 */

export interface Traffic {
  /** Finished requests, with any outcome. Requests without a key are not counted. */
  requests: number;
  refused: number;
  /** Requests that failed in the gateway or at an upstream, without client errors. */
  errors: number;
  /** Requests that a fallback step served. */
  fallbacks: number;
  inputTokens: number;
  outputTokens: number;
  /** Cost at list prices, whether paid or not. A number for display; billing counts exactly. */
  costNano: number;
}

export function openTraffic(): Traffic {
  return { requests: 0, refused: 0, errors: 0, fallbacks: 0, inputTokens: 0, outputTokens: 0, costNano: 0 };
}

/** The fields of a usage row that are counted here. */
interface EndedTraffic {
  readonly status: number;
  readonly outcome: string;
  /** Null unless a fallback step served the request. */
  readonly fallbackStep: number | null;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly costNano: bigint;
}

export function countTraffic(traffic: Traffic, ended: EndedTraffic): void {
  traffic.requests++;
  if (ended.outcome === "refused") traffic.refused++;
  if (hasFailed(ended)) traffic.errors++;
  if (ended.fallbackStep !== null) traffic.fallbacks++;
  traffic.inputTokens += ended.inputTokens;
  traffic.outputTokens += ended.outputTokens;
  traffic.costNano += Number(ended.costNano);
}

/**
 * Whether the gateway or an upstream failed, and not the client.
 * A stream that fails midway has already sent status 200. A failure with a 4xx status means that the upstream
 * rejected the request.
 */
export function hasFailed({ status, outcome }: Pick<EndedTraffic, "status" | "outcome">): boolean {
  return status >= 500 || outcome === "upstream_cut" || (outcome === "failed" && status < 400);
}
