/** Chooses the function that a response calls, from `tools` and `tool_choice`. */

import { invalid, type Rejection } from "../errors.ts";
import { echoed, isRecord, type JsonFields, parseJson } from "../json-fields.ts";

export interface FunctionTool {
  name: string;
  parameters: unknown;
}

/** `isForced`: the response must be a call, regardless of the conversation. */
export interface ToolPlan {
  tool: FunctionTool | null;
  isForced: boolean;
  /** Every function that may be called. */
  offered: readonly FunctionTool[];
}

const NO_CALL: ToolPlan = { tool: null, isForced: false, offered: [] };

/** Chat nests the fields that Responses has at top level. A choice that cannot be honoured is rejected. */
export function planToolCall(fields: JsonFields): ToolPlan | Rejection {
  const choice = parseJson(echoed(fields, "tool_choice", '"auto"'));
  if (choice === "none") return NO_CALL;
  const slice = echoed(fields, "tools", "[]");
  const tools = slice === "[]" ? [] : functionTools(parseJson(slice));
  if (choice === "auto") return { tool: tools[0] ?? null, isForced: false, offered: tools };
  if (choice === "required") {
    const tool = tools[0];
    return tool === undefined ? noFunction() : { tool, isForced: true, offered: [tool] };
  }
  return isRecord(choice) ? planObject(choice, tools) : unknownChoice();
}

function planObject(
  choice: Readonly<Record<string, unknown>>,
  tools: readonly FunctionTool[],
): ToolPlan | Rejection {
  if (choice.type === "function") {
    const name = functionName(choice);
    const tool = tools.find((one) => one.name === name);
    return tool === undefined
      ? notOffered(`the function '${name ?? ""}'`)
      : { tool, isForced: true, offered: [tool] };
  }
  if (choice.type !== "allowed_tools") return unknownChoice();
  // Chat nests the list as well.
  const { tools: listed, mode } = isRecord(choice.allowed_tools) ? choice.allowed_tools : choice;
  const names = (Array.isArray(listed) ? listed : []).map((one) =>
    isRecord(one) ? functionName(one) : null,
  );
  const tool = tools.find((one) => names.includes(one.name));
  if (mode === "required") {
    return tool === undefined
      ? notOffered("one of 'allowed_tools'")
      : { tool, isForced: true, offered: [tool] };
  }
  return { tool: tool ?? null, isForced: false, offered: tool === undefined ? [] : [tool] };
}

function functionTools(tools: unknown): FunctionTool[] {
  if (!Array.isArray(tools)) return [];
  const functions: FunctionTool[] = [];
  for (const tool of tools) {
    if (!isRecord(tool) || tool.type !== "function") continue;
    const spec = isRecord(tool.function) ? tool.function : tool;
    if (typeof spec.name === "string") functions.push({ name: spec.name, parameters: spec.parameters });
  }
  return functions;
}

function functionName(choice: Readonly<Record<string, unknown>>): string | null {
  const spec = isRecord(choice.function) ? choice.function : choice;
  return typeof spec.name === "string" ? spec.name : null;
}

function notOffered(what: string): Rejection {
  return invalid("tool_choice", `'tool_choice' demands ${what}, and 'tools' has no such function.`);
}

function noFunction(): Rejection {
  return invalid("tool_choice", "'tool_choice' is 'required', and 'tools' has no function.");
}

function unknownChoice(): Rejection {
  return invalid(
    "tool_choice",
    "Invalid 'tool_choice': expected 'none', 'auto', 'required', a function, or 'allowed_tools'. The simulator calls functions only.",
  );
}
