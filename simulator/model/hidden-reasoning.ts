/** Reasoning that a model bills and never shows, as most reasoning models do. */

import type { Behaviour } from "./model-name.ts";

/** The sum over all choices. A limit on the output also limits its reasoning. */
export function hiddenTokens(
  { hiddenTokens }: Behaviour,
  outputTokensMax: number | null,
  choices: number,
): number {
  return choices * Math.min(hiddenTokens, outputTokensMax ?? hiddenTokens);
}

interface OutputUsage {
  output: number;
  reasoning: number;
  hidden?: number;
}

export function withHidden<U extends OutputUsage>(shown: U, hidden: number): U {
  if (hidden === 0) return shown;
  return { ...shown, output: shown.output + hidden, reasoning: shown.reasoning + hidden, hidden };
}
