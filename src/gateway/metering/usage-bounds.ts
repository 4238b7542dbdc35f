/**
 * Bounds the counts of a usage report by what the request allowed. An upstream can report anything, and a user must not
 * pay for it.
 */

import { usageLimits } from "../../count-limits.ts";
import { isObject, parseJson } from "../../json/parse.ts";
import { integerValue, scanObject, wantedFields } from "../../json/scan.ts";
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
}

const NO_WINDOW: ModelWindow = { contextTokens: null, outputTokensMax: null };

/** A report within the bounds of its request. */
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
export function boundLateReport(usage: TokenUsage, window: ModelWindow): BoundedReport {
  const { toolRoundsMax, webSearchesMax } = usageLimits;
  if (isImpossibleUsage(usage, window, { rounds: toolRoundsMax }))
    return { usage: null, images: 0, verdict: "implausible" };
  if (usage.webSearches <= webSearchesMax) return { usage, images: 0, verdict: "plausible" };
  return { usage: { ...usage, webSearches: webSearchesMax }, images: 0, verdict: "reduced" };
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
    endpoint.readsInputOnce && request.previousResponseId === null && !request.inputReach().hostsTools;
  if (isOneWindow) return true;
  // Each text of an embedding has its own window.
  if (endpoint.output === "vector") return isImpossibleUsage(usage, { ...window, contextTokens: null });
  return isImpossibleUsage(usage, window, { choices, rounds: usageLimits.toolRoundsMax });
}

const LIMIT_FIELDS = wantedFields(["tools", "max_tool_calls"]);
/** The body was scanned with its real limit before. */
const BODY_DEPTH_MAX = 512;
/** Longer lists of tools are not parsed for a limit. */
const TOOLS_BYTES_MAX = 256 * 1024;

/** Searches that the request allows: `max_tool_calls` of Responses, `max_uses` of Messages, else the product's limit. */
function readSearchesMax({ endpoint, request, trace }: MeteredRequest): number {
  const { webSearchesMax } = usageLimits;
  // A translation may have dropped the limit of the client's dialect.
  if (isTranslated(trace) || request.inputText.kind !== "json") return webSearchesMax;
  const { bytes, start, end } = request.inputText.body;
  const scan = scanObject(bytes, start, end, LIMIT_FIELDS, { depthMax: BODY_DEPTH_MAX });
  if (!scan.ok) return webSearchesMax;
  const { tools, max_tool_calls: calls } = scan.fields;
  if (endpoint.searchLimit === "max_tool_calls" && calls !== undefined) {
    const callsMax = integerValue(bytes, calls);
    // A negative limit would make a negative charge.
    return callsMax !== null && callsMax >= 0 ? callsMax : webSearchesMax;
  }
  if (endpoint.searchLimit !== "max_uses" || tools === undefined) return webSearchesMax;
  if (tools.end - tools.start > TOOLS_BYTES_MAX) return webSearchesMax;
  return sumMaxUses(parseJson(bytes, tools.start, tools.end)) ?? webSearchesMax;
}

/** Null if a search tool has no limit. */
function sumMaxUses(tools: unknown): number | null {
  if (!Array.isArray(tools)) return null;
  let sum: number | null = null;
  for (const tool of tools) {
    if (!isObject(tool) || typeof tool.type !== "string" || !tool.type.startsWith("web_search")) continue;
    const { max_uses: uses } = tool;
    if (typeof uses !== "number" || !Number.isInteger(uses) || uses < 0) return null;
    sum = (sum ?? 0) + uses;
  }
  return sum;
}
