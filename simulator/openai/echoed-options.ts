/** The options of a request as repeated in its response: complete, as the response schema requires. */

import { echoed, isRecord, type JsonFields, parseJson } from "../json-fields.ts";

const TEXT_FORMAT = { type: "text" };

/** Function tools have all of their fields, with null where the request omits them. */
export function echoTools(fields: JsonFields): string {
  const slice = echoed(fields, "tools", "[]");
  const tools = slice === "[]" ? [] : parseJson(slice);
  if (!Array.isArray(tools)) return "[]";
  return JSON.stringify(tools.map(completeTool));
}

function completeTool(tool: unknown): unknown {
  if (!isRecord(tool) || tool.type !== "function") return tool;
  return { description: null, parameters: null, strict: null, ...tool };
}

export function echoToolChoice(fields: JsonFields): string {
  const slice = echoed(fields, "tool_choice", '"auto"');
  if (!slice.includes('"allowed_tools"')) return slice;
  const choice = parseJson(slice);
  return isRecord(choice) ? JSON.stringify({ mode: "auto", ...choice }) : slice;
}

/** There is always a format, even if the request contains only a verbosity. */
export function echoText(fields: JsonFields): string {
  const slice = echoed(fields, "text", "");
  if (slice === "") return '{"format":{"type":"text"},"verbosity":"medium"}';
  const value = parseJson(slice);
  const text = isRecord(value) ? value : {};
  return JSON.stringify({ ...text, format: completeFormat(text.format) });
}

function completeFormat(format: unknown): unknown {
  if (!isRecord(format)) return TEXT_FORMAT;
  if (format.type !== "json_schema") return format;
  return { description: null, schema: null, ...format, strict: format.strict === true };
}

export function echoReasoning(fields: JsonFields): string {
  const slice = echoed(fields, "reasoning", "");
  if (slice === "") return '{"effort":null,"summary":null}';
  const value = parseJson(slice);
  return JSON.stringify({ effort: null, summary: null, ...(isRecord(value) ? value : {}) });
}
