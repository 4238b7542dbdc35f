/** Which tools an upstream is offered: hosted tools of another dialect are dropped, or rejected if they are required. */

import type { DroppedFields } from "./dropped-fields.ts";
import type { Dialect, HostedTool, HubRequest, HubTool, HubToolChoice } from "./hub-request.ts";
import { unsupportedField } from "./unsupported-field.ts";
import { isSearchChoice, isWebSearch } from "./web-search.ts";

export interface ToolSelection {
  readonly tools: readonly Exclude<HubTool, { kind: "hosted" }>[];
  readonly choice: Exclude<HubToolChoice, { kind: "allowed" }> | null;
}

/** A list of allowed tools becomes the list of tools, which every upstream understands. */
export function selectTools(request: HubRequest, dropped: DroppedFields): ToolSelection {
  const { toolChoice } = request;
  const runnable = request.tools.filter((tool) => tool.kind !== "hosted");
  const requiresSearch = isSearchChoice(toolChoice, request.tools);
  for (const tool of request.tools) {
    if (tool.kind !== "hosted") continue;
    if (isForced(toolChoice, tool) || (requiresSearch && isWebSearch(tool)))
      throw unsupportedField(tool.path, "Remove the tool, or choose a model that runs it.");
    dropped.add(tool.path);
  }
  if (toolChoice?.kind !== "allowed") return { tools: runnable, choice: toolChoice };
  const names = new Set(toolChoice.names);
  const allowed = runnable.filter(
    ({ name, namespace }) => names.has(name) || (namespace !== null && names.has(namespace)),
  );
  return { tools: allowed, choice: allowed.length === 0 ? { kind: "none" } : { kind: toolChoice.mode } };
}

/** Messages names its tools, other dialects only have their type. */
function isForced(choice: HubToolChoice | null, { json: { type, name } }: HostedTool): boolean {
  return choice?.kind === "tool" && (choice.name === type || choice.name === name);
}

/** The hosted tools that the dialect itself can run. */
export function hostedTools(request: HubRequest, dialect: Dialect): readonly HostedTool[] {
  return request.tools.filter(
    (tool): tool is HostedTool => tool.kind === "hosted" && tool.dialect === dialect,
  );
}
