/** Lowers the effort of reasoning, wherever a dialect has it: as a word, as a level or as a budget of tokens. */

import type { JsonValue } from "../../json/members.ts";
import type { Interface } from "../../records/interfaces.ts";
import { type BodyRules, EFFORTS, type Effort } from "../../records/request-policy.ts";
import { type PolicyBody, violation } from "./policy-body.ts";

type EffortRule = NonNullable<BodyRules["effort"]>;

/**
 * How a place expresses the effort: one of these words, a number of tokens, whether the model thinks at all, or in a way
 * of one vendor, which is always rejected.
 */
type EffortForm = { readonly words: readonly Effort[] } | "budget" | "mode" | "opaque";

interface EffortPlace {
  readonly path: readonly [string, ...string[]];
  readonly form: EffortForm;
}

const OPENAI_WORDS: EffortForm = { words: EFFORTS };
const ANTHROPIC_WORDS: EffortForm = { words: ["low", "medium", "high", "xhigh", "max"] };
const GOOGLE_WORDS: EffortForm = { words: ["minimal", "low", "medium", "high"] };

/** Null: the interface has no reasoning. */
export const EFFORT_PLACES: Readonly<Record<Interface, readonly EffortPlace[] | null>> = {
  responses: [{ path: ["reasoning", "effort"], form: OPENAI_WORDS }],
  chat: [
    { path: ["reasoning_effort"], form: OPENAI_WORDS },
    { path: ["reasoning", "effort"], form: OPENAI_WORDS },
    { path: ["reasoning", "max_tokens"], form: "budget" },
    { path: ["thinking", "type"], form: "mode" },
    { path: ["thinking", "budget_tokens"], form: "budget" },
    { path: ["thinking_budget"], form: "budget" },
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
    if (form === "opaque") throw violation(param, "its content may set the effort of reasoning.");
    if (form === "budget") applyBudget(body, rule, { value, param });
    else applyWord(body, rule, { value, param }, form.words);
  }
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
 * no member sets the effort of adaptive thinking, it is turned off.
 */
function applyThinkingMode(body: PolicyBody, { max, over }: EffortRule): void {
  const thinking = body.member("thinking");
  if (thinking === null || EFFORTS.indexOf(max) >= EFFORTS.indexOf("high")) return;
  const type =
    thinking.kind === "object" ? body.members(thinking, ["type"], "thinking").get("type") : undefined;
  const mode = type === undefined ? null : body.text(type);
  if (mode === "disabled" || (mode === "enabled" && max !== "none")) return;
  const hasConfig = EFFORT_PLACES[body.interface]?.some(({ path }) => path[0] === "output_config");
  if (mode === "adaptive" && hasConfig && EFFORTS.indexOf(max) >= EFFORTS.indexOf("low")) {
    const config = body.member("output_config");
    if (config !== null && findValue(body, ["output_config", "effort"]) !== null) return;
    if (over === "reject") throw tooHigh("thinking.type", max);
    if (config === null) body.setMember("output_config", JSON.stringify({ effort: max }));
    else if (config.kind === "object") body.insert(config, "effort", JSON.stringify(max));
    else throw tooHigh("output_config", max);
    body.note("effort", "output_config.effort", null, max);
    return;
  }
  if (over === "reject") throw tooHigh("thinking.type", max);
  body.setMember("thinking", DISABLED);
  body.note("effort", "thinking.type", mode, "disabled");
}

function tooHigh(param: string, max: Effort) {
  return violation(param, `the effort of reasoning must be ${max} or lower.`);
}
