/**
 * The searches of the web that a request lets its upstream run, and the member of its body that limits them:
 * `max_tool_calls` of a Responses request, `max_uses` of each search tool of a Messages request. Other dialects have none.
 */

import { type JsonMember, listElements, listMembers } from "../../json/members.ts";
import { foldCase } from "../../json/name.ts";
import { integerValue, type JsonField } from "../../json/scan.ts";
import type { Splice } from "../../json/splice.ts";
import { readText } from "./read-text.ts";
import { classifyToolType } from "./tool-kinds.ts";

/** The member that limits searches: of the request, or of each search tool. */
export type SearchLimitMember = "max_tool_calls" | "max_uses";

/** Plain data. */
export interface SearchOffer {
  /** The most searches that the client itself allows; null if it sets no limit. */
  readonly searchesMax: number | null;
  /** The limits to write. An invalid limit is not among them: the upstream rejects it. */
  readonly limits: readonly ClientLimit[];
}

/** The limit of the request, or of one tool. */
interface ClientLimit {
  /** The ranges of its values or, for a new member, the empty range where it is inserted. */
  readonly ranges: readonly Pick<JsonField, "start" | "end">[];
  /** The name of a new member; null if values are replaced. */
  readonly newMember: SearchLimitMember | null;
  /** Null if the client sets none. */
  readonly own: number | null;
}

export const UNLIMITED_SEARCH: SearchOffer = { searchesMax: null, limits: [] };

interface SearchableScan {
  readonly fields: { readonly max_tool_calls?: JsonField; readonly tools?: JsonField };
  readonly insertAt: number;
}

/** Reads the limit of a body that offers a search. */
export function readSearchOffer(
  bytes: Uint8Array,
  { fields, insertAt }: SearchableScan,
  member: SearchLimitMember | null,
): SearchOffer {
  const { max_tool_calls: calls, tools } = fields;
  if (member === "max_tool_calls")
    return sumLimits([readLimit(bytes, calls === undefined ? [] : [calls], { newMember: member, insertAt })]);
  if (member !== "max_uses" || tools?.kind !== "array") return UNLIMITED_SEARCH;
  return sumLimits(listElements(bytes, tools).flatMap((tool) => readTool(bytes, tool)));
}

/** A request without a limit for one of its tools has none. */
function sumLimits(limits: readonly (ClientLimit | null)[]): SearchOffer {
  let searchesMax: number | null = 0;
  for (const limit of limits)
    searchesMax =
      searchesMax === null || limit === null || limit.own === null ? null : searchesMax + limit.own;
  return { searchesMax, limits: limits.filter((limit) => limit !== null) };
}

/** Empty if the tool is no search. */
function readTool(
  bytes: Uint8Array,
  tool: Pick<JsonField, "start" | "end" | "kind">,
): (ClientLimit | null)[] {
  if (tool.kind !== "object") return [];
  const members = listMembers(bytes, tool);
  const isSearch = members.some(
    (member) =>
      member.name === "type" && classifyToolType(readText(bytes, toField(member)) ?? "") === "web_search",
  );
  if (!isSearch) return [];
  // Decoders differ in which of several members they keep, and some fold case: all of them get the limit.
  const uses = members.filter(({ name }) => foldCase(name) === "max_uses").map(toField);
  return [readLimit(bytes, uses, { newMember: "max_uses", insertAt: tool.start + 1 })];
}

function toField(member: JsonMember): JsonField {
  return { ...member, values: 0 };
}

/** Null if the client sets an invalid limit. */
function readLimit(
  bytes: Uint8Array,
  fields: readonly JsonField[],
  { newMember, insertAt }: { readonly newMember: SearchLimitMember; readonly insertAt: number },
): ClientLimit | null {
  const [first] = fields;
  if (first === undefined) return { ranges: [{ start: insertAt, end: insertAt }], newMember, own: null };
  const ranges = fields.map(({ start, end }) => ({ start, end }));
  if (fields.length > 1 || first.kind === "null") return { ranges, newMember: null, own: null };
  const own = integerValue(bytes, first);
  return own === null || own < 0 ? null : { ranges, newMember: null, own };
}

/** Lowers the limits of the client to this number of searches together, and adds those that it does not set. */
export function limitSearches({ limits }: SearchOffer, searchesMax: number): Splice[] {
  const splices: Splice[] = [];
  let left = searchesMax;
  for (const { ranges, newMember, own } of limits) {
    // Vendors reject a limit of 0.
    const limit = Math.max(1, Math.min(own ?? left, left));
    left -= limit;
    if (own !== null && own <= limit) continue;
    const insert = Buffer.from(newMember === null ? String(limit) : `"${newMember}":${limit},`);
    for (const { start, end } of ranges) splices.push({ start, end, insert });
  }
  return splices;
}
