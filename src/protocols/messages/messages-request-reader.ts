/** Reads a Messages request into the form between dialects. */

import { ApiError } from "../../errors.ts";
import { withCitations } from "../hub/citations.ts";
import type { ReadOptions } from "../hub/dialect-codec.ts";
import {
  type CacheHint,
  EFFORTS,
  type HubFormat,
  type HubItem,
  type HubPart,
  type HubReasoning,
  type HubRequest,
  type HubSettings,
  type HubToolChoice,
  type MediaSource,
  type OpaqueField,
  type OpaqueState,
  type TextPart,
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
import { readCacheHint } from "../hub/media.ts";
import { readOpaqueText } from "../hub/sealed-state.ts";
import { unsupportedField } from "../hub/unsupported-field.ts";
import { readTierName } from "../shared/service-tier.ts";
import { readCitations } from "./messages-sources.ts";
import { readMessagesTools } from "./messages-tools.ts";

const READ_FIELDS: ReadonlySet<string> = new Set([
  "model",
  "messages",
  "max_tokens",
  "stream",
  "system",
  "tools",
  "tool_choice",
  "stop_sequences",
  "temperature",
  "top_p",
  "top_k",
  "metadata",
  "thinking",
  "output_config",
  "service_tier",
  "cache_control",
]);

/** Claude Code's first system block names its version. In another vendor's prompt it would only break the cache. */
const ATTRIBUTION = "x-anthropic-billing-header:";

export function readMessagesRequest(json: Json, { publicModel, stream }: ReadOptions): HubRequest {
  const turns = new TurnReader();
  readObjects(json.messages).forEach((message, at) => {
    turns.read(message, `messages[${at}]`);
  });
  const unread = Object.keys(json).filter((name) => !READ_FIELDS.has(name) && json[name] != null);
  const { tools, unread: unreadTools } = readMessagesTools(json.tools);
  return {
    dialect: "messages",
    publicModel,
    stream,
    instructions: readSystem(json.system),
    items: turns.items,
    tools,
    toolChoice: readToolChoice(readObject(json.tool_choice)),
    settings: readSettings(json),
    unread: [...unread, ...findUnknownConfig(json.output_config), ...unreadTools, ...turns.unread],
    original: json,
  };
}

const CONFIG_FIELDS: ReadonlySet<string> = new Set(["effort", "format"]);

function findUnknownConfig(config: unknown): string[] {
  return Object.keys(readObject(config) ?? {})
    .filter((name) => !CONFIG_FIELDS.has(name))
    .map((name) => `output_config.${name}`);
}

function readSystem(system: unknown): TextPart[] {
  if (typeof system === "string")
    return system === "" ? [] : [{ kind: "text", text: system, cacheHint: null }];
  return readObjects(system).flatMap((block) => {
    const text = readString(block.text) ?? "";
    if (text === "" || text.startsWith(ATTRIBUTION)) return [];
    return [{ kind: "text" as const, text, cacheHint: readCacheHint(block.cache_control) }];
  });
}

/** The opaque state of a block: the gateway's envelope, or a state that the client received from the vendor. */
function readOpaque(field: OpaqueField, value: unknown): OpaqueState | null {
  if (typeof value !== "string" || value === "") return null;
  return readOpaqueText(value, { dialect: "messages", field });
}

class TurnReader {
  readonly items: HubItem[] = [];
  readonly unread: string[] = [];

  read(message: Json, path: string): void {
    const { role } = message;
    if (role !== "user" && role !== "assistant" && role !== "system") {
      throw new ApiError("invalid_value", `\`${path}.role\` must be \`user\`, \`assistant\` or \`system\`.`, {
        param: `${path}.role`,
      });
    }
    const content = message.content;
    const blocks = typeof content === "string" ? [{ type: "text", text: content }] : readObjects(content);
    let parts: HubPart[] = [];
    const flush = () => {
      if (parts.length > 0) this.items.push({ kind: "message", role, parts });
      parts = [];
    };
    blocks.forEach((block: Json, at) => {
      const item = this.#readItem(block);
      if (item === null) {
        parts.push(...this.#readParts(block, `${path}.content[${at}]`));
        return;
      }
      flush();
      this.items.push(item);
    });
    flush();
  }

  /** Null for a block that is part of a message. */
  #readItem(block: Json): HubItem | null {
    switch (block.type) {
      case "thinking":
        return {
          kind: "reasoning",
          text: readString(block.thinking) ?? "",
          isSummary: false,
          opaque: readOpaque("signature", block.signature),
        };
      case "redacted_thinking":
        return {
          kind: "reasoning",
          text: "",
          isSummary: false,
          opaque: readOpaque("redacted_thinking", block.data),
        };
      case "tool_use":
        return {
          kind: "call",
          callId: readString(block.id) ?? "",
          name: readString(block.name) ?? "",
          namespace: null,
          tool: "function",
          input: JSON.stringify(block.input ?? {}),
          opaque: null,
        };
      case "tool_result":
        return {
          kind: "call_output",
          callId: readString(block.tool_use_id) ?? "",
          tool: "function",
          parts: this.#readContent(block.content),
          isError: readBoolean(block.is_error) === true,
          cacheHint: readCacheHint(block.cache_control),
        };
      default:
        return null;
    }
  }

  #readContent(content: unknown): HubPart[] {
    if (typeof content === "string")
      return content === "" ? [] : [{ kind: "text", text: content, cacheHint: null }];
    return readObjects(content).flatMap((block) => this.#readParts(block, "tool_result.content"));
  }

  #readParts(block: Json, path: string): HubPart[] {
    const cacheHint = readCacheHint(block.cache_control);
    switch (block.type) {
      case "text": {
        const text = readString(block.text) ?? "";
        if (text === "") return [];
        const unread = () => this.#skip(`${path}.citations`);
        return [
          {
            kind: "text",
            text,
            cacheHint,
            ...withCitations(readCitations(block, text.length, { bounds: null, onDropped: unread })),
          },
        ];
      }
      case "image": {
        const source = readSource(readObject(block.source));
        return source === null ? this.#skip(path) : [{ kind: "image", source, detail: null, cacheHint }];
      }
      case "document":
        return this.#readDocument(block, path, cacheHint);
      case "search_result":
        return [{ kind: "text", text: this.#describeResult(block, path), cacheHint }];
      case "tool_reference":
        return [
          { kind: "text", text: `The tool ${readString(block.tool_name) ?? ""} is available.`, cacheHint },
        ];
      // Records of tools that Anthropic ran.
      default:
        return this.#skip(`${path}.${readString(block.type) ?? "type"}`);
    }
  }

  #describeResult({ title, source, content, citations }: Json, path: string): string {
    if (readObject(citations)?.enabled === true) this.#skip(`${path}.citations`);
    const texts = readObjects(content).map(({ text }) => text);
    return [title, source, ...texts].flatMap((text) => readString(text) ?? []).join("\n");
  }

  #readDocument(block: Json, path: string, cacheHint: CacheHint | null): HubPart[] {
    if (readObject(block.citations)?.enabled === true) this.#skip(`${path}.citations`);
    if (readString(block.context) !== null) this.#skip(`${path}.context`);
    const json = readObject(block.source);
    const filename = readString(block.title);
    if (json?.type === "text") return [{ kind: "text", text: readString(json.data) ?? "", cacheHint }];
    if (json?.type === "content") return this.#readContent(json.content);
    const source = readSource(json);
    return source === null ? this.#skip(path) : [{ kind: "file", source, filename, cacheHint }];
  }

  #skip(path: string): HubPart[] {
    this.unread.push(path);
    return [];
  }
}

