/** Schemas of rate and usage limits, for accounts and for callers. */

import { z } from "zod";
import { WINDOW_NAMES } from "./usage-limits.ts";
import { COUNT_MAX, described, wholeNumber, windowUsd } from "./words.ts";

export const count = wholeNumber(1, COUNT_MAX);

const UNLIMITED = "unlimited";

const window = described({
  per: {
    is: z.enum(WINDOW_NAMES),
    means: "the length of the span; it slides, and does not begin at midnight",
  },
  usd: {
    is: windowUsd.optional(),
    means: "what the requests of any span of this length cost, in USD",
    leftOut: UNLIMITED,
  },
  requests: { is: count.optional(), means: "requests in any span of this length", leftOut: UNLIMITED },
  tokens: {
    is: count.optional(),
    means: "tokens, in and out, in any span of this length",
    leftOut: UNLIMITED,
  },
}).refine(
  ({ usd, requests, tokens }) => usd !== undefined || requests !== undefined || tokens !== undefined,
  { error: "a window with requests, tokens, usd or several of them" },
);
const windows = z.array(window).refine((list) => new Set(list.map(({ per }) => per)).size === list.length, {
  error: "a list with one entry for each length; requests, tokens and usd stand in the same entry",
});

const rates = {
  concurrency: { is: count.optional(), means: "requests at the same time", leftOut: UNLIMITED },
  rpm: { is: count.optional(), means: "requests in any 60 seconds", leftOut: UNLIMITED },
  tpm: { is: count.optional(), means: "tokens, in and out, in any 60 seconds", leftOut: UNLIMITED },
};

export const accountLimits = described(rates);

export const callerLimits = described(
  {
    ...rates,
    windows: { is: windows.optional(), means: "longer spans", leftOut: "none" },
  },
  "limits",
);
