/** Search of the web as a hosted tool. Every dialect has one, with options of other names and places. */

import type { DroppedFields } from "./dropped-fields.ts";
import type { HostedTool, HubRequest, HubTool, HubToolChoice } from "./hub-request.ts";
import { type Json, readObject } from "./json-values.ts";

type SearchOption =
  | "allowed_domains"
  | "blocked_domains"
  | "user_location"
  | "search_context_size"
  | "max_uses";

type SearchOptions = Readonly<Partial<Record<SearchOption, unknown>>>;

export interface WebSearch {
  /** Where the client requests it, for the names of dropped options. */
  readonly path: string;
  readonly options: SearchOptions;
  /** Options that only the client's dialect has. */
  readonly others: readonly string[];
}

/** Members that are no options, or that `readOptions` reads. */
const READ_MEMBERS: ReadonlySet<string> = new Set([
  "type",
  "name",
  "filters",
  "allowed_domains",
  "blocked_domains",
  "user_location",
  "search_context_size",
  "max_uses",
  "cache_control",
  "allowed_callers",
  // A search without it is not a search of the web, so that it is always true here.
  "external_web_access",
]);

export function isWebSearch(tool: HubTool): tool is HostedTool {
  return tool.kind === "hosted" && tool.type === "web_search";
}

export function findWebSearch({ tools }: HubRequest): WebSearch | null {
  const tool = tools.find(isWebSearch);
  if (tool === undefined) return null;
  const options = tool.json;
  const others = Object.keys(options).filter((name) => !READ_MEMBERS.has(name) && options[name] != null);
  return { path: tool.path, options: readOptions(options), others };
}

function readOptions(json: Json): SearchOptions {
  const { allowed_domains, blocked_domains, max_uses, search_context_size } = json;
  const filters = readObject(json.filters);
  const place = readObject(json.user_location);
  // Chat Completions has the members of the place in an object of its own.
  const approximate = readObject(place?.approximate);
  const user_location = approximate === null ? place : { type: "approximate", ...approximate };
  return {
    allowed_domains: allowed_domains ?? filters?.allowed_domains,
    blocked_domains: blocked_domains ?? filters?.blocked_domains,
    user_location,
    search_context_size,
    max_uses,
  };
}

/** The options that an upstream accepts. The others are dropped and named. */
export function pickOptions(
  { path, options, others }: WebSearch,
  accepted: readonly SearchOption[],
  dropped: DroppedFields,
): SearchOptions {
  const set = Object.entries(options).filter(([, value]) => value !== null && value !== undefined);
  const isAccepted = (name: string) => accepted.some((one) => one === name);
  for (const [name] of set) if (!isAccepted(name)) dropped.add(`${path}.${name}`);
  for (const name of others) dropped.add(`${path}.${name}`);
  return Object.fromEntries(set.filter(([name]) => isAccepted(name)));
}

/** The client requires a search: no function of its own has the name. */
export function isSearchChoice(choice: HubToolChoice | null, tools: readonly HubTool[]): boolean {
  return (
    choice?.kind === "tool" &&
    choice.name.startsWith("web_search") &&
    !tools.some((tool) => tool.kind !== "hosted" && tool.name === choice.name)
  );
}

/** The request without its search, whose tool the writer adds itself. */
export function withoutWebSearch(request: HubRequest): HubRequest {
  const tools = request.tools.filter((tool) => !isWebSearch(tool));
  return tools.length === request.tools.length ? request : { ...request, tools };
}

/** The place in the form of Chat Completions. */
export function nestLocation(location: unknown): Json {
  const { type: _, ...approximate } = readObject(location) ?? {};
  return { type: "approximate", approximate };
}
