/** Custom tools take free text: elsewhere a function with one text argument stands in for them. */

import { isObject } from "../../json/parse.ts";
import type { CustomTool } from "./hub-request.ts";

const INPUT_FIELD = "input";

/** The schema of the function that stands in for the tool. The grammar becomes advice to the model. */
export function customToolSchema({ grammar }: Pick<CustomTool, "grammar">): Record<string, unknown> {
  const description =
    grammar === null
      ? "The input of the tool as plain text."
      : `The input of the tool as plain text, not JSON. It must match this grammar:\n${grammar}`;
  return {
    type: "object",
    properties: { [INPUT_FIELD]: { type: "string", description } },
    required: [INPUT_FIELD],
    additionalProperties: false,
  };
}

export function wrapCustomInput(input: string): string {
  return JSON.stringify({ [INPUT_FIELD]: input });
}

/** Models sometimes send the text itself in place of the object: it is the input then. */
export function unwrapCustomInput(functionArguments: string): string {
  try {
    const json: unknown = JSON.parse(functionArguments);
    if (typeof json === "string") return json;
    if (!isObject(json)) return functionArguments;
    const input = json[INPUT_FIELD] ?? Object.values(json)[0];
    return typeof input === "string" ? input : functionArguments;
  } catch {
    return functionArguments;
  }
}

/** The arguments were cut off: the input must not be used. */
export function isCutInput(functionArguments: string): boolean {
  try {
    JSON.parse(functionArguments);
    return false;
  } catch {
    return functionArguments.trimStart().startsWith("{");
  }
}
