/**
 * What subscriptions have left to pay with. Held money belongs to the windows of the hold's time, and its settlement
 * moves it from held to used in those same windows, even when they are over by then.
 */

import type { Nano } from "../money/nano.ts";
import { byTurn, presentEnd } from "../money/subscription.ts";
import type { PlanPeriod } from "../records.ts";
import type { Db } from "../store/db.ts";
import { presentWindows } from "../store/subscription-standing.ts";
import { addToWindows, openWindows, type WindowChange } from "../store/subscription-windows.ts";
import { type GrantedPlan, lockRunning, lockSubscriptions } from "../store/subscriptions.ts";

export interface PurseWindow {
  per: PlanPeriod;
  startsAtMs: number;
  endsAtMs: number;
  limitNano: Nano;
  usedNano: Nano;
  heldNano: Nano;
}

export interface Purse {
  subscriptionId: string;
  planName: string;
  /** The smallest rest over its windows; never below zero. */
  leftNano: Nano;
  /** When the window with the smallest rest is full again; null when the subscription ends before. */
  resetsAtMs: number | null;
  windows: PurseWindow[];
}

/**
 * The running subscriptions of each user in paying order, locked until the transaction ends. Users without one are
 * left out. Call it once for all users of a batch, before anything is written: holds and entries that are written
 * later are counted by `moveHeld`.
 */
export async function lockPurses(
  tx: Db,
  userIds: readonly string[],
  nowMs: number,
): Promise<ReadonlyMap<string, Purse[]>> {
  const running = await lockRunning(tx, userIds, nowMs);
  const spans = running.map((subscription) => presentWindows(subscription, nowMs));
  const uses = await openWindows(tx, spans.flat(), nowMs);
  let next = 0;
  const purses = running.map((subscription, i) => {
    const windows = (spans[i] ?? []).map(({ per, startsAtMs, endsAtMs, limitNano }) => {
      const { usedNano, heldNano } = uses[next++] ?? noUse();
      return { per, startsAtMs, endsAtMs, limitNano, usedNano, heldNano };
    });
    return { subscription, purse: purseOf(subscription, windows) };
  });
  const byUser = Map.groupBy(purses, ({ subscription }) => subscription.userId);
  return new Map([...byUser].map(([userId, list]) => [userId, inTurn(list, nowMs)]));
}

/** Adds, or takes away where negative. `atMs` is the time of the hold, and must be the time of its entry too. */
export async function moveHeld(tx: Db, changes: readonly WindowChange[]): Promise<void> {
  await lockSubscriptions(tx, [...new Set(changes.map(({ subscriptionId }) => subscriptionId))].sort());
  await addToWindows(tx, changes);
}

export function restOf({ limitNano, usedNano, heldNano }: PurseWindow): Nano {
  const rest = limitNano - usedNano - heldNano;
  return rest > 0n ? rest : 0n;
}

function purseOf({ id, plan, endsAtMs, renews }: GrantedPlan, windows: PurseWindow[]): Purse {
  const leftNano = windows.map(restOf).reduce((least, rest) => (rest < least ? rest : least));
  // Where several are equally empty, the last to be full again decides.
  const resetsAtMs = Math.max(
    ...windows.filter((window) => restOf(window) === leftNano).map((window) => window.endsAtMs),
  );
  const endsBefore = renews === "none" && endsAtMs !== null && endsAtMs <= resetsAtMs;
  return {
    subscriptionId: id,
    planName: plan.name,
    leftNano,
    resetsAtMs: endsBefore ? null : resetsAtMs,
    windows,
  };
}

function inTurn(list: readonly { subscription: GrantedPlan; purse: Purse }[], nowMs: number): Purse[] {
  // Most users have one, and the end of a term that renews is the dearest thing here.
  if (list.length === 1) return list.map(({ purse }) => purse);
  return list
    .map(({ subscription, purse }) => {
      const endsAtMs = presentEnd(subscription, subscription.plan.timeZone, nowMs);
      return { purse, turn: { ...subscription, endsAtMs } };
    })
    .sort((a, b) => byTurn(a.turn, b.turn))
    .map(({ purse }) => purse);
}

function noUse(): never {
  throw new Error("A window has no use, not even none.");
}
