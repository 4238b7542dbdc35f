/** Random conversations and streams, and what a codec needs in tests. */

import fc from "fast-check";
import { OPENAI_PROFILE } from "../../accounts/profiles.ts";
import type { TokenUsage } from "../shared/usage.ts";
import type { ClientTarget, ResponseReadOptions, WriteTarget } from "./dialect-codec.ts";
import { DroppedFields } from "./dropped-fields.ts";
import type {
  CallItem,
  Dialect,
  HubItem,
  HubPart,
  HubRequest,
  HubSettings,
  HubTool,
  TextPart,
} from "./hub-request.ts";
import type { HubEvent, StartedItem } from "./hub-response.ts";
import type { StateSealer } from "./sealed-state.ts";

/** Seals without a key, so that tests can read the state. */
export const PLAIN_SEALER: StateSealer = {
  seal: ({ field, value }) => ({ kind: "sealed", envelope: `gws1.${field}.${value}` }),
  open(state) {
    if (state.kind === "vendor") return { field: state.field, value: state.value };
    const [, field, value] = state.envelope.split(".");
    return field === "encrypted_content" ? { field, value: value ?? "" } : null;
  },
};

export const NO_SETTINGS: HubSettings = {
  outputTokensMax: null,
  temperature: null,
  topP: null,
  topK: null,
  stop: null,
  seed: null,
  presencePenalty: null,
  frequencyPenalty: null,
  logprobs: null,
  choices: 1,
  parallelCalls: null,
  reasoning: null,
  format: null,
  verbosity: null,
  serviceTier: null,
  promptCacheKey: null,
  promptCacheRetention: null,
  safetyIdentifier: null,
  user: null,
  metadata: null,
  wantsEncryptedReasoning: false,
  cacheHint: null,
};

export function hubRequest(dialect: Dialect, change: Partial<HubRequest> = {}): HubRequest {
  return {
    dialect,
    publicModel: "public",
    stream: false,
    instructions: [],
    items: [],
    tools: [],
    toolChoice: null,
    settings: NO_SETTINGS,
    unread: [],
    original: {},
    ...change,
  };
}

export function writeTarget(change: Partial<WriteTarget> = {}): WriteTarget {
  return {
    upstreamModel: "upstream",
    profile: OPENAI_PROFILE,
    sealer: PLAIN_SEALER,
    outputTokensMax: null,
    modelOutputTokensMax: null,
    webSearchesMax: null,
    ...change,
  };
}

export function clientTarget(request: HubRequest, change: Partial<ClientTarget> = {}): ClientTarget {
  let ids = 0;
  return {
    publicModel: "public",
    request,
    responseId: "resp_1",
    previousResponseId: null,
    inputTokensEstimate: 10,
    nowMs: 1_790_000_000_000,
    newId: (prefix) => `${prefix}${ids++}`,
    wantsUsageChunk: true,
    dropped: new DroppedFields(),
    ...change,
  };
}

export const NO_TOOL_NAMES: ResponseReadOptions = {
  toolNames: { resolve: () => null },
  sealer: PLAIN_SEALER,
  dropped: new DroppedFields(),
};

export function textPart(text: string): TextPart {
  return { kind: "text", text, cacheHint: null };
}

export function message(role: "user" | "assistant" | "system", text: string): HubItem {
  return { kind: "message", role, parts: [textPart(text)] };
}

export function call(callId: string, change: Partial<CallItem> = {}): CallItem {
  return {
    kind: "call",
    callId,
    name: "look_up",
    namespace: null,
    tool: "function",
    input: "{}",
    opaque: null,
    ...change,
  };
}

export function callOutput(callId: string, text: string, tool: CallItem["tool"] = "function"): HubItem {
  return { kind: "call_output", callId, tool, parts: [textPart(text)], isError: false, cacheHint: null };
}

const word = fc
  .string({ minLength: 1, maxLength: 12, unit: "grapheme" })
  .filter((text) => text.trim() !== "");
const jsonInput = fc
  .dictionary(fc.constantFrom("a", "b", "path"), fc.string())
  .map((json) => JSON.stringify(json));

const image: fc.Arbitrary<HubPart> = fc.constantFrom<HubPart>(
  {
    kind: "image",
    source: { kind: "base64", mediaType: "image/png", base64: "aGk=" },
    detail: "low",
    cacheHint: null,
  },
  {
    kind: "image",
    source: { kind: "url", url: "https://example.com/a.png", mediaType: null },
    detail: "auto",
    cacheHint: null,
  },
  {
    kind: "file",
    source: { kind: "base64", mediaType: "application/pdf", base64: "aGk=" },
    filename: "a.pdf",
    cacheHint: null,
  },
  { kind: "audio", format: "wav", base64: "aGk=" },
);

const userMessage = fc
  .tuple(word, fc.array(image, { maxLength: 2 }))
  .map(([text, images]): HubItem => ({ kind: "message", role: "user", parts: [textPart(text), ...images] }));

/** A turn of the assistant with its calls, all of which have outputs. */
const assistantTurn = fc
  .record({
    text: fc.option(word, { nil: null }),
    calls: fc.array(fc.record({ isCustom: fc.boolean(), input: jsonInput, output: word }), { maxLength: 3 }),
  })
  .filter(({ text, calls }) => text !== null || calls.length > 0);

/** Conversations in the order in which the dialects write them; callIds are unique. */
export const conversations: fc.Arbitrary<HubItem[]> = fc
  .array(fc.tuple(userMessage, assistantTurn), { maxLength: 4 })
  .map((turns) => turns.flatMap(([user, turn], at) => [user, ...assistantItems(turn, at)]));

