/** Reads the tools of a Responses request: functions, custom tools, namespaces and built-in tools. */

import { requestCounts } from "../../count-limits.ts";
import { ApiError } from "../../errors.ts";
import type { BuiltInTool, FunctionTool, HubItem, HubTool, HubToolChoice } from "../hub/hub-request.ts";
import {
  type Json,
  readArray,
  readBoolean,
  readObject,
  readObjects,
  readString,
} from "../hub/json-values.ts";

export function readResponsesTools(value: unknown, path: string): HubTool[] {
  return readObjects(value).flatMap((tool, at) =>
    readTool(tool, { path: `${path}[${at}]`, namespace: null }),
  );
}

/** Tools that a search found are usually among those of the request, where their loading was deferred. */
export function joinTools(offered: readonly HubTool[], found: readonly HubTool[]): HubTool[] {
  const known = new Set(offered.map(toolKey));
  const added = found.filter((tool) => {
    const key = toolKey(tool);
    const isKnown = tool.kind !== "hosted" && (known.has(key) || (isSelfNamed(tool) && known.has(tool.name)));
    known.add(key);
    return !isKnown;
  });
  return [...offered, ...added];
}

/** OpenAI calls a deferred tool `x` as `x` of the namespace `x`, which no other upstream knows. */
export function restoreNamespaces(items: readonly HubItem[], tools: readonly HubTool[]): readonly HubItem[] {
  if (!items.some((item) => item.kind === "call" && isSelfNamed(item))) return items;
  const known = new Set(tools.map(toolKey));
  return items.map((item) =>
    item.kind === "call" && isSelfNamed(item) && !known.has(toolKey(item))
      ? { ...item, namespace: null }
      : item,
  );
}

type NamedTool = Pick<FunctionTool, "name" | "namespace">;

function isSelfNamed({ name, namespace }: NamedTool): boolean {
  return namespace === name;
}

/** A name cannot contain a line break, so the pair is unambiguous. */
function toolKey(tool: HubTool | NamedTool): string {
  if (!("name" in tool)) return "";
  return tool.namespace === null ? tool.name : `${tool.namespace}\n${tool.name}`;
}

interface ToolPlace {
  readonly path: string;
  readonly namespace: string | null;
}

function readTool(tool: Json, { path, namespace }: ToolPlace): HubTool[] {
  switch (tool.type) {
    case "function":
      return isCallable(tool) ? [readFunction(tool, namespace)] : [];
    case "custom":
      return isCallable(tool) ? [readCustom(tool, namespace)] : [];
    case "namespace": {
      const name = readNamespace(tool, path);
      return readObjects(tool.tools).flatMap((child, at) =>
        readTool(child, { path: `${path}.tools[${at}]`, namespace: name }),
      );
    }
    case "tool_search":
      return tool.execution === "client" ? [readToolSearch(tool)] : [readHosted(tool, path)];
    case "local_shell":
    case "shell":
    case "apply_patch":
      return [BUILT_IN_TOOLS[tool.type]];
    default:
      return [readHosted(tool, path)];
  }
}

/** The name is written once in the request, and once for each of its tools upstream. */
function readNamespace({ name }: Json, path: string): string | null {
  const namespace = readString(name);
  if (namespace === null || namespace.length <= requestCounts.namespaceCharsMax) return namespace;
  throw new ApiError(
    "invalid_value",
    `\`${path}.name\` is longer than ${requestCounts.namespaceCharsMax} characters. Shorten the name of the namespace.`,
    { param: `${path}.name` },
  );
}

/** A tool that only programs of the model may call must not become callable by the model itself. */
function isCallable(tool: Json): boolean {
  const callers = tool.allowed_callers;
  return callers === undefined || callers === null || readArray(callers).includes("direct");
}

function readFunction(tool: Json, namespace: string | null): FunctionTool {
  return {
    kind: "function",
    name: readString(tool.name) ?? "",
    namespace,
    description: readString(tool.description),
    parameters: readObject(tool.parameters),
    strict: readBoolean(tool.strict),
    cacheHint: null,
  };
}

function readCustom(tool: Json, namespace: string | null): HubTool {
  const format = readObject(tool.format);
  const syntax = readString(format?.syntax);
  return {
    kind: "custom",
    name: readString(tool.name) ?? "",
    namespace,
    description: readString(tool.description),
    grammar: readString(format?.definition),
    ...(syntax === null ? {} : { grammarSyntax: syntax }),
  };
}

function readToolSearch(tool: Json): FunctionTool {
  return { ...readFunction(tool, null), name: "tool_search", builtIn: "tool_search" };
}

function readHosted(tool: Json, path: string): HubTool {
  const type = readString(tool.type) ?? "type";
  return {
    kind: "hosted",
    dialect: "responses",
    // Without access to the web it searches OpenAI's own index, which no other vendor has.
    type: type.startsWith("web_search") && tool.external_web_access !== false ? "web_search" : "other",
    path: `${path}.${type}`,
    json: tool,
  };
}

function builtIn(
  name: Exclude<BuiltInTool, "tool_search">,
  description: string,
  parameters: Record<string, unknown>,
): FunctionTool {
  return {
    kind: "function",
    name,
    namespace: null,
    description,
    parameters: { type: "object", ...parameters },
    strict: null,
    cacheHint: null,
    builtIn: name,
  };
}

const COMMANDS = { type: "array", items: { type: "string" } };

/** The functions that stand in for built-in tools that the client runs. Their arguments are the action of the call. */
const BUILT_IN_TOOLS: Readonly<Record<Exclude<BuiltInTool, "tool_search">, FunctionTool>> = {
  local_shell: builtIn("local_shell", "Runs a command on the user's machine and returns its output.", {
    properties: {
      command: { ...COMMANDS, description: "The program and its arguments." },
      working_directory: { type: "string" },
      timeout_ms: { type: "integer" },
    },
    required: ["command"],
  }),
  shell: builtIn("shell", "Runs shell commands and returns their output.", {
    properties: {
      commands: { ...COMMANDS, description: "Shell commands, run one after the other." },
      timeout_ms: { type: "integer" },
      max_output_length: { type: "integer" },
    },
    required: ["commands"],
  }),
  apply_patch: builtIn("apply_patch", "Creates, updates or deletes one file by a patch.", {
    properties: {
      type: { type: "string", enum: ["create_file", "update_file", "delete_file"] },
      path: { type: "string" },
      diff: {
        type: "string",
        description: "The changed lines in the V4A diff format. Not used to delete a file.",
      },
    },
    required: ["type", "path"],
  }),
};

export function readResponsesToolChoice(choice: unknown): HubToolChoice | null {
  if (choice === "auto" || choice === "required" || choice === "none") return { kind: choice };
  const json = readObject(choice);
  if (json === null) return null;
  const { type } = json;
  if (type === "auto" || type === "required" || type === "none") return { kind: type };
  if (type === "allowed_tools") {
    const names = readObjects(json.tools).flatMap(
      (tool) => readString(tool.name) ?? readString(tool.type) ?? [],
    );
    return { kind: "allowed", mode: json.mode === "required" ? "required" : "auto", names };
  }
  const name = readString(json.name) ?? readString(type);
  return name === null ? null : { kind: "tool", name, namespace: readString(json.namespace) };
}
