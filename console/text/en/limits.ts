import { plural } from "../plural.ts";

export const limits = {
  rpm: "Requests per minute",
  tpm: "Tokens per minute",
  concurrency: "Requests at the same time",
  atMost: (amount: string) => `At most ${amount}`,
  inAny: "In any",
  lengths: { "5h": "5 hours", "1d": "day", "7d": "7 days", "30d": "30 days" },
  requests: "Requests",
  tokens: "Tokens",
  usd: "US dollars",
  window: (length: string) => `Limits in any ${length}`,
  addWindow: "Add a longer window",
  removeWindow: (length: string) => `Remove the limits of ${length}`,
  said: {
    between: ", ",
    rpm: (amount: string) => `${amount} requests a minute`,
    tpm: (amount: string) => `${amount} tokens a minute`,
    concurrency: (count: number, amount: string) =>
      plural(count, "one at a time", `${amount} at the same time`),
    requests: (amount: string, length: string) => `${amount} requests in any ${length}`,
    tokens: (amount: string, length: string) => `${amount} tokens in any ${length}`,
    usd: (amount: string, length: string) => `${amount} in any ${length}`,
  },
};
