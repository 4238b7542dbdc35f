/**
 * Applies the rules of a request policy to a body. The result depends on the body and the rules alone, so the prompt
 * caches of a conversation stay valid. Pure: it also runs in a thread.
 */

import type { JsonValue } from "../../json/members.ts";
import type { Interface } from "../../records/interfaces.ts";
import {
  type BodyRules,
  FORCED_MEMBERS,
  type ForcedMember,
  type Rule,
} from "../../records/request-policy.ts";
import type { Endpoint } from "../shared/endpoint.ts";
import type { ScannedBody } from "../shared/request.ts";
import { readTierName } from "../shared/service-tier.ts";
import { applyEffort, EFFORT_PLACES, THINKING_TOKENS_MIN } from "./effort-rule.ts";
import { applyInputs, INPUT_PLACES } from "./inputs-rule.ts";
import { type ChangedBody, PolicyBody, type PolicyChange, violation } from "./policy-body.ts";
import { applyTools, TOOL_PLACES } from "./tools-rule.ts";

/** Plain data. */
export interface PolicyResult {
  readonly changes: readonly PolicyChange[];
  /** Null if no byte changes. */
  readonly changed: ChangedBody | null;
  /** The maximum output tokens to send upstream, which is not part of the body; null without a rule. */
  readonly outputCap: number | null;
}

type BodyRule = Exclude<Rule, "models" | "networks">;

const TIER_PLACES: Readonly<Record<Interface, readonly string[] | null>> = {
  responses: ["service_tier"],
  chat: ["service_tier"],
  messages: ["service_tier", "speed"],
  gemini: ["serviceTier"],
  embeddings: null,
  images: null,
};

/** Messages: must be smaller than the limit of the output. */
const THINKING_BUDGET = "thinking.budget_tokens";

/** `absent`: the vendor's default is `true`, so the member is also added. */
const FORCED_PLACES: Readonly<
  Record<Interface, { readonly [member in ForcedMember]?: "present" | "absent" } | null>
> = {
  responses: { store: "absent", background: "present" },
  chat: { store: "present" },
  messages: null,
  gemini: { store: "present" },
  embeddings: null,
  images: null,
};

/** Where each rule finds its members in each interface. Null: the rule has no place there. */
export const RULE_PLACES: Readonly<Record<BodyRule, Readonly<Record<Interface, readonly string[] | null>>>> =
  {
    input_tokens: {
      responses: ["input"],
      chat: ["messages"],
      messages: ["messages"],
      gemini: ["contents"],
      embeddings: ["input"],
      images: ["prompt"],
    },
    output_tokens: {
      responses: ["max_output_tokens"],
      chat: ["max_completion_tokens", "max_tokens"],
      messages: ["max_tokens", THINKING_BUDGET],
      gemini: ["generationConfig.maxOutputTokens"],
      embeddings: null,
      images: null,
    },
    effort: mapPlaces((name) => EFFORT_PLACES[name]?.map(({ path }) => path.join(".")) ?? null),
    service_tiers: TIER_PLACES,
    tools: TOOL_PLACES,
    inputs: INPUT_PLACES,
    force: mapPlaces((name) => {
      const places = FORCED_PLACES[name];
      return places === null ? null : FORCED_MEMBERS.filter((member) => places[member] !== undefined);
    }),
  };

function mapPlaces(
  places: (name: Interface) => readonly string[] | null,
): Readonly<Record<Interface, readonly string[] | null>> {
  return {
    responses: places("responses"),
    chat: places("chat"),
    messages: places("messages"),
    gemini: places("gemini"),
    embeddings: places("embeddings"),
    images: places("images"),
  };
}

