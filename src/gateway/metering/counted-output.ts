/** The tokens of an answer, counted here because its upstream did not tell them. */
export interface CountedOutput {
  outputTokens: number;
  /** Inside `outputTokens`: what it showed of its reasoning, which may have a price of its own. */
  reasoningTokens: number;
}
