/** Which subscriptions run at a moment, until when, and which of them pays first. */

import type { SubscriptionRecord } from "../records.ts";
import { monthsAfter, type WindowInstants } from "./plan-windows.ts";

type Term = Pick<SubscriptionRecord, "startsAtMs" | "endsAtMs" | "renews">;

const MONTHS = { month: 1, year: 12 } as const;

/**
 * The end of the term that `nowMs` lies in; null when it has none. A renewal is not written down: it follows from
 * the first end, so that nobody can renew twice, or forget to. Counted from the first end and not from the last, for
 * the 31st to survive February.
 */
export function presentEnd(
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
  // One term early, for the wall clock of the time zone may be in another month than UTC's.
  let term = Math.max(1, Math.floor((months - 1) / step));
  let endMs = monthsAfter(anchorMs, term * step, timeZone);
  while (endMs <= nowMs) endMs = monthsAfter(anchorMs, ++term * step, timeZone);
  return endMs;
}

/**
 * The present moment of a subscription: never before the start of a window that it has opened. Such a window proves
 * that the clock was there, and one that is set back is to grant nothing again.
 */
export function momentOf(opened: readonly WindowInstants[], nowMs: number): number {
  return opened.reduce((latestMs, { startsAtMs }) => Math.max(latestMs, startsAtMs), nowMs);
}

export type SubscriptionState = "running" | "upcoming" | "ended" | "cancelled";

export function standingOf(
  subscription: Term & Pick<SubscriptionRecord, "status">,
  nowMs: number,
): SubscriptionState {
  if (subscription.status === "cancelled") return "cancelled";
  if (nowMs < subscription.startsAtMs) return "upcoming";
  const { endsAtMs, renews } = subscription;
  return renews === "none" && endsAtMs !== null && endsAtMs <= nowMs ? "ended" : "running";
}

export interface PayingTurn {
  id: string;
  priority: number;
  /** The present end. */
  endsAtMs: number | null;
  createdAtMs: number;
}

/** The lowest priority first; among equals the one that ends sooner, then the older one. */
export function byTurn(a: PayingTurn, b: PayingTurn): number {
  return (
    a.priority - b.priority ||
    (a.endsAtMs ?? Number.MAX_SAFE_INTEGER) - (b.endsAtMs ?? Number.MAX_SAFE_INTEGER) ||
    a.createdAtMs - b.createdAtMs ||
    (a.id < b.id ? -1 : 1)
  );
}
