/** How a simulator counts: `bytes` is cheap, `o200k` exact, and `words` the same for every form of a prompt. */

import { WORD_RULE } from "./prompt-words.ts";
import { BYTE_RULE, createExactRule, type TokenRule } from "./tokens.ts";

export type TokenRuleName = "bytes" | "o200k" | "words";

export function openTokenRule(name: TokenRuleName): TokenRule {
  if (name === "o200k") return createExactRule();
  return name === "words" ? WORD_RULE : BYTE_RULE;
}
