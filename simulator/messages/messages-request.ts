/**
 * Checks a Messages request as strictly as Anthropic's API does, so that a gateway that writes an invalid one is
 * noticed.
 */

import type { Call } from "../endpoint.ts";
import type { Rejection } from "../errors.ts";
import { isRecord, parseJson } from "../json-fields.ts";
import { checkTurns, type MessagesTurn } from "./messages-conversation.ts";
import { invalidMessages } from "./messages-errors.ts";

export interface MessagesTool {
  name: string;
  schema: unknown;
  /** Run by the upstream. */
  isServerTool: boolean;
}

export interface MessagesRequest {
  turns: readonly MessagesTurn[];
  tools: readonly MessagesTool[];
  /** The tool that must be called; null if the model decides. */
  forcedTool: MessagesTool | null;
  mayCall: boolean;
  maxParallel: number;
  maxTokens: number;
  /** `summarized` shows the thinking, `omitted` only signs it; null without thinking. */
  thinking: "summarized" | "omitted" | null;
  stops: readonly string[];
  schema: unknown;
  stream: boolean;
}

type Json = Record<string, unknown>;

const TOOL_NAME = /^[a-zA-Z0-9_-]{1,128}$/;
const LATEST_VERSION = "2026-10-21";
const SAMPLING = ["temperature", "top_p", "top_k"] as const;
/** Models from Claude 4.1 on. */
const ONE_SAMPLING = /claude-[a-z]+-4-[1-9](?!\d)/;
/** Fields that are accepted only with their beta. */
const BETA_FIELDS: Readonly<Record<string, string>> = {
  context_management: "context-management-",
  container: "code-execution-",
  mcp_servers: "mcp-client-",
};
const FIELDS: ReadonlySet<string> = new Set([
  "model",
  "messages",
  "max_tokens",
  "system",
  "tools",
  "tool_choice",
  "stream",
  "stop_sequences",
  "temperature",
  "top_p",
  "top_k",
  "metadata",
  "thinking",
  "output_config",
  "service_tier",
  "cache_control",
  "speed",
  "inference_geo",
  "diagnostics",
]);

export function readMessagesRequest(call: Call, isCount: boolean): MessagesRequest | Rejection {
  const json: Json = {};
  for (const [name, slice] of call.fields) json[name] = parseJson(slice);
  const problem = checkHeaders(call, json) ?? checkFields(call, json, isCount);
  if (problem !== null) return problem;
  const tools = readTools(json.tools);
  if ("kind" in tools) return tools;
  const thinking = readThinking(call, json);
  if (typeof thinking === "object" && thinking !== null) return thinking;
  const choice = readChoice(json.tool_choice, tools, thinking !== null);
  if ("kind" in choice) return choice;
  // Only a budget requires the thinking of a tool loop back.
  const needsThinking = isRecord(json.thinking) && json.thinking.type === "enabled";
  const turns = checkTurns(json.messages, { seed: call.seed, needsThinking });
  if ("kind" in turns) return turns;
  const { stop_sequences: stops } = json;
  return {
    turns,
    tools,
    ...choice,
    maxTokens: typeof json.max_tokens === "number" ? json.max_tokens : 4_096,
    thinking,
    stops: Array.isArray(stops) ? stops.filter((stop): stop is string => typeof stop === "string") : [],
    schema: readSchema(json.output_config),
    stream: json.stream === true,
  };
}

function checkHeaders(call: Call, json: Json): Rejection | null {
  const headers = call.headers ?? null;
  const version = headers?.get("anthropic-version") ?? null;
  if (version === null) return invalidMessages("anthropic-version: header is required");
  const betas = headers?.get("anthropic-beta") ?? "";
  for (const [field, beta] of Object.entries(BETA_FIELDS)) {
    if (json[field] !== undefined && !betas.includes(beta)) return extraInput(field);
  }
  if (version !== LATEST_VERSION && !isAdaptiveOnly(call)) return checkOneSampling(call, json);
  const sampling = SAMPLING.find((name) => json[name] !== undefined);
  return sampling === undefined ? null : invalidMessages(`${sampling}: is not supported by this model`);
}

function checkOneSampling({ behaviour }: Call, { temperature, top_p: topP }: Json): Rejection | null {
  return ONE_SAMPLING.test(behaviour.model) && temperature !== undefined && topP !== undefined
    ? invalidMessages(
        "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
      )
    : null;
}

function checkFields(call: Call, json: Json, isCount: boolean): Rejection | null {
  for (const name of call.fields.keys()) {
    if (!FIELDS.has(name) && BETA_FIELDS[name] === undefined) return extraInput(name);
  }
  const { max_tokens: maxTokens } = json;
  if (!isCount && maxTokens === undefined) return invalidMessages("max_tokens: Field required");
  if (maxTokens !== undefined && !(Number.isSafeInteger(maxTokens) && Number(maxTokens) >= 1)) {
    return invalidMessages("max_tokens: Input should be greater than or equal to 1");
  }
  const { stop_sequences: stops } = json;
  if (Array.isArray(stops) && stops.some((stop) => typeof stop === "string" && stop.trim() === ""))
    return invalidMessages("stop_sequences: each stop sequence must contain non-whitespace");
  return checkSystem(json.system);
}

