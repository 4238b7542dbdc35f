/** Schemas of rate and usage limits, for accounts and for callers. */

import { z } from "zod";
import { COUNT_MAX, describeFields, wholeNumber, windowUsd } from "./basic-values.ts";
import { WINDOW_NAMES } from "./usage-limits.ts";

export const count = wholeNumber(1, COUNT_MAX);

const UNLIMITED = "unlimited";

const window = describeFields({
  per: {
    is: z.enum(WINDOW_NAMES),
    means: "the length of the window, a sliding window",
  },
  usd: {
    is: windowUsd.optional(),
    means: "maximum cost of requests within the window, in USD",
    leftOut: UNLIMITED,
  },
  requests: {
    is: count.optional(),
    means: "maximum number of requests within the window",
    leftOut: UNLIMITED,
  },
  tokens: {
    is: count.optional(),
    means: "maximum number of input and output tokens within the window",
    leftOut: UNLIMITED,
  },
}).refine(
  ({ usd, requests, tokens }) => usd !== undefined || requests !== undefined || tokens !== undefined,
  { error: "a window with requests, tokens, usd or several of them" },
);
const windows = z.array(window).refine((list) => new Set(list.map(({ per }) => per)).size === list.length, {
  error: "a list with one entry per length; requests, tokens and usd belong in the same entry",
});

const rates = {
  concurrency: { is: count.optional(), means: "maximum number of concurrent requests", leftOut: UNLIMITED },
  rpm: { is: count.optional(), means: "maximum number of requests in any 60 seconds", leftOut: UNLIMITED },
  tpm: {
    is: count.optional(),
    means: "maximum number of input and output tokens in any 60 seconds",
    leftOut: UNLIMITED,
  },
};

export const accountLimits = describeFields(rates);

export const callerLimits = describeFields(
  {
    ...rates,
    windows: { is: windows.optional(), means: "limits over longer sliding windows", leftOut: "none" },
  },
  "limits",
);
