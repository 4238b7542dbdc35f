/** Reads a Chat Completions request into the form between dialects. */

import { ApiError } from "../../errors.ts";
import { withCitations } from "../hub/citations.ts";
import type { ReadOptions } from "../hub/dialect-codec.ts";
import type {
  CallItem,
  HubItem,
  HubPart,
  HubReasoning,
  HubRequest,
  HubSettings,
  HubTool,
  HubToolChoice,
  TextPart,
} from "../hub/hub-request.ts";
import {
  type Json,
  readArray,
  readBoolean,
  readNumber,
  readObject,
  readObjects,
  readString,
} from "../hub/json-values.ts";
import { readCacheHint, readMediaUrl } from "../hub/media.ts";
import { readAnnotations } from "../openai/openai-annotations.ts";
import { readEffort, readOpenaiFormat, readOpenaiSettings } from "../openai/openai-settings.ts";
import { isCustomCall } from "./chat-calls.ts";
import { readThinking } from "./chat-content.ts";

const READ_FIELDS: ReadonlySet<string> = new Set([
  "model",
  "messages",
  "stream",
  "stream_options",
  "temperature",
  "top_p",
  "top_k",
  "n",
  "stop",
  "max_tokens",
  "max_completion_tokens",
  "presence_penalty",
  "frequency_penalty",
  "logprobs",
  "top_logprobs",
  "seed",
  "user",
  "safety_identifier",
  "metadata",
  "store",
  "service_tier",
  "response_format",
  "tools",
  "tool_choice",
  "parallel_tool_calls",
  "functions",
  "function_call",
  "reasoning_effort",
  "verbosity",
  "web_search_options",
  "prompt_cache_key",
  "prompt_cache_options",
  "prompt_cache_retention",
]);

export function readChatRequest(json: Json, { publicModel, stream }: ReadOptions): HubRequest {
  const messages = new MessageReader();
  messages.read(readObjects(json.messages));
  const unread = Object.keys(json).filter((name) => !READ_FIELDS.has(name) && json[name] !== null);
  return {
    dialect: "chat",
    publicModel,
    stream,
    instructions: messages.instructions,
    items: messages.items,
    tools: readTools(json),
    toolChoice: readToolChoice(json.tool_choice ?? json.function_call),
    settings: readSettings(json),
    unread: [...unread, ...messages.unread],
    original: json,
  };
}

class MessageReader {
  readonly instructions: TextPart[] = [];
  readonly items: HubItem[] = [];
  readonly unread: string[] = [];
  /** The kind of the tool that each call names. */
  readonly #tools = new Map<string, CallItem["tool"]>();

  read(messages: readonly Json[]): void {
    messages.forEach((message, at) => {
      this.#readMessage(message, `messages[${at}]`);
    });
  }

  #readMessage(message: Json, path: string): void {
    const { role, name } = message;
    // No other dialect names who speaks. The name of a tool is that of its call.
    if (typeof name === "string" && role !== "tool" && role !== "function") this.unread.push(`${path}.name`);
    switch (role) {
      case "system":
      case "developer":
        this.#readSystem(message, path);
        return;
      case "user":
        this.items.push({ kind: "message", role, parts: this.#readParts(message.content, path) });
        return;
      case "assistant":
        this.#readAssistant(message, path);
        return;
      case "tool":
      case "function":
        this.#readOutput(message, path);
        return;
      default:
        throw new ApiError("invalid_value", `\`${path}.role\` must be a role of Chat Completions.`, {
          param: `${path}.role`,
        });
    }
  }

  #readSystem({ content }: Json, path: string): void {
    const parts = this.#readParts(content, path);
    if (this.items.length > 0) this.items.push({ kind: "message", role: "system", parts });
    else for (const part of parts) if (part.kind === "text") this.instructions.push(part);
  }

