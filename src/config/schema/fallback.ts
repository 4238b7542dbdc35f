/** Schemas of fallback steps, which groups and models have. */

import { z } from "zod";
import { FALLBACK_CONDITIONS, FALLBACK_STEPS_MAX } from "../../records/fallback.ts";
import { CHARGES } from "../../records/group.ts";
import { limits } from "../limits/product-limits.ts";
import { decimal, describeFields, modelName, name, type SchemaField, text } from "./basic-values.ts";
import { duration } from "./limits.ts";

const when = z
  .array(z.enum(FALLBACK_CONDITIONS))
  .min(1, { error: "a list with at least one condition" })
  .refine((conditions) => new Set(conditions).size === conditions.length, {
    error: "a list that names each condition once",
  });

const MAX_PRICE_RULE = 'a factor above 0 like "2.5", with at most 6 decimals';
const maxPrice = text(MAX_PRICE_RULE, (factor) => decimal(6).safeParse(factor).success && Number(factor) > 0);

const COMMON_FIELDS = {
  when: {
    is: when,
    means:
      "the conditions on which a request goes to this step. A step before it is `busy` (no account is free within `leave_after`, or a limit of the group rejects the request), `failing` (its accounts fail, time out or are cooling down), or has `too_long` (the input does not fit its context window, and fits that of this step), `subscription_used` (no subscription can pay) or `window_used` (a window in the limits of its group is used up)",
  },
  pay: {
    is: z.enum(CHARGES).optional(),
    means: "the payer of this step, instead of `billing.charge` of its group",
    leftOut: "as `billing.charge`",
  },
  max_price: {
    is: maxPrice.optional(),
    means:
      'the highest expected cost of the request at this step, as a factor of that at the first step: `"2.5"`. A step that costs more is skipped',
    leftOut: "any",
    also: "only if the first step has a price",
  },
  leave_after: {
    is: duration(limits.queueTimeoutMsMax).optional(),
    means: "how long a request waits for an account of the step before until it is `busy`",
    leftOut: "`queue.timeout` of the key's group",
    also: "at most `queue.timeout`; only with `busy`",
  },
  stay: {
    is: duration(limits.fallbackStayMsMax).optional(),
    means: "how long a conversation stays on this step after it was served there, for prompt caches",
    leftOut: "the next request begins at the first step",
  },
} satisfies Record<string, SchemaField>;

export const groupFallback = z
  .array(
    describeFields({
      group: {
        is: name,
        means: "the group that serves the request: with its accounts, prices, payer and limits",
        also: "each one of `groups`; it has the models of this group",
      },
      ...COMMON_FIELDS,
    }),
  )
  .max(FALLBACK_STEPS_MAX, { error: `a list with at most ${FALLBACK_STEPS_MAX} steps` });

export const modelFallback = z
  .array(
    describeFields({
      model: {
        is: modelName,
        means: "the model that serves the request in the same group",
        also: "each one of `models`",
      },
      ...COMMON_FIELDS,
    }),
  )
  .max(FALLBACK_STEPS_MAX, { error: `a list with at most ${FALLBACK_STEPS_MAX} steps` });
