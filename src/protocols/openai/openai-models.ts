/** Reads from the name of a model of OpenAI whether it reasons, because each kind rejects settings of the other. */

const FAMILY = /^(?:openai\/)?(?:o\d|gpt-[5-9])/;
const EARLIER = /^(?:openai\/)?(?:gpt-[34]|chatgpt-)/;
const CHAT = /-chat(?:-|$)/;

/** `unknown`: deployments and models of other vendors, of which the profile of the account decides. */
export type ModelClass = "reasoning" | "plain" | "unknown";

export function classifyModel(model: string): ModelClass {
  if (EARLIER.test(model)) return "plain";
  if (!FAMILY.test(model)) return "unknown";
  return CHAT.test(model) ? "plain" : "reasoning";
}
