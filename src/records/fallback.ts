/** Steps that a request may take when its first group or model cannot serve it. */

import type { Charge } from "./charge.ts";
import type { Field } from "./fields.ts";

/** Why a request may leave the step before. */
export const FALLBACK_CONDITIONS = [
  "busy",
  "failing",
  "too_long",
  "subscription_used",
  "window_used",
] as const;
export type FallbackCondition = (typeof FALLBACK_CONDITIONS)[number];

/** How many steps a request may take after the first. */
export const FALLBACK_STEPS_MAX = 4;

/** As stored. Steps of a group have a `group`, steps of a model have a `model`. */
export interface FallbackStep {
  /** The id of the target group; the file has its name. */
  group: string | null;
  /** The id of the target model. */
  model: string | null;
  when: FallbackCondition[];
  /** Replaces the payer of the target group; null: the target's own applies. */
  pay: Charge | null;
  /** The highest cost of this step, as a factor of the cost at the first step: a decimal string. Null: any. */
  maxPrice: string | null;
  /** How long `busy` waits for an account; null: as long as the queue of the key's group. */
  leaveAfterMs: number | null;
  /** How long a conversation stays on this step after it was served there; null: it does not stay. */
  stayMs: number | null;
}

/** Whether the requests of a key may take fallback steps. */
export const KEY_FALLBACK = ["allow", "deny"] as const;
/** Null: allowed. */
export type KeyFallback = "deny" | null;

export interface StepsField<Kind extends string> extends Field<FallbackStep[], Kind> {
  readonly default: FallbackStep[];
}

export const groupFallback: StepsField<"groupFallback"> = { kind: "groupFallback", default: [] };
export const modelFallback: StepsField<"modelFallback"> = { kind: "modelFallback", default: [] };

export const keyFallback: Field<KeyFallback, "keyFallback"> & { readonly default: KeyFallback } = {
  kind: "keyFallback",
  default: null,
};
