/** Which subscriptions run at a given time, when they end, and which of them pays first. */

import type { SubscriptionRecord } from "../records/plan.ts";
import { monthsAfter, type WindowInstants } from "./plan-windows.ts";

type Term = Pick<SubscriptionRecord, "startsAtMs" | "endsAtMs" | "renews">;

const MONTHS = { month: 1, year: 12 } as const;

/**
 * The end of the term that contains `nowMs`; null if it has none. Renewals are not stored but computed from the first
 * end, so none can happen twice or be missed. Counting from the first end, not the last one, keeps the 31st after a
 * February.
 */
export function computeCurrentEnd(
  { startsAtMs, endsAtMs, renews }: Term,
  timeZone: string,
  nowMs: number,
): number | null {
  if (renews === "none") return endsAtMs;
  const firstEndMs = endsAtMs ?? monthsAfter(startsAtMs, MONTHS[renews], timeZone);
  if (nowMs < firstEndMs) return firstEndMs;
  const anchorMs = endsAtMs ?? startsAtMs;
  const step = MONTHS[renews];
  const anchor = new Date(anchorMs);
  const now = new Date(nowMs);
  const months =
    (now.getUTCFullYear() - anchor.getUTCFullYear()) * 12 + now.getUTCMonth() - anchor.getUTCMonth();
  // Starts one term early, because the wall clock of the time zone may be in another month than UTC.
  let term = Math.max(1, Math.floor((months - 1) / step));
  let endMs = monthsAfter(anchorMs, term * step, timeZone);
  while (endMs <= nowMs) endMs = monthsAfter(anchorMs, ++term * step, timeZone);
  return endMs;
}

/**
 * The current time of a subscription: never before the start of a window that it has opened. Such a window proves
 * that the clock was there, and a clock that is set back must not grant anything again.
 */
export function computeCurrentTime(opened: readonly WindowInstants[], nowMs: number): number {
  return opened.reduce((latestMs, { startsAtMs }) => Math.max(latestMs, startsAtMs), nowMs);
}

export type SubscriptionState = "running" | "upcoming" | "ended" | "cancelled";

export function computeSubscriptionState(
  subscription: Term & Pick<SubscriptionRecord, "status">,
  nowMs: number,
): SubscriptionState {
  if (subscription.status === "cancelled") return "cancelled";
  if (nowMs < subscription.startsAtMs) return "upcoming";
  const { endsAtMs, renews } = subscription;
  return renews === "none" && endsAtMs !== null && endsAtMs <= nowMs ? "ended" : "running";
}

interface PayingTurn {
  id: string;
  priority: number;
  /** The end of the current term. */
  endsAtMs: number | null;
  createdAtMs: number;
}

/** Lowest priority first; among equals the one that ends sooner, then the older one. */
export function comparePayingOrder(a: PayingTurn, b: PayingTurn): number {
  return (
    a.priority - b.priority ||
    (a.endsAtMs ?? Number.MAX_SAFE_INTEGER) - (b.endsAtMs ?? Number.MAX_SAFE_INTEGER) ||
    a.createdAtMs - b.createdAtMs ||
    (a.id < b.id ? -1 : 1)
  );
}
