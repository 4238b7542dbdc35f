/** Reads the functions that a model may call, as a person types them. */

import { isObject, parsed } from "../../explorer/json-value.ts";

export interface FunctionTool {
  readonly name: string;
  readonly description: string;
  /** A JSON Schema. */
  readonly parameters: unknown;
}

/** Accepts the forms of Chat Completions, Responses and Messages. Returns null if the text is none of them. */
export function parseTools(text: string): FunctionTool[] | null {
  if (text.trim() === "") return [];
  const value = parsed(text);
  if (!Array.isArray(value)) return null;
  const tools = value.map(readTool);
  return tools.every((tool) => tool !== null) ? tools : null;
}

function readTool(value: unknown): FunctionTool | null {
  if (!isObject(value)) return null;
  const tool = isObject(value.function) ? value.function : value;
  if (typeof tool.name !== "string" || tool.name === "") return null;
  const { description } = tool;
  return {
    name: tool.name,
    description: typeof description === "string" ? description : "",
    parameters: tool.parameters ?? tool.input_schema ?? { type: "object", properties: {} },
  };
}
