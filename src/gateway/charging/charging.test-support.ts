/** Test support: a paying caller, a model with a price, and requests to it. */

import { policyAccount } from "../../accounts/account.test-support.ts";
import { wholeBytesPart } from "../../base/parts.ts";
import { makeTariff } from "../../money/tariff.ts";
import type { AccountRoute, PolicyGroup, PublishedModel } from "../../policy/snapshot.ts";
import { lookUpEndpoint } from "../../protocols/endpoints.ts";
import { readModelRequest } from "../../protocols/read-request.ts";
import type { EndpointName } from "../../protocols/shared/endpoint.ts";
import type { ModelRequest } from "../../protocols/shared/request.ts";
import { readUsage, type TokenUsage } from "../../protocols/shared/usage.ts";
import { type Charge, DEFAULT_QUEUE } from "../../records/group.ts";
import { INTERFACES } from "../../records/interfaces.ts";
import { NO_LIMITS } from "../../records/limits.ts";
import type { Caller } from "../admission/authenticate.ts";
import type { CountedOutput } from "../metering/output-counter.ts";
import type { RequestEnding } from "../settlement/request-ending.ts";

/** Doubled by the multiplier: 2 nano-USD per input token, 4 per output token. */
export const TARIFF = makeTariff({ input: "0.001", output: "0.002" }, { group: "2" });

export const MODEL: PublishedModel = {
  id: "fast",
  createdAtMs: 1,
  routes: new Map(),
  tariff: TARIFF,
  contextTokens: null,
  outputTokensMax: 1_000,
  fallback: [],
};

export const ROUTE: AccountRoute = {
  account: policyAccount("a1", { name: "upstream", interfaces: new Set(INTERFACES) }),
  upstreamModel: "gpt-6",
  translation: null,
};

export function makeCaller(
  charge: Charge,
  { userId = "u1" as string | null, plans = null as readonly string[] | null } = {},
): Caller {
  const group: PolicyGroup = {
    id: "g1",
    name: "team",
    interfaces: new Set(INTERFACES),
    access: "everyone",
    onDisconnect: "cancel",
    webSearchesMax: 10,
    costHeaders: false,
    capture: "off",
    websocket: true,
    billing: { charge, plans },
    limits: NO_LIMITS,
    groupLimits: NO_LIMITS,
    queue: DEFAULT_QUEUE,
    models: new Map([["fast", MODEL]]),
    accounts: [],
    requestPolicy: null,
    tightenedBy: () => group,
  };
  const key = {
    id: "k1",
    name: "laptop",
    publicId: "pub",
    userId,
    groupId: "g1",
    expiresAtMs: null,
    limits: NO_LIMITS,
    userLimits: NO_LIMITS,
    requestPolicy: null,
    fallback: null,
    capture: null,
    isTool: false,
    createdAtMs: 1,
  };
  return { key, group };
}

export { lookUpEndpoint };

/** The minimal body of each endpoint. */
const MINIMAL_BODIES: Readonly<Record<EndpointName, Record<string, unknown>>> = {
  responses: { input: "hi there" },
  "responses.compact": { input: "hi there" },
  "responses.input_tokens": { input: "hi there" },
  "chat.completions": { messages: [{ role: "user", content: "hi there" }] },
  messages: { messages: [{ role: "user", content: "hi there" }], max_tokens: 1_000 },
  "messages.count_tokens": { messages: [{ role: "user", content: "hi there" }] },
  embeddings: { input: "hi there" },
  "images.generations": { prompt: "a cat" },
  "gemini.generate_content": { contents: [{ role: "user", parts: [{ text: "Hello" }] }] },
  "gemini.stream_generate_content": { contents: [{ role: "user", parts: [{ text: "Hello" }] }] },
  "gemini.count_tokens": { contents: [{ role: "user", parts: [{ text: "Hello" }] }] },
  "gemini.embed_content": { content: { parts: [{ text: "Hello" }] } },
  "gemini.batch_embed_contents": { requests: [{ content: { parts: [{ text: "Hello" }] } }] },
  "images.edits": { prompt: "a cat" },
};

export function makeRequest(name: EndpointName, fields: Record<string, unknown> = {}): ModelRequest {
  const body = JSON.stringify({ model: "fast", ...MINIMAL_BODIES[name], ...fields });
  const endpoint = { ...lookUpEndpoint(name), model: "fast" };
  return readModelRequest(wholeBytesPart(new TextEncoder().encode(body)), endpoint, {
    depthMax: 16,
    modelNameCharsMax: 32,
  });
}

/** As an upstream reports it. */
export function makeUsage(fields: Record<string, unknown>): TokenUsage {
  const usage = readUsage(fields);
  if (usage === null) throw new Error("that is no usage");
  return usage;
}

/** A served request whose upstream reported its usage: 100 input tokens, 10 output tokens. */
export const ENDING: RequestEnding = {
  outcome: "completed",
  status: 200,
  error: null,
  usage: makeUsage({ input_tokens: 100, output_tokens: 10 }),
  images: 0,
  imageKind: null,
  responseId: null,
  responseState: "ended",
  isServed: true,
  isWhole: true,
  countOutput: null,
  estimateShown: null,
  isAbandoned: false,
};

/** A counter that returns this many output tokens, including these reasoning tokens. */
export function counterReturning(outputTokens: number, reasoningTokens = 0): () => Promise<CountedOutput> {
  return async () => ({ outputTokens, reasoningTokens });
}
