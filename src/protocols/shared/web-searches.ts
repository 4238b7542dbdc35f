/** Counts the web searches of a response, for upstreams that do not report them in its usage. They are billed by the call. */

import { findBytes } from "../../base/bytes.ts";
import { JSON_DEPTH_MAX } from "../../count-limits.ts";
import { firstElements } from "../../json/array.ts";
import { isObject } from "../../json/parse.ts";
import { type JsonField, scanObject, wantedFields } from "../../json/scan.ts";
import { OBJECT_OPEN } from "../../json/walk.ts";
import { parseMember } from "./event-bounds.ts";
import type { TokenUsage } from "./usage.ts";

const SEARCH_CALL = "web_search_call";
const SEARCH_CALL_MARK = Buffer.from(`"${SEARCH_CALL}"`);
const QUERIES_MARK = Buffer.from('"webSearchQueries"');
const CANDIDATE = wantedFields(["groundingMetadata"]);

/** Responses: the items of the output that are searches. Opening a found page is not one. */
export function countSearchItems(output: unknown): number {
  return Array.isArray(output) ? output.filter(isSearchItem).length : 0;
}

function isSearchItem(item: unknown): boolean {
  if (!isObject(item) || item.type !== SEARCH_CALL) return false;
  return !isObject(item.action) || item.action.type === undefined || item.action.type === "search";
}

/** The same in JSON. Almost no output has a search, and then it is not parsed. */
export function countSearchesInOutput(bytes: Uint8Array, output: JsonField | undefined): number {
  if (output?.kind !== "array" || !contains(bytes, output, SEARCH_CALL_MARK)) return 0;
  let searches = 0;
  for (const element of firstElements(bytes, output, Number.POSITIVE_INFINITY)) {
    if (!contains(bytes, element, SEARCH_CALL_MARK)) continue;
    if (isSearchItem(parseMember(bytes, element))) searches++;
  }
  return searches;
}

/** Gemini: the queries that ground a candidate. Every event of a stream may repeat them. */
export function countQueries(candidate: unknown): number {
  const metadata = isObject(candidate) ? candidate.groundingMetadata : null;
  const queries = isObject(metadata) ? metadata.webSearchQueries : null;
  return Array.isArray(queries) ? queries.length : 0;
}

/** The same in JSON, of all candidates. */
export function countQueriesInCandidates(bytes: Uint8Array, candidates: JsonField | undefined): number {
  if (candidates?.kind !== "array" || !contains(bytes, candidates, QUERIES_MARK)) return 0;
  let queries = 0;
  for (const { start, end } of firstElements(bytes, candidates, Number.POSITIVE_INFINITY)) {
    if (bytes[start] !== OBJECT_OPEN) continue;
    const scan = scanObject(bytes, start, end, CANDIDATE, { depthMax: JSON_DEPTH_MAX });
    const metadata = scan.ok ? scan.fields.groundingMetadata : undefined;
    if (metadata !== undefined) queries += countQueries({ groundingMetadata: parseMember(bytes, metadata) });
  }
  return queries;
}

/** Google bills models before Gemini 3 once for a prompt, whatever number of queries it leads to. */
export function withQueries(
  usage: TokenUsage | null,
  queries: number,
  modelVersion: string | null,
): TokenUsage | null {
  const isBilledByPrompt = modelVersion !== null && /\bgemini-[12]\b/.test(modelVersion);
  return withSearches(usage, isBilledByPrompt ? Math.min(1, queries) : queries);
}

/** Chat Completions: OpenAI's search models search once for every response, and report it nowhere. */
export function isSearchModel(model: string): boolean {
  return /-search-(?:preview|api)(?:-|$)/.test(model);
}

/** `model` is the name that the upstream reports. */
export function withImpliedSearch(usage: TokenUsage | null, model: string | null): TokenUsage | null {
  if (usage === null || usage.webSearches > 0 || model === null || !isSearchModel(model)) return usage;
  return { ...usage, webSearches: 1 };
}

export function withSearches(usage: TokenUsage | null, searches: number): TokenUsage | null {
  return usage === null || searches === 0 ? usage : { ...usage, webSearches: searches };
}

function contains(bytes: Uint8Array, range: Pick<JsonField, "start" | "end">, mark: Uint8Array): boolean {
  return findBytes(bytes, mark, range.start, range.end) !== -1;
}
