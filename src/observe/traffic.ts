/**
 * What has gone through this process since it began: numbers that only grow. Counting is a few additions a request;
 * whoever wants a rate looks twice.
 */

export interface Traffic {
  /** Requests that have ended, however they did. Those without a key are nobody's. */
  requests: number;
  refused: number;
  /** Those that went wrong on our side or an upstream's: not what a client got wrong. */
  errors: number;
  inputTokens: number;
  outputTokens: number;
  /** By their prices, whoever paid. A number, for people to look at: the books count exactly. */
  costNano: number;
}

export function openTraffic(): Traffic {
  return { requests: 0, refused: 0, errors: 0, inputTokens: 0, outputTokens: 0, costNano: 0 };
}

/** The fields of a request's row that are counted here. */
export interface EndedTraffic {
  readonly status: number;
  readonly outcome: string;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly costNano: bigint;
}

export function countTraffic(traffic: Traffic, ended: EndedTraffic): void {
  traffic.requests++;
  if (ended.outcome === "refused") traffic.refused++;
  if (isError(ended)) traffic.errors++;
  traffic.inputTokens += ended.inputTokens;
  traffic.outputTokens += ended.outputTokens;
  traffic.costNano += Number(ended.costNano);
}

/** A stream that fails in the middle has said 200 by then; a failure with a 4xx is an upstream's word about the request. */
function isError({ status, outcome }: EndedTraffic): boolean {
  return status >= 500 || outcome === "upstream_cut" || (outcome === "failed" && status < 400);
}
