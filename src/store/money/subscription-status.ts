/** The state of subscriptions: limit, use and holds of each window, and when the window resets. */

import { type Nano, parseUsd } from "../../money/nano.ts";
import { type WindowInstants, windowAt } from "../../money/plan-windows.ts";
import {
  comparePayingOrder,
  computeCurrentEnd,
  computeCurrentTime,
  computeSubscriptionState,
  type SubscriptionState,
} from "../../money/subscription.ts";
import type { PlanWindow } from "../../records/plan.ts";
import { type Db, snapshot } from "../engine/db.ts";
import { readOpened, readWindows } from "./subscription-windows.ts";
import { findGranted, type GrantedPlan, listGranted } from "./subscriptions.ts";

export interface PlanWindowStatus extends WindowInstants {
  per: PlanWindow["per"];
  counted: PlanWindow["counted"];
  limitNano: Nano;
  usedNano: Nano;
  heldNano: Nano;
  /** Never below zero, even if the plan was reduced below the used amount. */
  remainingNano: Nano;
}

export interface SubscriptionStatus {
  id: string;
  userId: string;
  planName: string;
  timeZone: string;
  state: SubscriptionState;
  startsAtMs: number;
  /** End of the current term; null if open-ended. */
  endsAtMs: number | null;
  renews: GrantedPlan["renews"];
  priority: number;
  createdAtMs: number;
  /** The current windows, whose end is their reset time; empty if the subscription is not running. */
  windows: PlanWindowStatus[];
}

/** In paying order. Includes ended subscriptions only with `past`. */
export function listSubscriptionStatuses(
  db: Db,
  userId: string,
  nowMs: number,
  options: { past?: boolean } = {},
): Promise<SubscriptionStatus[]> {
  return readStatuses(db, (tx) => listGranted(tx, userId), nowMs, options.past ?? false);
}

export function listAllSubscriptionStatuses(db: Db, nowMs: number, options: { past?: boolean } = {}) {
  return readStatuses(db, (tx) => listGranted(tx, null), nowMs, options.past ?? false);
}

/** Exactly these subscriptions, in any state. */
export function readSubscriptionStatuses(db: Db, ids: readonly string[], nowMs: number) {
  return readStatuses(db, (tx) => findGranted(tx, ids), nowMs, true);
}

async function readStatuses(
  db: Db,
  read: (tx: Db) => Promise<GrantedPlan[]>,
  nowMs: number,
  past: boolean,
): Promise<SubscriptionStatus[]> {
  return snapshot(db, async (tx) => {
    const candidates = await read(tx);
    const running = candidates.filter(
      (subscription) => computeSubscriptionState(subscription, nowMs) === "running",
    );
    const opened = await readOpened(
      tx,
      running.map(({ id }) => id),
      nowMs,
    );
    const granted = candidates
      .map((subscription) => {
        const atMs = computeCurrentTime(opened.get(subscription.id) ?? [], nowMs);
        return { subscription, atMs, state: computeSubscriptionState(subscription, atMs) };
      })
      .filter(({ state }) => past || state === "running" || state === "upcoming");
    const spans = granted
      .filter(({ state }) => state === "running")
      .flatMap(({ subscription, atMs }) => buildCurrentWindows(subscription, atMs));
    const windowUses = await readWindows(tx, spans, opened);
    const windows = spans.map((span, i) => {
      const { usedNano, heldNano } = windowUses[i] ?? { usedNano: 0n, heldNano: 0n };
      const remainingNano = span.limitNano - usedNano - heldNano;
      return { ...span, usedNano, heldNano, remainingNano: remainingNano > 0n ? remainingNano : 0n };
    });
    const bySubscription = Map.groupBy(windows, ({ subscriptionId }) => subscriptionId);
    return granted
      .map(({ subscription, atMs, state }) => ({
        id: subscription.id,
        userId: subscription.userId,
        planName: subscription.plan.name,
        timeZone: subscription.plan.timeZone,
        state,
        startsAtMs: subscription.startsAtMs,
        endsAtMs: computeCurrentEnd(subscription, subscription.plan.timeZone, atMs),
        renews: subscription.renews,
        priority: subscription.priority,
        createdAtMs: subscription.createdAtMs,
        windows: (bySubscription.get(subscription.id) ?? []).map(
          ({ subscriptionId: _, ...window }) => window,
        ),
      }))
      .sort(comparePayingOrder);
  });
}

/** The windows of a running subscription that contain a time. */
export function buildCurrentWindows({ id, startsAtMs, plan }: GrantedPlan, atMs: number) {
  return plan.windows.map((window) => {
    const span = windowAt(window, plan.timeZone, startsAtMs, atMs);
    return {
      subscriptionId: id,
      per: window.per,
      counted: window.counted,
      limitNano: windowLimit(window),
      startsAtMs: span.startsAtMs,
      endsAtMs: span.endsAtMs,
    };
  });
}

const limitNanoByWindow = new WeakMap<PlanWindow, Nano>();

/** Cached: used at every admission, for windows that the store parses once. */
function windowLimit(window: PlanWindow): Nano {
  const cached = limitNanoByWindow.get(window);
  if (cached !== undefined) return cached;
  const limitNano = parseUsd(window.usd);
  limitNanoByWindow.set(window, limitNano);
  return limitNano;
}