function readSource(source: Json | null): MediaSource | null {
  switch (source?.type) {
    case "base64":
      return {
        kind: "base64",
        mediaType: readString(source.media_type) ?? "",
        base64: readString(source.data) ?? "",
      };
    case "url":
      return { kind: "url", url: readString(source.url) ?? "", mediaType: null };
    case "file":
      return { kind: "file_id", id: readString(source.file_id) ?? "" };
    default:
      return null;
  }
}

function readToolChoice(choice: Json | null): HubToolChoice | null {
  switch (choice?.type) {
    case "auto":
    case "none":
      return { kind: choice.type };
    case "any":
      return { kind: "required" };
    case "tool":
      return { kind: "tool", name: readString(choice.name) ?? "", namespace: null };
    default:
      return null;
  }
}

function readSettings(json: Json): HubSettings {
  const config = readObject(json.output_config);
  const choice = readObject(json.tool_choice);
  const stop = readArray(json.stop_sequences).filter((text) => typeof text === "string");
  const tier = readTierName(json.service_tier);
  return {
    outputTokensMax: readNumber(json.max_tokens),
    temperature: readNumber(json.temperature),
    topP: readNumber(json.top_p),
    topK: readNumber(json.top_k),
    stop: stop.length === 0 ? null : stop,
    seed: null,
    presencePenalty: null,
    frequencyPenalty: null,
    logprobs: null,
    choices: 1,
    parallelCalls: choice?.disable_parallel_tool_use === true ? false : null,
    reasoning: readReasoning(readObject(json.thinking), config),
    format: readFormat(readObject(config?.format)),
    verbosity: null,
    serviceTier: tier === "standard_only" ? "default" : tier,
    promptCacheKey: readSessionId(readObject(json.metadata)),
    promptCacheRetention: null,
    safetyIdentifier: null,
    user: readString(readObject(json.metadata)?.user_id),
    metadata: null,
    wantsEncryptedReasoning: true,
    cacheHint: readCacheHint(json.cache_control),
  };
}

/** Claude Code's user id contains its session, which identifies the prompt cache at other vendors. */
function readSessionId(metadata: Json | null): string | null {
  const id = readString(metadata?.user_id);
  const session =
    id === null ? undefined : /"session_id"\s*:\s*"([\w-]{1,64})"|_session_([\w-]{1,64})$/.exec(id);
  return session?.[1] ?? session?.[2] ?? null;
}

function readReasoning(thinking: Json | null, config: Json | null): HubReasoning | null {
  const effort = EFFORTS.find((one) => one === config?.effort) ?? null;
  switch (thinking?.type) {
    case "enabled":
      return { effort, budgetTokens: readNumber(thinking.budget_tokens), isShown: true };
    case "adaptive":
      return { effort, budgetTokens: null, isShown: thinking.display !== "omitted" };
    case "disabled":
      return { effort: "none", budgetTokens: null, isShown: false };
    default:
      return effort === null ? null : { effort, budgetTokens: null, isShown: false };
  }
}

function readFormat(format: Json | null): HubFormat | null {
  if (format === null) return null;
  const schema = readObject(format.schema);
  if (format.type !== "json_schema" || schema === null)
    throw unsupportedField("output_config.format", "Use `json_schema` with a schema.");
  return { kind: "json_schema", name: "response", description: null, schema, strict: true };
}
