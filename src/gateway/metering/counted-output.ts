/** The output tokens of a response, counted by the gateway because the upstream did not report them. */
export interface CountedOutput {
  outputTokens: number;
  /** Part of `outputTokens`: the reasoning that was shown, which may have a separate price. */
  reasoningTokens: number;
}