  #readAssistant(message: Json, path: string): void {
    const thinking = readObjects(message.content).flatMap((part) => readThinking(part) ?? []);
    const reasoning =
      readString(message.reasoning_content) ?? readString(message.reasoning) ?? thinking.join("\n\n");
    if (reasoning !== "")
      this.items.push({ kind: "reasoning", text: reasoning, isSummary: false, opaque: null });
    const parts = this.#withAnnotations(this.#readParts(message.content, path), message, path);
    const refusal = readString(message.refusal);
    if (refusal !== null && refusal !== "") parts.push({ kind: "refusal", text: refusal });
    const calls = readObjects(message.tool_calls).map((call, at) => readCall(call, `call_${path}_${at}`));
    const legacy = readObject(message.function_call);
    if (legacy !== null) calls.push(readCall({ function: legacy }, legacyCallId(legacy.name)));
    if (parts.length > 0 || (calls.length === 0 && reasoning === ""))
      this.items.push({ kind: "message", role: "assistant", parts });
    for (const call of calls) {
      this.#tools.set(call.callId, call.tool);
      this.items.push(call);
    }
  }

  /** Their places are counted in the text of the message. */
  #withAnnotations(parts: HubPart[], { annotations }: Json, path: string): HubPart[] {
    const list = readObjects(annotations);
    if (list.length === 0) return parts;
    const unread = { add: () => this.unread.push(`${path}.annotations`) };
    const [only, ...others] = parts;
    if (only?.kind === "text" && others.length === 0)
      return [{ ...only, ...withCitations(readAnnotations(list, unread)) }];
    unread.add();
    return parts;
  }

  #readOutput(message: Json, path: string): void {
    const callId = readString(message.tool_call_id) ?? legacyCallId(message.name);
    this.items.push({
      kind: "call_output",
      callId,
      tool: this.#tools.get(callId) ?? "function",
      parts: this.#readParts(message.content, path),
      isError: false,
      cacheHint: readCacheHint(message.cache_control),
    });
  }

  #readParts(content: unknown, path: string): HubPart[] {
    if (typeof content === "string")
      return content === "" ? [] : [{ kind: "text", text: content, cacheHint: null }];
    return readArray(content).flatMap((part, at) => {
      const json = readObject(part) ?? {};
      const read = readPart(json);
      // The reasoning of an assistant was read before.
      if (read === null && json.type !== "thinking") this.unread.push(`${path}.content[${at}]`);
      return read ?? [];
    });
  }
}

function legacyCallId(name: unknown): string {
  return `call_${readString(name) ?? "function"}`;
}

function readPart(part: Json): HubPart | null {
  const cacheHint = readCacheHint(part.cache_control);
  switch (part.type) {
    case "text":
      return { kind: "text", text: readString(part.text) ?? "", cacheHint };
    case "refusal":
      return { kind: "refusal", text: readString(part.refusal) ?? "" };
    case "image_url": {
      const image = readObject(part.image_url);
      const url = readString(image?.url) ?? readString(part.image_url);
      if (url === null) return null;
      return { kind: "image", source: readMediaUrl(url), detail: readString(image?.detail), cacheHint };
    }
    case "input_audio": {
      const audio = readObject(part.input_audio);
      const base64 = readString(audio?.data);
      return base64 === null ? null : { kind: "audio", format: readString(audio?.format) ?? "wav", base64 };
    }
    case "file":
      return readFilePart(readObject(part.file) ?? {}, cacheHint);
    default:
      return null;
  }
}

function readFilePart(file: Json, cacheHint: TextPart["cacheHint"]): HubPart | null {
  const data = readString(file.file_data);
  const id = readString(file.file_id);
  if (data === null && id === null) return null;
  const source = data === null ? { kind: "file_id" as const, id: id ?? "" } : readMediaUrl(data);
  return { kind: "file", source, filename: readString(file.filename), cacheHint };
}

