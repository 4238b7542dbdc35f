/** Lowers the effort of reasoning, wherever a dialect has it: as a word, as a level or as a budget of tokens. */

import type { JsonValue } from "../../json/members.ts";
import type { Interface } from "../../records/interfaces.ts";
import { type BodyRules, EFFORTS, type Effort } from "../../records/request-policy.ts";
import { type PolicyBody, violation } from "./policy-body.ts";

type EffortRule = NonNullable<BodyRules["effort"]>;

/** Turns thinking on, with this effort unless one of these places bounds it. */
interface EffortSwitch {
  readonly effort: Effort;
  readonly bounds: readonly (readonly [string, ...string[]])[];
}

/**
 * How a place expresses the effort: one of these words, a number of tokens, whether the model thinks at all, or in a way
 * of one vendor, which is always rejected.
 */
type EffortForm = { readonly words: readonly Effort[] } | EffortSwitch | "budget" | "mode" | "opaque";

interface EffortPlace {
  readonly path: readonly [string, ...string[]];
  readonly form: EffortForm;
}

const OPENAI_WORDS: EffortForm = { words: EFFORTS };
const ANTHROPIC_WORDS: EffortForm = { words: ["low", "medium", "high", "xhigh", "max"] };
const GOOGLE_WORDS: EffortForm = { words: ["minimal", "low", "medium", "high"] };

/** Variables of the templates of self-hosted models, which may have any names. */
const TEMPLATE = "chat_template_kwargs";
const TEMPLATE_SWITCH: EffortForm = { effort: "high", bounds: [[TEMPLATE, "thinking_budget"]] };

/** Null: the interface has no reasoning. */
export const EFFORT_PLACES: Readonly<Record<Interface, readonly EffortPlace[] | null>> = {
  responses: [{ path: ["reasoning", "effort"], form: OPENAI_WORDS }],
  chat: [
    { path: ["reasoning_effort"], form: OPENAI_WORDS },
    { path: ["reasoning", "effort"], form: OPENAI_WORDS },
    { path: ["reasoning", "max_tokens"], form: "budget" },
    {
      path: ["reasoning", "enabled"],
      form: {
        effort: "medium",
        bounds: [
          ["reasoning", "effort"],
          ["reasoning", "max_tokens"],
        ],
      },
    },
    { path: ["thinking", "type"], form: "mode" },
    { path: ["thinking", "budget_tokens"], form: "budget" },
    { path: ["thinking_budget"], form: "budget" },
    { path: ["enable_thinking"], form: { effort: "high", bounds: [["thinking_budget"]] } },
    { path: [TEMPLATE, "reasoning_effort"], form: OPENAI_WORDS },
    { path: [TEMPLATE, "thinking_budget"], form: "budget" },
    { path: [TEMPLATE, "enable_thinking"], form: TEMPLATE_SWITCH },
    { path: [TEMPLATE, "thinking"], form: TEMPLATE_SWITCH },
    { path: ["extra_body"], form: "opaque" },
  ],
  messages: [
    { path: ["thinking", "type"], form: "mode" },
    { path: ["output_config", "effort"], form: ANTHROPIC_WORDS },
    { path: ["thinking", "budget_tokens"], form: "budget" },
  ],
  gemini: [
    { path: ["generationConfig", "thinkingConfig", "thinkingLevel"], form: GOOGLE_WORDS },
    { path: ["generationConfig", "thinkingConfig", "thinkingBudget"], form: "budget" },
  ],
  embeddings: null,
  images: null,
};

/** The largest budget of each effort, as `budgetEffort` of `hub/write-effort.ts` reads it. A higher one has no limit. */
const BUDGETS: Readonly<Partial<Record<Effort, number>>> = {
  none: 0,
  minimal: 1_024,
  low: 2_048,
  medium: 8_192,
};
/** Anthropic's smallest budget. */
export const THINKING_TOKENS_MIN = 1_024;

export function applyEffort(body: PolicyBody, rule: EffortRule): void {
  for (const { path, form } of EFFORT_PLACES[body.interface] ?? []) {
    if (form === "mode") {
      applyThinkingMode(body, rule);
      continue;
    }
    const value = findValue(body, path);
    if (value === null || body.isEdited(path[0])) continue;
    const param = path.join(".");
    if (form === "opaque") throw violation("effort", param, "its content may set the effort of reasoning.");
    if (form === "budget") applyBudget(body, rule, { value, param });
    else if ("bounds" in form) applySwitch(body, rule, { value, param }, form);
    else applyWord(body, rule, { value, param }, form.words);
  }
  if (EFFORT_PLACES[body.interface]?.some(({ path }) => path[0] === TEMPLATE)) checkTemplate(body, rule);
}

function isAbove(effort: Effort, max: Effort): boolean {
  return EFFORTS.indexOf(effort) > EFFORTS.indexOf(max);
}

