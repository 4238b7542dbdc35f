/** What each dialect loses by design. The round-trip tests allow exactly this, and require the names of what is dropped. */

import { ANTHROPIC_PROFILE, GEMINI_PROFILE, OPENAI_PROFILE } from "../../accounts/profiles.ts";
import { CHAT_CODEC } from "../chat/chat-codec.ts";
import { GEMINI_CODEC } from "../gemini/gemini-codec.ts";
import { MESSAGES_CODEC } from "../messages/messages-codec.ts";
import { RESPONSES_CODEC } from "../responses/responses-codec.ts";
import type { TokenUsage } from "../shared/usage.ts";
import type { AccountProfile } from "./account-profile.ts";
import { customToolSchema, wrapCustomInput } from "./custom-input.ts";
import type { DialectCodec } from "./dialect-codec.ts";
import type { HubFormat, HubItem, HubPart, HubRequest, HubSettings, HubTool } from "./hub-request.ts";

export interface DialectLosses {
  readonly codec: DialectCodec;
  readonly profile: AccountProfile;
  /** Clients of the dialect know custom tools and refusals. */
  readonly isOpenai: boolean;
  /** False for a part that a writer rejects. */
  accepts(part: HubPart): boolean;
  /** The request that is read back from the written one. */
  expectRequest(request: HubRequest): HubRequest;
  /** The names of what the writer drops, in any order. */
  expectDropped(request: Pick<HubRequest, "settings" | "tools">): readonly string[];
  expectUsage(usage: TokenUsage): TokenUsage;
}

const NOTHING = {
  isOpenai: true,
  accepts: () => true,
  expectRequest: (request: HubRequest) => request,
  expectDropped: () => [],
  expectUsage: (usage: TokenUsage) => usage,
};

const RESPONSES: DialectLosses = {
  ...NOTHING,
  codec: RESPONSES_CODEC,
  profile: OPENAI_PROFILE,
  accepts: ({ kind }) => kind !== "audio",
  // A response of this API always has a tier.
  expectUsage: (usage) => ({ ...usage, tier: usage.tier ?? "standard" }),
};

const MESSAGES: DialectLosses = {
  codec: MESSAGES_CODEC,
  profile: ANTHROPIC_PROFILE,
  isOpenai: false,
  accepts: ({ kind }) => kind !== "audio",
  expectRequest: (request) => ({
    ...request,
    items: trimLastTurn(request.items.map((item) => expectItem(item, { keepsFilenames: true }))),
    tools: request.tools.map(expectTool),
    settings: {
      ...withoutOpenaiSettings(request.settings),
      // A limit is required.
      outputTokensMax: request.settings.outputTokensMax ?? 32_000,
      temperature: null,
      topP: null,
      parallelCalls: request.settings.parallelCalls === false ? false : null,
      reasoning: request.settings.reasoning?.effort === "none" ? null : request.settings.reasoning,
      format: expectFormat(request.settings.format, { strict: true, keepsJson: false }),
      serviceTier: null,
      // The writer enables automatic caching, because clients of other dialects cannot.
      cacheHint: { ttl: "5m" },
    },
  }),
  expectDropped: ({ settings, tools }) => [
    ...(tools.length === 0 ? [] : ["tools.strict"]),
    ...named("temperature", settings.temperature),
    ...named("top_p", settings.topP),
    ...named("verbosity", settings.verbosity),
    ...named("metadata", settings.metadata),
    ...named("service_tier", settings.serviceTier),
    ...(settings.format?.kind === "json" ? ["response_format"] : []),
  ],
  expectUsage: (usage) => usage,
};

