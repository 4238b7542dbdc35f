/** The tools of the Messages API: those of the client, those with a built-in schema, and those that Anthropic runs. */

import type { HubTool } from "../hub/hub-request.ts";
import { type Json, readBoolean, readObject, readObjects, readString } from "../hub/json-values.ts";
import { readCacheHint } from "../hub/media.ts";

const TEXT = { type: "string" } as const;
const NUMBERS = { type: "array", items: { type: "integer" } } as const;

/** Tools that the client runs and whose schema the vendor's models know, by the start of their type. */
const CLIENT_TOOLS: readonly {
  readonly start: string;
  readonly properties: object;
  readonly required: string[];
}[] = [
  { start: "bash_", properties: { command: TEXT, restart: { type: "boolean" } }, required: [] },
  {
    start: "text_editor_",
    properties: {
      command: { type: "string", enum: ["view", "create", "str_replace", "insert", "undo_edit"] },
      path: TEXT,
      file_text: TEXT,
      old_str: TEXT,
      new_str: TEXT,
      insert_line: { type: "integer" },
      insert_text: TEXT,
      view_range: NUMBERS,
    },
    required: ["command", "path"],
  },
  {
    start: "memory_",
    properties: {
      command: { type: "string", enum: ["view", "create", "str_replace", "insert", "delete", "rename"] },
      path: TEXT,
      file_text: TEXT,
      old_str: TEXT,
      new_str: TEXT,
      old_path: TEXT,
      new_path: TEXT,
      insert_line: { type: "integer" },
      insert_text: TEXT,
      view_range: NUMBERS,
    },
    required: ["command"],
  },
  {
    start: "computer_",
    properties: { action: TEXT, coordinate: NUMBERS, text: TEXT, duration: { type: "number" } },
    required: ["action"],
  },
];

interface ReadTools {
  readonly tools: readonly HubTool[];
  /** Members of tools that other dialects do not have, by their paths. */
  readonly unread: readonly string[];
}

export function readMessagesTools(value: unknown): ReadTools {
  const tools = readObjects(value);
  return {
    tools: tools.flatMap((tool, at) => (isCallable(tool) ? readTool(tool, at) : [])),
    unread: tools.flatMap((tool, at) => (tool.input_examples == null ? [] : [`tools[${at}].input_examples`])),
  };
}

/** A tool that only code at Anthropic may call must not become callable by the model itself. */
function isCallable({ allowed_callers: callers }: Json): boolean {
  return !Array.isArray(callers) || callers.includes("direct");
}

function readTool(tool: Json, at: number): HubTool[] {
  const type = readString(tool.type) ?? "custom";
  const name = readString(tool.name) ?? type;
  const known = CLIENT_TOOLS.find(({ start }) => type.startsWith(start));
  if (type === "custom" || known !== undefined) {
    const own = readObject(tool.input_schema);
    const parameters =
      known === undefined ? own : { type: "object", properties: known.properties, required: known.required };
    return [
      {
        kind: "function",
        name,
        namespace: null,
        description: readString(tool.description),
        parameters,
        strict: readBoolean(tool.strict),
        cacheHint: readCacheHint(tool.cache_control),
      },
    ];
  }
  const isSearch = type.startsWith("web_search_");
  return [
    {
      kind: "hosted",
      dialect: "messages",
      type: isSearch ? "web_search" : "other",
      path: `tools[${at}].${type}`,
      json: tool,
    },
  ];
}