function readCall(call: Json, inventedId: string): CallItem {
  const isCustom = isCustomCall(call);
  const tool = readObject(isCustom ? call.custom : call.function);
  return {
    kind: "call",
    callId: readString(call.id) ?? inventedId,
    name: readString(tool?.name) ?? "",
    namespace: null,
    tool: isCustom ? "custom" : "function",
    input: readString(isCustom ? tool?.input : tool?.arguments) ?? "",
    opaque: null,
  };
}

function readTools(json: Json): HubTool[] {
  const tools: HubTool[] = readObjects(json.tools).map(readTool);
  for (const definition of readObjects(json.functions)) tools.push(readFunction(definition, null));
  const search = readObject(json.web_search_options);
  if (search !== null)
    tools.push({
      kind: "hosted",
      dialect: "chat",
      type: "web_search",
      path: "web_search_options",
      json: search,
    });
  return tools;
}

function readTool(tool: Json, at: number): HubTool {
  const definition = readObject(tool.function);
  if (definition !== null) return readFunction(definition, readCacheHint(tool.cache_control));
  const custom = readObject(tool.custom);
  if (custom === null)
    return {
      kind: "hosted",
      dialect: "chat",
      type: tool.type === "web_search" ? "web_search" : "other",
      path: `tools[${at}].${readString(tool.type) ?? "type"}`,
      json: tool,
    };
  const grammar = readObject(readObject(custom.format)?.grammar);
  const syntax = readString(grammar?.syntax);
  return {
    kind: "custom",
    name: readString(custom.name) ?? "",
    namespace: null,
    description: readString(custom.description),
    grammar: readString(grammar?.definition),
    ...(syntax === null ? {} : { grammarSyntax: syntax }),
  };
}

function readFunction(definition: Json, cacheHint: TextPart["cacheHint"]): HubTool {
  return {
    kind: "function",
    name: readString(definition.name) ?? "",
    namespace: null,
    description: readString(definition.description),
    parameters: readObject(definition.parameters),
    strict: readBoolean(definition.strict),
    cacheHint,
  };
}

function readToolChoice(choice: unknown): HubToolChoice | null {
  if (choice === "auto" || choice === "required" || choice === "none") return { kind: choice };
  // Mistral's own name of it.
  if (choice === "any") return { kind: "required" };
  const json = readObject(choice);
  if (json === null) return null;
  if (json.type === "allowed_tools") {
    const allowed = readObject(json.allowed_tools) ?? json;
    const names = readObjects(allowed.tools).flatMap((tool) => readToolName(tool) ?? []);
    return { kind: "allowed", mode: allowed.mode === "required" ? "required" : "auto", names };
  }
  const name = readToolName(json);
  return name === null ? null : { kind: "tool", name, namespace: null };
}

function readToolName(tool: Json): string | null {
  return readString((readObject(tool.function) ?? readObject(tool.custom) ?? tool).name);
}

function readSettings(json: Json): HubSettings {
  const format = readObject(json.response_format);
  const stop = typeof json.stop === "string" ? [json.stop] : readArray(json.stop).flatMap(toStrings);
  return {
    ...readOpenaiSettings(json),
    outputTokensMax: readNumber(json.max_completion_tokens) ?? readNumber(json.max_tokens),
    topK: readNumber(json.top_k),
    stop: stop.length === 0 ? null : stop,
    seed: readNumber(json.seed),
    presencePenalty: readNumber(json.presence_penalty),
    frequencyPenalty: readNumber(json.frequency_penalty),
    logprobs: json.logprobs === true ? (readNumber(json.top_logprobs) ?? 0) : null,
    choices: readNumber(json.n) ?? 1,
    reasoning: readReasoning(json.reasoning_effort),
    format: readOpenaiFormat(format?.type, readObject(format?.json_schema) ?? {}),
    verbosity: readString(json.verbosity),
    wantsEncryptedReasoning: false,
  };
}

function toStrings(value: unknown): string[] {
  return typeof value === "string" ? [value] : [];
}

function readReasoning(value: unknown): HubReasoning | null {
  const effort = readEffort(value);
  return effort === null ? null : { effort, budgetTokens: null, isShown: false };
}
