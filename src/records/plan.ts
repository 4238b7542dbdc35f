/** Plans and subscriptions as they are stored. */

export const PLAN_PERIODS = ["day", "week", "month"] as const;
export type PlanPeriod = (typeof PLAN_PERIODS)[number];

export const COUNTED = ["calendar", "rolling"] as const;

/** An amount per day, week or month, either of the calendar or counted from the subscription's start. */
export interface PlanWindow {
  per: PlanPeriod;
  /** A decimal string of USD. */
  usd: string;
  counted: (typeof COUNTED)[number];
}

/** A plan that can be granted to users. */
export interface PlanRecord {
  id: string;
  name: string;
  /** An IANA name. Calendar windows begin, and months are counted, in this time zone. */
  timeZone: string;
  /** At least one; each period at most once. */
  windows: PlanWindow[];
  createdAtMs: number;
}

export const RENEWALS = ["none", "month", "year"] as const;
type Renewal = (typeof RENEWALS)[number];

export interface SubscriptionRecord {
  id: string;
  userId: string;
  planId: string;
  startsAtMs: number;
  /** Exclusive end; null: open-ended. If the subscription renews, null means one period after the start. */
  endsAtMs: number | null;
  /** At each end the subscription is extended by this period. */
  renews: Renewal;
  /** The lowest number pays first. */
  priority: number;
  status: "active" | "cancelled";
  createdAtMs: number;
}