function checkSystem(system: unknown): Rejection | null {
  if (system === undefined || typeof system === "string") return null;
  if (!Array.isArray(system)) return invalidMessages("system: Input should be a valid list");
  const isValid = system.every((block) => isRecord(block) && block.type === "text" && block.text !== "");
  return isValid ? null : invalidMessages("system: text content blocks must be non-empty");
}

function extraInput(name: string): Rejection {
  return invalidMessages(`${name}: Extra inputs are not permitted`);
}

/** Current models have only adaptive thinking. */
function isAdaptiveOnly({ behaviour }: Call): boolean {
  return behaviour.model.includes("adaptive");
}

function readThinking(call: Call, json: Json): "summarized" | "omitted" | null | Rejection {
  const { thinking, max_tokens: maxTokens } = json;
  if (thinking === undefined) return null;
  if (!isRecord(thinking)) return invalidMessages("thinking: Input should be a valid dictionary");
  const display = thinking.display === "omitted" ? "omitted" : "summarized";
  switch (thinking.type) {
    case "disabled":
      return null;
    case "adaptive":
      return display;
    case "enabled": {
      const budget = thinking.budget_tokens;
      if (isAdaptiveOnly(call))
        return invalidMessages("thinking.type: 'enabled' is not supported by this model");
      if (typeof budget !== "number" || budget < 1_024)
        return invalidMessages(
          "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
        );
      if (typeof maxTokens === "number" && budget >= maxTokens)
        return invalidMessages("`max_tokens` must be greater than `thinking.budget_tokens`");
      return display;
    }
    default:
      return invalidMessages("thinking.type: Input should be 'enabled', 'disabled' or 'adaptive'");
  }
}

function readTools(tools: unknown): MessagesTool[] | Rejection {
  if (tools === undefined) return [];
  if (!Array.isArray(tools)) return invalidMessages("tools: Input should be a valid list");
  const read: MessagesTool[] = [];
  for (const [index, tool] of tools.entries()) {
    if (!isRecord(tool) || typeof tool.name !== "string" || !TOOL_NAME.test(tool.name))
      return invalidMessages(`tools.${index}.custom.name: String should match pattern '${TOOL_NAME.source}'`);
    const isServerTool = typeof tool.type === "string" && tool.type !== "custom";
    const schema = tool.input_schema;
    if (!isServerTool && !(isRecord(schema) && schema.type === "object"))
      return invalidMessages(`tools.${index}.custom.input_schema.type: Field required`);
    if (isRecord(schema) && ["oneOf", "anyOf", "allOf"].some((name) => Object.hasOwn(schema, name)))
      return invalidMessages(
        `tools.${index}.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level`,
      );
    if (read.some(({ name }) => name === tool.name))
      return invalidMessages("tools: Tool names must be unique.");
    read.push({ name: tool.name, schema, isServerTool });
  }
  return read;
}

type ToolChoice = Pick<MessagesRequest, "forcedTool" | "mayCall" | "maxParallel">;

function readChoice(
  choice: unknown,
  tools: readonly MessagesTool[],
  thinks: boolean,
): ToolChoice | Rejection {
  const own = tools.filter(({ isServerTool }) => !isServerTool);
  if (choice === undefined) return { forcedTool: null, mayCall: own.length > 0, maxParallel: 2 };
  if (!isRecord(choice)) return invalidMessages("tool_choice: Input should be a valid dictionary");
  const maxParallel = choice.disable_parallel_tool_use === true ? 1 : 2;
  switch (choice.type) {
    case "auto":
      return { forcedTool: null, mayCall: own.length > 0, maxParallel };
    case "none":
      return { forcedTool: null, mayCall: false, maxParallel };
    case "any":
    case "tool": {
      if (thinks) return invalidMessages("Thinking may not be enabled when tool_choice forces tool use.");
      const forcedTool = choice.type === "any" ? own[0] : own.find(({ name }) => name === choice.name);
      if (forcedTool === undefined)
        return invalidMessages(
          `tool_choice.tool.name: Tool '${String(choice.name)}' not found in provided tools`,
        );
      return { forcedTool, mayCall: true, maxParallel };
    }
    default:
      return invalidMessages("tool_choice: Input tag should be 'auto', 'any', 'tool' or 'none'");
  }
}

function readSchema(config: unknown): unknown {
  const format = isRecord(config) && isRecord(config.format) ? config.format : null;
  return format?.type === "json_schema" ? format.schema : undefined;
}
