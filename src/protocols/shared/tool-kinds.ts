/** The kinds of tools that vendors define, by the names that their APIs use. */

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
};

export function classifyGeminiTool(member: string): ToolClass {
  return Object.hasOwn(GEMINI_TOOLS, member) ? (GEMINI_TOOLS[member] ?? "unknown") : "unknown";
}

/** Members of the body that turn on a tool without an entry in `tools`. */
export const TOOL_MEMBERS: readonly { readonly name: string; readonly kind: ToolKind }[] = [
  { name: "web_search_options", kind: "web_search" },
  { name: "search_parameters", kind: "web_search" },
  { name: "enable_search", kind: "web_search" },
  { name: "plugins", kind: "web_search" },
  { name: "mcp_servers", kind: "mcp" },
];