/** Throws the error of a request that a rule rejects. The rule on input tokens is not part of it: they are counted. */
export function applyRules(source: ScannedBody, rules: BodyRules, endpoint: Endpoint): PolicyResult {
  const body = new PolicyBody(source, endpoint);
  if (rules.serviceTiers !== null) checkTiers(body, rules.serviceTiers);
  if (Object.keys(rules.inputsMax).length > 0) applyInputs(body, rules.inputsMax);
  if (rules.tools !== null) applyTools(body, rules.tools);
  if (rules.effort !== null) applyEffort(body, rules.effort);
  const outputCap = rules.outputTokens === null ? null : limitOutput(body, rules.outputTokens, endpoint);
  for (const member of rules.forced) forceFalse(body, member, endpoint);
  return { changes: body.changes, changed: body.build(), outputCap };
}

/** A tier that is absent is the vendor's default, which no client chooses. */
function checkTiers(body: PolicyBody, tiers: readonly string[]): void {
  for (const name of TIER_PLACES[body.interface] ?? []) {
    const value = body.member(name);
    if (value === null) continue;
    const tier = readTierName(body.text(value));
    if (tier === null || !tiers.includes(tier))
      throw violation("service_tiers", name, `the service tier must be one of: ${tiers.join(", ")}.`);
  }
}

function forceFalse(body: PolicyBody, member: ForcedMember, { stores }: Endpoint): void {
  const place = FORCED_PLACES[body.interface]?.[member];
  if (place === undefined) return;
  const value = body.member(member);
  // An endpoint that stores nothing rejects a member that it does not have.
  const isAdded = place === "absent" && stores === "by_default";
  if (value?.kind === "false" || (value === null && !isAdded)) return;
  body.setMember(member, "false");
  body.note("force", member, body.show(value), "false");
}

/** The cap itself is sent by `OutputCap`, under the name that the account accepts. */
function limitOutput(
  body: PolicyBody,
  { max, over }: NonNullable<BodyRules["outputTokens"]>,
  { outputLimits, isBounded }: Endpoint,
): number | null {
  if (!isBounded) return null;
  let isLowered = false;
  let isAbsent = true;
  for (const name of outputLimits) {
    const value = findLimit(body, name);
    if (value === null) continue;
    isAbsent = false;
    const tokens = body.integer(value);
    if (tokens !== null && tokens >= 1 && tokens <= max) continue;
    if (over === "reject")
      throw violation("output_tokens", name, `at most ${max} output tokens are allowed.`);
    isLowered = true;
    body.note("output_tokens", name, body.show(value), String(max));
  }
  const [added] = outputLimits;
  if (isAbsent && added !== undefined) body.note("output_tokens", added, null, String(max));
  if (isLowered && RULE_PLACES.output_tokens[body.interface]?.includes(THINKING_BUDGET))
    fitThinking(body, max);
  return max;
}

function findLimit(body: PolicyBody, name: string): JsonValue | null {
  if (!body.isGoogle) return body.member(name);
  const config = body.member("generationConfig");
  if (config?.kind !== "object") return null;
  const limit = body.members(config, [name], "generationConfig").get(name);
  return limit === undefined || limit.kind === "null" ? null : limit;
}

function fitThinking(body: PolicyBody, outputMax: number): void {
  const thinking = body.member("thinking");
  if (thinking?.kind !== "object" || body.isEdited("thinking")) return;
  const budget = body.members(thinking, ["budget_tokens"], "thinking").get("budget_tokens");
  if (budget === undefined || budget.kind === "null") return;
  const tokens = body.replacedInteger(budget) ?? body.integer(budget);
  if (tokens !== null && tokens < outputMax) return;
  const lowered = Math.max(THINKING_TOKENS_MIN, outputMax - THINKING_TOKENS_MIN);
  if (lowered >= outputMax)
    throw violation(
      "output_tokens",
      THINKING_BUDGET,
      `at most ${outputMax} output tokens are allowed, and thinking needs more.`,
    );
  body.replace(budget, String(lowered));
  body.note("output_tokens", THINKING_BUDGET, body.show(budget), String(lowered));
}