function assistantItems(
  turn: { text: string | null; calls: readonly { isCustom: boolean; input: string; output: string }[] },
  at: number,
): HubItem[] {
  const calls = turn.calls.map(({ isCustom, input }, i) =>
    call(`call_${at}_${i}`, isCustom ? { name: "free", tool: "custom" as const, input } : { input }),
  );
  const outputs = turn.calls.map(({ isCustom, output }, i) =>
    callOutput(`call_${at}_${i}`, output, isCustom ? "custom" : "function"),
  );
  return [...(turn.text === null ? [] : [message("assistant", turn.text)]), ...calls, ...outputs];
}

export const TOOLS: readonly HubTool[] = [
  {
    kind: "function",
    name: "look_up",
    namespace: null,
    description: "Looks something up",
    parameters: { type: "object", properties: { a: { type: "string" } } },
    strict: true,
    cacheHint: null,
  },
  {
    kind: "custom",
    name: "free",
    namespace: null,
    description: "Takes text",
    grammar: 'start: "a"',
    grammarSyntax: "lark",
  },
];

/** Settings that both of OpenAI's dialects have. */
export const sharedSettings: fc.Arbitrary<HubSettings> = fc
  .record({
    outputTokensMax: fc.option(fc.integer({ min: 16, max: 100_000 }), { nil: null }),
    temperature: fc.option(fc.constantFrom(0, 0.5, 1), { nil: null }),
    topP: fc.option(fc.constantFrom(0.1, 1), { nil: null }),
    parallelCalls: fc.option(fc.boolean(), { nil: null }),
    reasoning: fc.option(
      fc
        .constantFrom("none" as const, "low" as const, "xhigh" as const)
        .map((effort) => ({ effort, budgetTokens: null, isShown: false })),
      { nil: null },
    ),
    format: fc.constantFrom(
      null,
      { kind: "json" as const },
      { kind: "json_schema" as const, name: "n", description: "d", schema: { type: "object" }, strict: true },
    ),
    verbosity: fc.constantFrom(null, "low"),
    serviceTier: fc.constantFrom(null, "flex"),
    promptCacheKey: fc.option(word, { nil: null }),
    promptCacheRetention: fc.constantFrom(null, "24h"),
    safetyIdentifier: fc.option(word, { nil: null }),
    user: fc.option(word, { nil: null }),
    metadata: fc.constantFrom(null, { a: "b" }),
  })
  .map((change) => ({ ...NO_SETTINGS, ...change }));

const FUNCTION_ITEMS: readonly StartedItem[] = [
  { kind: "text" },
  { kind: "reasoning", isSummary: true },
  { kind: "call", callId: "", name: "look_up", namespace: null, tool: "function" },
];
const OPENAI_ITEMS: readonly StartedItem[] = [
  ...FUNCTION_ITEMS,
  { kind: "refusal" },
  { kind: "call", callId: "", name: "free", namespace: null, tool: "custom" },
];

export const USAGE: TokenUsage = {
  inputTokens: 100,
  cachedTokens: 40,
  cacheWrite1hTokens: 0,
  webSearches: 0,
  tier: null,
  cacheWriteTokens: 10,
  imageInputTokens: 0,
  audioInputTokens: 0,
  outputTokens: 20,
  reasoningTokens: 5,
  audioOutputTokens: 0,
  missing: null,
  isEarly: false,
  hasImpossibleCount: false,
};

/** Streams as readers produce them, with all items that clients of OpenAI's dialects know. */
export const streams = generateStreams(OPENAI_ITEMS);
/** Streams without custom tools and refusals, which only OpenAI's dialects have. */
export const functionStreams = generateStreams(FUNCTION_ITEMS);

/** Neighbouring items differ in kind, because Chat has no border between texts. */
function generateStreams(startedItems: readonly StartedItem[]): fc.Arbitrary<HubEvent[]> {
  return fc
    .record({
      items: fc.array(
        fc.tuple(fc.constantFrom(...startedItems), fc.array(word, { minLength: 1, maxLength: 4 })),
        { maxLength: 4 },
      ),
      stop: fc.constantFrom("end" as const, "length" as const, "filtered" as const),
      output: fc.nat(1_000),
    })
    .map(({ items, stop, output }) => {
      const kept = items.filter(
        ([item], at) => item.kind === "call" || item.kind !== items[at - 1]?.[0].kind,
      );
      const events: HubEvent[] = [{ type: "start", responseId: "r", createdAtSeconds: 1 }];
      let hasCalls = false;
      kept.forEach(([item, texts], at) => {
        hasCalls ||= item.kind === "call";
        events.push({
          type: "item_start",
          item: item.kind === "call" ? { ...item, callId: `call_${at}` } : item,
        });
        const pieces =
          item.kind === "call" && item.tool === "function" ? [JSON.stringify({ a: texts.join("") })] : texts;
        for (const text of pieces) events.push({ type: "delta", text });
        events.push({ type: "item_end", opaque: null, isCut: false });
      });
      events.push({
        type: "usage",
        usage: { ...USAGE, outputTokens: output, reasoningTokens: Math.min(5, output) },
      });
      events.push({ type: "end", stop: hasCalls ? "tools" : stop, stopSequence: null });
      return events;
    });
}

/** The events of a text of server-sent events. */
export function parseSse(text: string): { name: string | null; data: string }[] {
  return text
    .split("\n\n")
    .filter((block) => block !== "")
    .map((block) => {
      const lines = block.split("\n");
      const name = lines.find((line) => line.startsWith("event: "))?.slice("event: ".length) ?? null;
      const data = lines.find((line) => line.startsWith("data: "))?.slice("data: ".length) ?? "";
      return { name, data };
    });
}
