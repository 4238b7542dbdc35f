/**
 * The remaining balances of subscriptions, each at its own current time (`computeCurrentTime`). Held money belongs to the
 * windows of the hold's time. Its settlement moves it from held to used in the same windows, even if these are over
 * by then.
 */

import type { Nano } from "../../money/nano.ts";
import {
  comparePayingOrder,
  computeCurrentEnd,
  computeCurrentTime,
  computeSubscriptionState,
} from "../../money/subscription.ts";
import type { PlanPeriod } from "../../records/plan.ts";
import type { Db } from "../../store/engine/db.ts";
import { buildCurrentWindows } from "../../store/money/subscription-status.ts";
import {
  addToWindows,
  openWindows,
  readOpened,
  type WindowChange,
} from "../../store/money/subscription-windows.ts";
import { type GrantedPlan, lockRunning, lockSubscriptions } from "../../store/money/subscriptions.ts";

interface SubscriptionBalanceWindow {
  per: PlanPeriod;
  startsAtMs: number;
  endsAtMs: number;
  limitNano: Nano;
  usedNano: Nano;
  heldNano: Nano;
}

export interface SubscriptionBalance {
  subscriptionId: string;
  planName: string;
  /** The time that determines the windows, and the time of everything the subscription pays for. */
  atMs: number;
  /** The smallest remaining amount of its windows; never below zero. */
  remainingNano: Nano;
  /** When the window with the smallest remaining amount resets; null if the subscription ends before. */
  resetsAtMs: number | null;
  windows: SubscriptionBalanceWindow[];
}

/**
 * The running subscriptions of each user in paying order, locked until the transaction ends. Users without a
 * subscription are omitted. Call once for all users of a batch, before anything is written: holds and entries
 * that are written later are counted in memory.
 */
export async function lockSubscriptionBalances(
  tx: Db,
  userIds: readonly string[],
  nowMs: number,
): Promise<ReadonlyMap<string, SubscriptionBalance[]>> {
  const locked = await lockRunning(tx, userIds, nowMs);
  const opened = await readOpened(
    tx,
    locked.map(({ id }) => id),
    nowMs,
  );
  const running = locked
    .map((subscription) => ({
      subscription,
      atMs: computeCurrentTime(opened.get(subscription.id) ?? [], nowMs),
    }))
    .filter(({ subscription, atMs }) => computeSubscriptionState(subscription, atMs) === "running");
  const spans = running.map(({ subscription, atMs }) => buildCurrentWindows(subscription, atMs));
  const uses = await openWindows(tx, spans.flat(), opened);
  let next = 0;
  const subscriptionBalances = running.map(({ subscription, atMs }, i) => {
    const windows = (spans[i] ?? []).map(({ per, startsAtMs, endsAtMs, limitNano }) => {
      const { usedNano, heldNano } = uses[next++] ?? failMissingUse();
      return { per, startsAtMs, endsAtMs, limitNano, usedNano, heldNano };
    });
    return { subscription, subscriptionBalance: buildBalance(subscription, atMs, windows) };
  });
  const byUser = Map.groupBy(subscriptionBalances, ({ subscription }) => subscription.userId);
  return new Map([...byUser].map(([userId, list]) => [userId, sortByPayingOrder(list)]));
}

/** Negative amounts are subtracted. `atMs`: the time of the hold, which its entry must have too. */
export async function changeWindows(tx: Db, changes: readonly WindowChange[]): Promise<void> {
  await lockSubscriptions(tx, [...new Set(changes.map(({ subscriptionId }) => subscriptionId))].sort());
  await addToWindows(tx, changes);
}

export function computeRemaining({ limitNano, usedNano, heldNano }: SubscriptionBalanceWindow): Nano {
  const rest = limitNano - usedNano - heldNano;
  return rest > 0n ? rest : 0n;
}

/** The remaining amount after the changes of a batch (`addToBalance`). */
export function computeAvailable({ windows }: Pick<SubscriptionBalance, "windows">): Nano {
  return windows.map(computeRemaining).reduce((least, rest) => (rest < least ? rest : least));
}

/** Adds the change to the windows that contain its time, as the database does when it is written. */
export function addToBalance(
  { windows }: Pick<SubscriptionBalance, "windows">,
  { atMs, heldNano, usedNano }: Pick<WindowChange, "atMs" | "heldNano" | "usedNano">,
): void {
  for (const window of windows) {
    if (atMs < window.startsAtMs || atMs >= window.endsAtMs) continue;
    window.heldNano += heldNano;
    window.usedNano += usedNano;
  }
}

/** What would be left without the holds of requests in flight. */
export function computeRemainingWithoutHolds({ windows }: Pick<SubscriptionBalance, "windows">): Nano {
  const rests = windows.map((window) => computeRemaining({ ...window, heldNano: 0n }));
  return rests.reduce((least, rest) => (rest < least ? rest : least));
}

function buildBalance(
  { id, plan, endsAtMs, renews }: GrantedPlan,
  atMs: number,
  windows: SubscriptionBalanceWindow[],
): SubscriptionBalance {
  const remainingNano = computeAvailable({ windows });
  // If several windows are equally empty, the last one to reset decides.
  const resetsAtMs = Math.max(
    ...windows
      .filter((window) => computeRemaining(window) === remainingNano)
      .map((window) => window.endsAtMs),
  );
  const endsBefore = renews === "none" && endsAtMs !== null && endsAtMs <= resetsAtMs;
  return {
    subscriptionId: id,
    planName: plan.name,
    atMs,
    remainingNano,
    resetsAtMs: endsBefore ? null : resetsAtMs,
    windows,
  };
}

function sortByPayingOrder(
  list: readonly { subscription: GrantedPlan; subscriptionBalance: SubscriptionBalance }[],
): SubscriptionBalance[] {
  // Most users have one subscription. Computing the end of a renewing term is the most expensive step here.
  if (list.length === 1) return list.map(({ subscriptionBalance }) => subscriptionBalance);
  return list
    .map(({ subscription, subscriptionBalance }) => {
      const endsAtMs = computeCurrentEnd(subscription, subscription.plan.timeZone, subscriptionBalance.atMs);
      return { subscriptionBalance, turn: { ...subscription, endsAtMs } };
    })
    .sort((a, b) => comparePayingOrder(a.turn, b.turn))
    .map(({ subscriptionBalance }) => subscriptionBalance);
}

function failMissingUse(): never {
  throw new Error("openWindows returned fewer rows than windows requested");
}
