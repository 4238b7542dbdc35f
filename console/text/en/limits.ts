/** English texts: limits. */

import { plural } from "../plural.ts";

export const limits = {
  rpm: "Requests per minute",
  tpm: "Tokens per minute",
  concurrency: "Concurrent requests",
  atMost: (amount: string) => `At most ${amount}`,
  inAny: "Window",
  lengths: { "5h": "5 hours", "1d": "day", "7d": "7 days", "30d": "30 days" },
  requests: "Requests",
  tokens: "Tokens",
  usd: "USD",
  window: (length: string) => `Limits per ${length}`,
  addWindow: "Add window",
  removeWindow: (length: string) => `Remove the limits per ${length}`,
  summary: {
    between: ", ",
    rpm: (amount: string) => `${amount} requests per minute`,
    tpm: (amount: string) => `${amount} tokens per minute`,
    concurrency: (amount: string, count: number) =>
      plural(count, "1 concurrent request", `${amount} concurrent requests`),
    requests: (amount: string, length: string) => `${amount} requests per ${length}`,
    tokens: (amount: string, length: string) => `${amount} tokens per ${length}`,
    usd: (amount: string, length: string) => `${amount} per ${length}`,
    at_once: (amount: string) => `${amount} concurrent requests`,
  },
  meter: {
    requests: (span: string) => `requests per ${span}`,
    tokens: (span: string) => `tokens per ${span}`,
    usd: (span: string) => `spend per ${span}`,
    at_once: () => "concurrent requests",
  },
};
