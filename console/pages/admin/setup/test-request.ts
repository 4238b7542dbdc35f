/** The smallest real request: it shows that an account works, for a fraction of a cent. */

import type { ResponseBody } from "../../../api.ts";
import { DIALECTS, type PlaygroundDialect } from "../../playground/dialects.ts";

export type CallableModel = ResponseBody<"admin.setup.propose">["models"][number];
type OfferedModel = ResponseBody<"models.list">["data"][number];

const PROMPT = "Say hello in one word.";
/** Above what any vendor counts for the prompt. */
const INPUT_TOKENS_MAX = 200;
/** Reasoning counts as output. */
const OUTPUT_TOKENS_MAX = 256;

/** The cheapest model for conversations that has a price; without prices the first one. */
export function chooseTestModel(models: readonly CallableModel[]): CallableModel | null {
  const talking = models.filter(({ interfaces }) => interfaces.includes("chat"));
  const byCost = talking
    .map((model) => ({ model, cost: computeCost(model) }))
    .toSorted((a, b) => (a.cost ?? Number.POSITIVE_INFINITY) - (b.cost ?? Number.POSITIVE_INFINITY));
  return byCost[0]?.model ?? null;
}

/** The most that the request may cost at the list price, in USD; null if the model has no price. */
export function computeCostMax(model: CallableModel): string | null {
  return computeCost(model)?.toFixed(6) ?? null;
}

function computeCost({ price }: CallableModel): number | null {
  if (price === null) return null;
  const output = Math.max(Number(price.output ?? 0), Number(price.reasoning ?? 0));
  const perRequest = Number(price.request ?? 0);
  return (INPUT_TOKENS_MAX * Number(price.input ?? 0) + OUTPUT_TOKENS_MAX * output) / 1e6 + perRequest;
}

/**
 * In an interface of the account itself where it has a field that every upstream knows: the limit of the output must
 * hold, because the button names the cost.
 */
export function buildTestRequest(model: OfferedModel): {
  dialect: PlaygroundDialect;
  body: Record<string, unknown>;
} {
  const isNative = (name: "responses" | "messages") =>
    model.interfaces.includes(name) && !model.translated_interfaces.includes(name);
  const shared = { model: model.id, stream: true };
  if (isNative("responses")) {
    const body = { ...shared, input: PROMPT, max_output_tokens: OUTPUT_TOKENS_MAX, store: false };
    return { dialect: DIALECTS.responses, body };
  }
  const body = { ...shared, messages: [{ role: "user", content: PROMPT }], max_tokens: OUTPUT_TOKENS_MAX };
  return { dialect: isNative("messages") ? DIALECTS.messages : DIALECTS.chat, body };
}