/** What bounds the effort has a place of its own, and is lowered there. Templates take any value but false for true. */
function applySwitch(
  body: PolicyBody,
  { max, over }: EffortRule,
  { value, param }: FoundEffort,
  { effort, bounds }: EffortSwitch,
): void {
  if (value.kind === "false" || !isAbove(effort, max)) return;
  if (max !== "none" && bounds.some((path) => findValue(body, path) !== null)) return;
  if (over === "reject") throw tooHigh(param, max);
  body.replace(value, "false");
  body.note("effort", param, body.show(value), "false");
}

const TEMPLATE_NAMES: readonly string[] = [
  "reasoning_effort",
  "thinking_budget",
  "enable_thinking",
  "thinking",
];

/** A variable with another name may set the effort. */
function checkTemplate(body: PolicyBody, { max }: EffortRule): void {
  const variables = body.member(TEMPLATE);
  if (variables?.kind !== "object" || !isAbove("high", max)) return;
  for (const [name, { kind }] of body.members(variables, "all", TEMPLATE))
    if (
      /think|reason|effort|budget/i.test(name) &&
      !TEMPLATE_NAMES.includes(name) &&
      kind !== "false" &&
      kind !== "null"
    )
      throw tooHigh(`${TEMPLATE}.${name}`, max);
}

interface FoundEffort {
  readonly value: JsonValue;
  readonly param: string;
}

function findValue(body: PolicyBody, [first, ...rest]: readonly [string, ...string[]]): JsonValue | null {
  let value = body.member(first);
  let path = first;
  for (const name of rest) {
    if (value?.kind !== "object") return null;
    const member = body.members(value, [name], path).get(name);
    value = member === undefined || member.kind === "null" ? null : member;
    path = `${path}.${name}`;
  }
  return value;
}

/** A word that is not known may be a higher effort. */
function applyWord(
  body: PolicyBody,
  { max, over }: EffortRule,
  { value, param }: FoundEffort,
  words: readonly Effort[],
): void {
  const known: readonly string[] = EFFORTS;
  const rank = known.indexOf(body.text(value)?.toLowerCase() ?? "");
  if (rank !== -1 && rank <= EFFORTS.indexOf(max)) return;
  const lowered = words.findLast((effort) => EFFORTS.indexOf(effort) <= EFFORTS.indexOf(max));
  if (over === "reject" || lowered === undefined) throw tooHigh(param, max);
  body.replace(value, JSON.stringify(lowered));
  body.note("effort", param, body.show(value), lowered);
}

/** Negative budgets leave the effort to the model, up to its highest. */
function applyBudget(body: PolicyBody, { max, over }: EffortRule, { value, param }: FoundEffort): void {
  const tokensMax = BUDGETS[max];
  if (tokensMax === undefined) return;
  const tokens = body.integer(value);
  if (tokens !== null && tokens >= 0 && tokens <= tokensMax) return;
  if (over === "reject") throw tooHigh(param, max);
  body.replace(value, String(tokensMax));
  body.note("effort", param, body.show(value), String(tokensMax));
}

const DISABLED = '{"type":"disabled"}';

/**
 * No effort is no thinking. Messages: adaptive thinking uses a high effort unless `output_config` has another. Where
 * no member sets the effort of adaptive thinking, or of enabled thinking without a budget, it is turned off.
 */
function applyThinkingMode(body: PolicyBody, { max, over }: EffortRule): void {
  const thinking = body.member("thinking");
  if (thinking === null || EFFORTS.indexOf(max) >= EFFORTS.indexOf("high")) return;
  const type =
    thinking.kind === "object" ? body.members(thinking, ["type"], "thinking").get("type") : undefined;
  const mode = type === undefined ? null : body.text(type);
  const hasConfig = EFFORT_PLACES[body.interface]?.some(({ path }) => path[0] === "output_config");
  // Messages require a budget with enabled thinking. Vendors of Chat Completions do not.
  const isBounded = hasConfig || findValue(body, ["thinking", "budget_tokens"]) !== null;
  if (mode === "disabled" || (mode === "enabled" && max !== "none" && isBounded)) return;
  if (mode === "adaptive" && hasConfig && EFFORTS.indexOf(max) >= EFFORTS.indexOf("low")) {
    const config = body.member("output_config");
    if (config !== null && findValue(body, ["output_config", "effort"]) !== null) return;
    if (over === "reject") throw tooHigh("thinking.type", max);
    if (config === null) body.setMember("output_config", JSON.stringify({ effort: max }));
    else if (config.kind === "object") setEffort(body, config, JSON.stringify(max));
    else throw tooHigh("output_config", max);
    body.note("effort", "output_config.effort", null, max);
    return;
  }
  if (over === "reject") throw tooHigh("thinking.type", max);
  body.setMember("thinking", DISABLED);
  body.note("effort", "thinking.type", mode, "disabled");
}

/** A second member of the same name would count instead, so a null is replaced. */
function setEffort(body: PolicyBody, config: JsonValue, json: string): void {
  const present = body.members(config, ["effort"], "output_config").get("effort");
  if (present === undefined) body.insert(config, "effort", json);
  else body.replace(present, json);
}

function tooHigh(param: string, max: Effort) {
  return violation("effort", param, `the effort of reasoning must be ${max} or lower.`);
}
