/** The reasons and facts of `models.why`: what each step can find. */

import { z } from "zod";
import { REASONS } from "../../../policy/explain.ts";
import { INTERFACES } from "../../../records/interfaces.ts";
import { UNIT_FIELDS } from "../../../records/limits.ts";

const PAYMENT_REASONS = [
  "free_group",
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

/** Details of a reason, for clients with their own texts. Which of them are set depends on the reason. */
export const factsResponse = z
  .object({
    model: z.string(),
    interface: z.enum(INTERFACES),
    group: z.string(),
    /** The interfaces that the group allows, or that the model serves there. */
    interfaces: z.array(z.enum(INTERFACES)),
    /** Groups in which a key could call the model. */
    other_groups: z.array(z.string()),
    /** A model of the group with a similar name. */
    nearest: z.string(),
    /** The exhausted limit: its scope and its value. */
    scope: z.enum(["key", "user", "group"]),
    unit: z.enum([...UNIT_FIELDS, "at_once"]),
    limit: z.string(),
    per_ms: z.number(),
    plans: z.array(z.string()),
    /** Available USD. */
    available: z.string(),
    debt: z.string(),
    frees_at: z.number(),
  })
  .partial();
export type Facts = z.output<typeof factsResponse>;