const GEMINI: DialectLosses = {
  codec: GEMINI_CODEC,
  profile: GEMINI_PROFILE,
  isOpenai: false,
  // The gateway fetches no address that a client names.
  accepts: (part) => part.kind !== "image" || part.source.kind === "base64",
  expectRequest: (request) => ({
    ...request,
    items: request.items.map((item) => expectItem(item, { keepsFilenames: false })),
    tools: request.tools.map(expectTool),
    settings: {
      ...withoutOpenaiSettings(request.settings),
      parallelCalls: null,
      reasoning: expectLevel(request.settings.reasoning),
      format: expectFormat(request.settings.format, { strict: null, keepsJson: true }),
    },
  }),
  expectDropped: ({ settings, tools }) => [
    ...(tools.length === 0 ? [] : ["tools.strict"]),
    ...named("verbosity", settings.verbosity),
    ...named("metadata", settings.metadata),
    ...named("user", settings.user),
    ...named("safety_identifier", settings.safetyIdentifier),
    ...named("prompt_cache_key", settings.promptCacheKey),
    ...(settings.parallelCalls === false ? ["parallel_tool_calls"] : []),
  ],
  // Google does not report what it writes to the cache.
  expectUsage: (usage) => ({ ...usage, cacheWriteTokens: 0 }),
};

export const DIALECT_LOSSES: readonly [string, DialectLosses][] = [
  ["Chat Completions", { ...NOTHING, codec: CHAT_CODEC, profile: OPENAI_PROFILE }],
  ["Responses", RESPONSES],
  ["Messages", MESSAGES],
  ["Gemini", GEMINI],
];

function named(name: string, value: unknown): readonly string[] {
  return value === null ? [] : [name];
}

/** The user is sent as a digest, which the tests compare on their own. Cache keys have no counterpart. */
function withoutOpenaiSettings(settings: HubSettings): HubSettings {
  return {
    ...settings,
    verbosity: null,
    promptCacheKey: null,
    promptCacheRetention: null,
    safetyIdentifier: null,
    user: null,
    metadata: null,
  };
}

/** A custom tool becomes a function with one text argument. */
function expectTool(tool: HubTool): HubTool {
  if (tool.kind === "hosted") return tool;
  const { name, namespace, description } = tool;
  const parameters = tool.kind === "custom" ? customToolSchema(tool) : tool.parameters;
  return { kind: "function", name, namespace, description, parameters, strict: null, cacheHint: null };
}

function expectItem(item: HubItem, options: { readonly keepsFilenames: boolean }): HubItem {
  switch (item.kind) {
    case "message":
      return { ...item, parts: item.parts.map((part) => expectPart(part, options)) };
    case "call":
      return item.tool === "custom"
        ? { ...item, tool: "function", input: wrapCustomInput(item.input) }
        : item;
    case "call_output":
      return { ...item, tool: "function" };
    default:
      return item;
  }
}

function expectPart(part: HubPart, { keepsFilenames }: { readonly keepsFilenames: boolean }): HubPart {
  if (part.kind === "image") return { ...part, detail: null };
  return part.kind === "file" && !keepsFilenames ? { ...part, filename: null } : part;
}

/** The API rejects a last turn of the assistant that ends in white space. */
function trimLastTurn(items: readonly HubItem[]): readonly HubItem[] {
  const last = items.at(-1);
  if (last?.kind !== "message" || last.role !== "assistant") return items;
  const parts = last.parts.map((part) =>
    part.kind === "text" ? { ...part, text: part.text.trimEnd() } : part,
  );
  return [...items.slice(0, -1), { ...last, parts }];
}

function expectFormat(
  format: HubFormat | null,
  { strict, keepsJson }: { readonly strict: boolean | null; readonly keepsJson: boolean },
): HubFormat | null {
  if (format?.kind === "json_schema") return { ...format, name: "response", description: null, strict };
  return format?.kind === "json" && !keepsJson ? null : format;
}

/** Levels end at `HIGH`, and thinking cannot be disabled for models of this generation. */
function expectLevel(reasoning: HubSettings["reasoning"]): HubSettings["reasoning"] {
  if (reasoning === null) return null;
  const effort =
    reasoning.effort === "none" ? "minimal" : reasoning.effort === "xhigh" ? "high" : reasoning.effort;
  return { ...reasoning, effort };
}
