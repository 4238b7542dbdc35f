/**
 * Counters of finished requests of this process, by endpoint, model and outcome, for `/metrics`. Counting a request
 * takes a short search and a few additions. All values only grow. Clients cannot add series: only published model
 * names are used.
 */

import { HistogramCounts, type TraceReference } from "./histogram.ts";

/** The fields of a usage row that are counted here. */
export interface EndedRequest {
  readonly endpoint: string;
  readonly publicModel: string;
  readonly accountId: string | null;
  readonly outcome: string;
  readonly status: number;
  readonly errorCode: string | null;
  readonly attempts: number;
  readonly inputTokens: number;
  readonly cachedTokens: number;
  readonly cacheWriteTokens: number;
  readonly outputTokens: number;
  readonly reasoningTokens: number;
  readonly images: number;
  readonly firstByteMs: number | null;
  readonly durationMs: number;
  readonly costNano: bigint;
  readonly chargedNano: bigint;
  readonly upstreamNano: bigint;
}

/** Requests with the same endpoint, model, outcome and status. */
export interface RequestSeries {
  readonly endpoint: string;
  /** Empty for a model that is not published. */
  readonly model: string;
  readonly outcome: string;
  readonly status: number;
  requests: number;
  /** Attempts after the first. */
  retries: number;
  inputTokens: number;
  cachedTokens: number;
  cacheWriteTokens: number;
  outputTokens: number;
  reasoningTokens: number;
  images: number;
  /** Numbers for display. Billing counts exactly. */
  costNano: number;
  chargedNano: number;
  upstreamNano: number;
}

/** In seconds, as Prometheus expects. */
export const DURATION_BOUNDS = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600] as const;

export interface EndpointTimes {
  readonly whole: HistogramCounts;
  readonly firstByte: HistogramCounts;
}

export interface RequestCounts {
  /** By model. */
  readonly series: ReadonlyMap<string, readonly RequestSeries[]>;
  readonly times: ReadonlyMap<string, EndpointTimes>;
  /** By endpoint, then by code. */
  readonly errors: ReadonlyMap<string, ReadonlyMap<string, number>>;
  /** By the id of the account of the last attempt, then by outcome. */
  readonly accounts: ReadonlyMap<string, ReadonlyMap<string, number>>;
  /** `trace`: null if the spans of the request are not exported. */
  add(ended: EndedRequest, isPublished: boolean, trace?: TraceReference | null): void;
}

export function openRequestCounts(): RequestCounts {
  const series = new Map<string, RequestSeries[]>();
  const times = new Map<string, EndpointTimes>();
  const errors = new Map<string, Map<string, number>>();
  const accounts = new Map<string, Map<string, number>>();

  function findOrAddSeries({ endpoint, outcome, status }: EndedRequest, model: string): RequestSeries {
    const modelSeries = getOrCreate(series, model, () => []);
    for (const one of modelSeries) {
      if (one.endpoint === endpoint && one.outcome === outcome && one.status === status) return one;
    }
    const created = createSeries(endpoint, model, outcome, status);
    modelSeries.push(created);
    return created;
  }

  return {
    series,
    times,
    errors,
    accounts,
    add(ended, isPublished, trace = null) {
      const { endpoint, accountId, errorCode, firstByteMs } = ended;
      addTo(findOrAddSeries(ended, isPublished ? ended.publicModel : ""), ended);
      const { whole, firstByte } = getOrCreate(times, endpoint, createTimes);
      whole.add(ended.durationMs / 1_000, trace);
      if (firstByteMs !== null) firstByte.add(firstByteMs / 1_000, trace);
      if (errorCode !== null) increment(getOrCreate(errors, endpoint, createCounter), errorCode);
      if (accountId !== null) increment(getOrCreate(accounts, accountId, createCounter), ended.outcome);
    },
  };
}

function addTo(series: RequestSeries, ended: EndedRequest): void {
  series.requests++;
  series.retries += Math.max(0, ended.attempts - 1);
  series.inputTokens += ended.inputTokens;
  series.cachedTokens += ended.cachedTokens;
  series.cacheWriteTokens += ended.cacheWriteTokens;
  series.outputTokens += ended.outputTokens;
  series.reasoningTokens += ended.reasoningTokens;
  series.images += ended.images;
  series.costNano += Number(ended.costNano);
  series.chargedNano += Number(ended.chargedNano);
  series.upstreamNano += Number(ended.upstreamNano);
}

function createSeries(endpoint: string, model: string, outcome: string, status: number): RequestSeries {
  return {
    endpoint,
    model,
    outcome,
    status,
    requests: 0,
    retries: 0,
    inputTokens: 0,
    cachedTokens: 0,
    cacheWriteTokens: 0,
    outputTokens: 0,
    reasoningTokens: 0,
    images: 0,
    costNano: 0,
    chargedNano: 0,
    upstreamNano: 0,
  };
}

function createTimes(): EndpointTimes {
  return { whole: new HistogramCounts(DURATION_BOUNDS), firstByte: new HistogramCounts(DURATION_BOUNDS) };
}

const createCounter = () => new Map<string, number>();

function increment(counter: Map<string, number>, name: string): void {
  counter.set(name, (counter.get(name) ?? 0) + 1);
}

function getOrCreate<Entry>(map: Map<string, Entry>, name: string, begin: () => Entry): Entry {
  let entry = map.get(name);
  if (entry === undefined) {
    entry = begin();
    map.set(name, entry);
  }
  return entry;
}
