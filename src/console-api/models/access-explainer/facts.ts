/** The words of `models.why`: what each of its steps may find. */

import { z } from "zod";
import { REASONS } from "../../../policy/explain.ts";
import { INTERFACES } from "../../../records.ts";

const PAYMENT_REASONS = [
  "nobody_pays",
  "balance_available",
  "balance_empty",
  "balance_in_debt",
  "subscription_available",
  "subscription_missing",
  "subscription_used_up",
] as const;
export type PaymentReason = (typeof PAYMENT_REASONS)[number];

const LIVE_REASONS = [
  "owner_disabled",
  "within_limits",
  "limit_in_use",
  "limit_used_up",
  ...PAYMENT_REASONS,
  "available",
  "busy",
  "failing",
  "unavailable",
] as const;

export const WHY_REASONS = [...REASONS, ...LIVE_REASONS] as const;
export type WhyReason = (typeof WHY_REASONS)[number];

/** What a reason is about, for whoever says it in other words; which of these there are depends on the reason. */
export const factsAnswer = z
  .object({
    model: z.string(),
    interface: z.enum(INTERFACES),
    group: z.string(),
    /** What the group allows, or what the model serves there. */
    interfaces: z.array(z.enum(INTERFACES)),
    /** Groups in which a key could call it. */
    other_groups: z.array(z.string()),
    /** A model of the group whose name is almost the same. */
    nearest: z.string(),
    /** The limit that is used up: whose it is, and what it says. */
    scope: z.enum(["key", "user", "group"]),
    unit: z.enum(["requests", "tokens", "usd", "at_once"]),
    limit: z.string(),
    per_ms: z.number(),
    plans: z.array(z.string()),
    /** USD that can be used. */
    available: z.string(),
    debt: z.string(),
    frees_at: z.number(),
  })
  .partial();
export type Facts = z.output<typeof factsAnswer>;
