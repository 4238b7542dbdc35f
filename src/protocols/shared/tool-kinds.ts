/** The kinds of tools that vendors define, by the names that their APIs use. */

import { snakeCase } from "../../base/name-case.ts";
import type { Dialect } from "../../records/interfaces.ts";
import type { ToolKind } from "../../records/request-policy.ts";

/** `client`: the client runs the tool. `unknown`: a type that no dialect has yet, which counts as denied. */
export type ToolClass = ToolKind | "client" | "unknown";

/** The `type` of a tool of Responses, Chat and Messages. Anthropic's types end with a date. */
const TYPES: readonly (readonly [RegExp, ToolClass])[] = [
  [/^(?:function|custom|namespace|apply_patch|tool_search)$/, "client"],
  [/^(?:text_editor|memory|tool_search_tool_\w+)_\d{8}$/, "client"],
  [/^tool_search_tool_\w+$/, "client"],
  [/^web_search(?:_\w+)?$/, "web_search"],
  [/^web_fetch(?:_\w+)?$/, "web_fetch"],
  [/^code_(?:interpreter|execution)(?:_\w+)?$/, "code"],
  [/^computer(?:_\w+)?$/, "computer"],
  [/^mcp(?:_toolset)?$/, "mcp"],
  [/^file_search$/, "file_search"],
  [/^image_generation$/, "image_generation"],
  [/^(?:shell|local_shell|bash_\d{8})$/, "shell"],
];

export function classifyToolType(type: string): ToolClass {
  return TYPES.find(([pattern]) => pattern.test(type))?.[1] ?? "unknown";
}

/** The members of a tool of Gemini, in camel case. */
export const GEMINI_TOOLS: Readonly<Record<string, ToolClass>> = {
  functionDeclarations: "client",
  googleSearch: "web_search",
  googleSearchRetrieval: "web_search",
  enterpriseWebSearch: "web_search",
  urlContext: "web_fetch",
  codeExecution: "code",
  computerUse: "computer",
  mcpServers: "mcp",
  fileSearch: "file_search",
  retrieval: "file_search",
  // A policy has no kind for it, so it counts as denied.
  googleMaps: "unknown",
};

/** The tools that Google runs, under both names that it accepts. The client runs the others. */
export const HOSTED_GEMINI_TOOLS: readonly string[] = Object.entries(GEMINI_TOOLS)
  .filter(([, toolClass]) => toolClass !== "client" && toolClass !== "computer")
  .flatMap(([name]) => [name, snakeCase(name)]);

export function classifyGeminiTool(member: string): ToolClass {
  return Object.hasOwn(GEMINI_TOOLS, member) ? (GEMINI_TOOLS[member] ?? "unknown") : "unknown";
}

export interface ToolMember {
  readonly name: string;
  readonly kind: ToolKind;
  readonly dialect: Dialect;
  /** The tool is also off with `false`, not only with `null`. */
  readonly isOffIfFalse: boolean;
  /** The model reads the results as input. */
  readonly addsInput: boolean;
}

/** Members of the body that turn on a tool without an entry in `tools`. */
export const TOOL_MEMBERS = [
  {
    name: "web_search_options",
    kind: "web_search",
    dialect: "chat",
    isOffIfFalse: false,
    addsInput: true,
  },
  { name: "search_parameters", kind: "web_search", dialect: "chat", isOffIfFalse: true, addsInput: false },
  { name: "enable_search", kind: "web_search", dialect: "chat", isOffIfFalse: true, addsInput: false },
  { name: "plugins", kind: "web_search", dialect: "chat", isOffIfFalse: true, addsInput: false },
  { name: "mcp_servers", kind: "mcp", dialect: "messages", isOffIfFalse: true, addsInput: true },
] as const satisfies readonly ToolMember[];

export const TOOL_MEMBERS_BY_NAME: ReadonlyMap<string, ToolMember> = new Map(
  TOOL_MEMBERS.map((member) => [member.name, member]),
);
export const TOOL_MEMBER_NAMES = TOOL_MEMBERS.map(({ name }) => name);

export function listToolMembers(dialect: Dialect): readonly string[] {
  return TOOL_MEMBERS.filter((member) => member.dialect === dialect).map(({ name }) => name);
}
