/**
 * A request for each rule of a request policy, which is the same in all dialects, and what becomes of it: rejected, or
 * changed into a request that the client could have sent itself.
 */

import type { Dialect } from "../../src/records/interfaces.ts";
import type { RequestRules, Rule } from "../../src/records/request-policy.ts";
import type { MemberPath } from "./named-members.ts";
import type { PolicyRequest } from "./policy-requests.ts";

type Contents = Omit<PolicyRequest, "model">;

/** The members that the rule reads. Null: the rule has no place in the dialect, or nothing to change in this request. */
type Places = Readonly<Record<Dialect, readonly MemberPath[] | null>>;

interface Rejection {
  readonly status: number;
  /** Null: the message names a member and the policy. */
  readonly message: RegExp | null;
}

interface Change {
  /** The request that must reach the upstream. */
  readonly into: Contents;
  readonly header: RegExp;
}

export interface PolicyCase {
  readonly name: string;
  readonly rule: Rule;
  readonly policy: RequestRules;
  /** The same rule, which allows the request. Null: no rule leaves the request as it is. */
  readonly within: RequestRules | null;
  readonly request: Contents;
  readonly outcome: Rejection | Change;
  readonly places: Places;
  /** Over a WebSocket the request is rejected without a policy, too. */
  readonly isHttpOnly?: boolean;
}

export const VIOLATION: Rejection = { status: 400, message: null };
const OUTPUT_MAX = 3_000;

const LIMITS: Places = {
  responses: [["max_output_tokens"]],
  chat: [["max_completion_tokens"]],
  messages: [["max_tokens"]],
  gemini: [["generationConfig", "maxOutputTokens"]],
};
const EFFORTS: Places = {
  responses: [["reasoning", "effort"]],
  chat: [["reasoning_effort"]],
  messages: [["thinking", "budget_tokens"]],
  gemini: [["generationConfig", "thinkingConfig", "thinkingBudget"]],
};
const TIERS: Places = {
  responses: [["service_tier"]],
  chat: [["service_tier"]],
  messages: [["service_tier"]],
  gemini: [["serviceTier"]],
};
const SEARCHES: Places = {
  responses: [["tools", /"web_search"/]],
  chat: [["web_search_options"]],
  messages: [["tools", /"web_search"/]],
  gemini: [["tools", /"googleSearch"/]],
};
const CONVERSATION: Places = {
  responses: [["input"]],
  chat: [["messages"]],
  messages: [["messages"]],
  gemini: [["contents"]],
};
/** Rules on no member of a body. */
const REQUEST: Places = { responses: [], chat: [], messages: [], gemini: [] };
const STORE: Places = { responses: [["store"]], chat: [["store"]], messages: null, gemini: [["store"]] };
const BACKGROUND: Places = { responses: [["background"]], chat: null, messages: null, gemini: null };
const NO_PLACES: Places = { responses: null, chat: null, messages: null, gemini: null };

const FAST_MODELS = ["chat-fast", "gemini-fast", "messages-fast", "responses-fast", "socket-fast"];
const PLAIN_TIERS = ["default", "standard", "standard_only"];
const LOWERED: Change = { into: { outputTokens: OUTPUT_MAX }, header: /^output_tokens=3000$/ };

