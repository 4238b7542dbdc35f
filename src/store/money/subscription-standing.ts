/** How a user's subscriptions stand: what each window grants, what is used and held of it, and when it is full again. */

import { type Nano, parseUsd } from "../../money/nano.ts";
import { type WindowInstants, windowAt } from "../../money/plan-windows.ts";
import {
  byTurn,
  momentOf,
  presentEnd,
  type SubscriptionState,
  standingOf,
} from "../../money/subscription.ts";
import type { PlanWindow } from "../../records.ts";
import { type Db, snapshot } from "../engine/db.ts";
import { readOpened, readWindows } from "./subscription-windows.ts";
import { findGranted, type GrantedPlan, listGranted } from "./subscriptions.ts";

export interface WindowStanding extends WindowInstants {
  per: PlanWindow["per"];
  counted: PlanWindow["counted"];
  limitNano: Nano;
  usedNano: Nano;
  heldNano: Nano;
  /** Never below zero, even where the plan was made smaller than what is used. */
  remainingNano: Nano;
}

export interface SubscriptionStanding {
  id: string;
  userId: string;
  planName: string;
  timeZone: string;
  standing: SubscriptionState;
  startsAtMs: number;
  /** Of the present term; null: open. */
  endsAtMs: number | null;
  renews: GrantedPlan["renews"];
  priority: number;
  createdAtMs: number;
  /** The present ones, which end when they are full again; none when it does not run. */
  windows: WindowStanding[];
}

/** In paying order. Those that are over only where `past` asks for them. */
export function subscriptionsOf(
  db: Db,
  userId: string,
  nowMs: number,
  options: { past?: boolean } = {},
): Promise<SubscriptionStanding[]> {
  return standings(db, (tx) => listGranted(tx, userId), nowMs, options.past ?? false);
}

export function allSubscriptions(db: Db, nowMs: number, options: { past?: boolean } = {}) {
  return standings(db, (tx) => listGranted(tx, null), nowMs, options.past ?? false);
}

/** Only these subscriptions, whatever their standing. */
export function subscriptionsCalled(db: Db, ids: readonly string[], nowMs: number) {
  return standings(db, (tx) => findGranted(tx, ids), nowMs, true);
}

async function standings(
  db: Db,
  read: (tx: Db) => Promise<GrantedPlan[]>,
  nowMs: number,
  past: boolean,
): Promise<SubscriptionStanding[]> {
  return snapshot(db, async (tx) => {
    const all = await read(tx);
    const running = all.filter((subscription) => standingOf(subscription, nowMs) === "running");
    const opened = await readOpened(
      tx,
      running.map(({ id }) => id),
      nowMs,
    );
    const granted = all
      .map((subscription) => {
        const atMs = momentOf(opened.get(subscription.id) ?? [], nowMs);
        return { subscription, atMs, standing: standingOf(subscription, atMs) };
      })
      .filter(({ standing }) => past || standing === "running" || standing === "upcoming");
    const spans = granted
      .filter(({ standing }) => standing === "running")
      .flatMap(({ subscription, atMs }) => presentWindows(subscription, atMs));
    const uses = await readWindows(tx, spans, opened);
    const windows = spans.map((span, i) => {
      const { usedNano, heldNano } = uses[i] ?? { usedNano: 0n, heldNano: 0n };
      const rest = span.limitNano - usedNano - heldNano;
      return { ...span, usedNano, heldNano, remainingNano: rest > 0n ? rest : 0n };
    });
    const bySubscription = Map.groupBy(windows, ({ subscriptionId }) => subscriptionId);
    return granted
      .map(({ subscription, atMs, standing }) => ({
        id: subscription.id,
        userId: subscription.userId,
        planName: subscription.plan.name,
        timeZone: subscription.plan.timeZone,
        standing,
        startsAtMs: subscription.startsAtMs,
        endsAtMs: presentEnd(subscription, subscription.plan.timeZone, atMs),
        renews: subscription.renews,
        priority: subscription.priority,
        createdAtMs: subscription.createdAtMs,
        windows: (bySubscription.get(subscription.id) ?? []).map(
          ({ subscriptionId: _, ...window }) => window,
        ),
      }))
      .sort(byTurn);
  });
}

/** The windows of a running subscription that a moment lies in. */
export function presentWindows({ id, startsAtMs, plan }: GrantedPlan, atMs: number) {
  return plan.windows.map((window) => {
    const span = windowAt(window, plan.timeZone, startsAtMs, atMs);
    return {
      subscriptionId: id,
      per: window.per,
      counted: window.counted,
      limitNano: limitOf(window),
      startsAtMs: span.startsAtMs,
      endsAtMs: span.endsAtMs,
    };
  });
}

const limits = new WeakMap<PlanWindow, Nano>();

/** Asked at every admission, of windows that the store reads once. */
function limitOf(window: PlanWindow): Nano {
  const known = limits.get(window);
  if (known !== undefined) return known;
  const limitNano = parseUsd(window.usd);
  limits.set(window, limitNano);
  return limitNano;
}
