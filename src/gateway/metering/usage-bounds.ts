/** Bounds a usage report by what the request allowed: no user pays for what an upstream invents. */

import { lowest } from "../../base/lowest.ts";
import { usageLimits } from "../../count-limits.ts";
import type { Tariff } from "../../money/tariff.ts";
import type { Endpoint } from "../../protocols/shared/endpoint.ts";
import type { ModelRequest } from "../../protocols/shared/request.ts";
import { isImpossibleUsage, type ModelWindow, type TokenUsage } from "../../protocols/shared/usage.ts";
import { isTranslated, type Trace } from "../request/trace.ts";

export interface MeteredModel extends ModelWindow {
  readonly tariff: Tariff | null;
}

/** What the usage of a request is measured and bounded by: a part of its context. */
export interface MeteredRequest {
  readonly endpoint: Endpoint;
  readonly request: ModelRequest;
  readonly model: MeteredModel | null;
  readonly trace: Trace;
  readonly charge: { readonly searchesMax: number | null } | null;
  readonly windowSearches: number | null;
}

const NO_WINDOW: ModelWindow = { contextTokens: null, outputTokensMax: null };

export interface BoundedReport {
  /** Null if there is none, or if it is implausible. */
  readonly usage: TokenUsage | null;
  readonly images: number;
  readonly verdict: "plausible" | "reduced" | "implausible";
}

export function boundReport(
  metered: MeteredRequest,
  { usage, images }: { readonly usage: TokenUsage | null; readonly images: number },
): BoundedReport {
  const boundedImages = boundImages(images, metered);
  if (usage !== null && isImplausible(usage, metered))
    return { usage: null, images: boundedImages, verdict: "implausible" };
  const bounded = usage === null ? null : boundSearches(usage, metered);
  const isReduced = bounded !== usage || boundedImages !== images;
  return { usage: bounded, images: boundedImages, verdict: isReduced ? "reduced" : "plausible" };
}

/** The same for a response that is read when its request is no longer known. Its tools may have run in many rounds. */
export function boundLateReport(
  usage: TokenUsage,
  window: ModelWindow,
  searchesMax: number = usageLimits.webSearchesMax,
): BoundedReport {
  if (isImpossibleUsage(usage, window, { rounds: usageLimits.toolRoundsMax }))
    return { usage: null, images: 0, verdict: "implausible" };
  if (usage.webSearches <= searchesMax) return { usage, images: 0, verdict: "plausible" };
  return { usage: { ...usage, webSearches: searchesMax }, images: 0, verdict: "reduced" };
}

/** Searches above what was paid for, as far as the report is believed. They are the operator's cost. */
export function countUnpaidSearches(
  usage: TokenUsage | null,
  counted: { readonly webSearches: number },
): number {
  if (usage === null || usage.webSearches > usageLimits.webSearchesMax) return 0;
  return Math.max(0, usage.webSearches - counted.webSearches);
}

/** An image endpoint returns at most as many images as the client requested. */
function boundImages(images: number, { endpoint, request }: MeteredRequest): number {
  return endpoint.output === "image" ? Math.min(images, request.choices) : images;
}

function boundSearches(usage: TokenUsage, metered: MeteredRequest): TokenUsage {
  if (usage.webSearches === 0) return usage;
  const searchesMax = readSearchesMax(metered);
  return usage.webSearches <= searchesMax ? usage : { ...usage, webSearches: searchesMax };
}

function isImplausible(usage: TokenUsage, { endpoint, request, model }: MeteredRequest): boolean {
  const { choices } = request;
  const window = model ?? NO_WINDOW;
  // Nearly all reports fit one window. Only for the others the body is searched for hosted tools.
  if (!isImpossibleUsage(usage, window, { choices })) return false;
  const isOneWindow =
    endpoint.readsInputOnce && request.previousResponseId === null && !request.inputContents().hostsTools;
  if (isOneWindow) return true;
  // Each text of an embedding has its own window.
  if (endpoint.output === "vector") return isImpossibleUsage(usage, { ...window, contextTokens: null });
  return isImpossibleUsage(usage, window, { choices, rounds: usageLimits.toolRoundsMax });
}

/** The most searches that the payer and the USD windows of a request pay for; null if searches cost nothing. */
export function searchesPaidFor(record: {
  readonly charge: { readonly searchesMax: number | null } | null;
  readonly windowSearches: number | null;
}): number | null {
  return lowest(record.charge?.searchesMax ?? null, record.windowSearches);
}

/**
 * The searches that are charged: those that a hold or a USD window pays for. Where no payer is charged, those that the
 * request allows, else the product's limit.
 */
function readSearchesMax(metered: MeteredRequest): number {
  const { webSearchesMax } = usageLimits;
  const paid = searchesPaidFor(metered);
  if (paid !== null) return paid;
  // A translation may have dropped the limit of the client's dialect.
  if (isTranslated(metered.trace)) return webSearchesMax;
  return metered.request.searchOffer()?.searchesMax ?? webSearchesMax;
}