/** By the rule and its part, as `listRuleParts` names them. */
export const POLICY_CELLS: Readonly<Record<string, readonly Omit<PolicyCase, "rule">[]>> = {
  models: [
    {
      name: "another model",
      policy: { models: ["chat-full"] },
      within: { models: FAST_MODELS },
      request: {},
      outcome: { status: 404, message: /model/ },
      places: REQUEST,
    },
  ],
  networks: [
    {
      name: "another network",
      policy: { networks: ["10.1.0.0/16"] },
      within: { networks: ["127.0.0.0/8", "::1"] },
      request: {},
      outcome: { status: 403, message: /network/ },
      places: REQUEST,
    },
  ],
  input_tokens: [
    {
      name: "a longer input",
      policy: { input_tokens: { max: 1 } },
      within: { input_tokens: { max: 100_000 } },
      request: {},
      outcome: VIOLATION,
      places: CONVERSATION,
    },
  ],
  "output_tokens.lower": [
    {
      name: "a larger limit",
      policy: { output_tokens: { max: OUTPUT_MAX, over: "lower" } },
      within: { output_tokens: { max: 20_000, over: "lower" } },
      request: {},
      outcome: LOWERED,
      places: LIMITS,
    },
    {
      name: "no limit",
      policy: { output_tokens: { max: OUTPUT_MAX } },
      within: null,
      request: { outputTokens: null },
      outcome: LOWERED,
      places: LIMITS,
    },
  ],
  "output_tokens.reject": [
    {
      name: "a larger limit",
      policy: { output_tokens: { max: OUTPUT_MAX, over: "reject" } },
      within: { output_tokens: { max: 20_000, over: "reject" } },
      request: {},
      outcome: VIOLATION,
      places: LIMITS,
    },
  ],
  "effort.lower": [
    {
      name: "a higher effort",
      policy: { effort: { max: "low", over: "lower" } },
      within: { effort: { max: "high", over: "lower" } },
      request: { effort: "high" },
      outcome: { into: { effort: "low" }, header: /^effort=(?:low|2048)$/ },
      places: EFFORTS,
    },
  ],
  "effort.reject": [
    {
      name: "a higher effort",
      policy: { effort: { max: "low", over: "reject" } },
      within: { effort: { max: "high", over: "reject" } },
      request: { effort: "high" },
      outcome: VIOLATION,
      places: EFFORTS,
    },
  ],
  service_tiers: [
    {
      name: "another tier",
      policy: { service_tiers: PLAIN_TIERS },
      within: { service_tiers: [...PLAIN_TIERS, "auto", "priority"] },
      request: { tier: "priority" },
      outcome: VIOLATION,
      places: TIERS,
    },
    {
      name: "a listed tier",
      policy: { service_tiers: PLAIN_TIERS },
      within: null,
      request: { tier: "default" },
      outcome: VIOLATION,
      places: NO_PLACES,
    },
  ],
  "tools.drop": [
    {
      name: "a denied tool",
      policy: { tools: { deny: ["web_search"], over: "drop" } },
      within: { tools: { deny: ["mcp"], over: "drop" } },
      request: { hasSearch: true },
      outcome: { into: {}, header: /^tools=-(?:web_search\w*|googleSearch)$/ },
      places: SEARCHES,
    },
  ],
  "tools.reject": [
    {
      name: "a denied tool",
      policy: { tools: { deny: ["web_search"], over: "reject" } },
      within: { tools: { deny: ["mcp"], over: "reject" } },
      request: { hasSearch: true },
      outcome: VIOLATION,
      places: SEARCHES,
    },
  ],
  "inputs.images": [
    {
      name: "a second image",
      policy: { inputs: { images: 1 } },
      within: { inputs: { images: 2 } },
      request: { inputs: ["image", "image"] },
      outcome: VIOLATION,
      places: CONVERSATION,
    },
  ],
  "inputs.files": [
    {
      name: "a file",
      policy: { inputs: { files: "deny" } },
      within: { inputs: { files: 1 } },
      request: { inputs: ["file"] },
      outcome: VIOLATION,
      places: CONVERSATION,
    },
  ],
  "inputs.urls": [
    {
      name: "an image at a URL",
      policy: { inputs: { urls: "deny" } },
      within: { inputs: { urls: 1 } },
      request: { inputs: ["url"] },
      outcome: VIOLATION,
      places: CONVERSATION,
    },
  ],
  "inputs.audio": [
    {
      name: "a sound",
      policy: { inputs: { audio: "deny" } },
      within: { inputs: { audio: 1 } },
      request: { inputs: ["audio"] },
      outcome: VIOLATION,
      places: CONVERSATION,
    },
  ],
  "force.store": [
    {
      name: "a stored response",
      policy: { force: { store: false } },
      within: { force: { background: false } },
      request: { store: true },
      outcome: { into: { store: false }, header: /^store=false$/ },
      places: STORE,
    },
    {
      name: "a response that the vendor stores by default",
      policy: { force: { store: false } },
      within: { force: { background: false } },
      request: {},
      outcome: { into: { store: false }, header: /^store=false$/ },
      places: { ...NO_PLACES, responses: [["store"]] },
    },
  ],
  "force.background": [
    {
      name: "a response in the background",
      policy: { force: { background: false } },
      within: null,
      request: { background: true },
      outcome: { into: { background: false }, header: /^background=false$/ },
      places: BACKGROUND,
      isHttpOnly: true,
    },
  ],
};
