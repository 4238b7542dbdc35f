/** Decides the holds of a batch, and moves held money: in wallets, and in the windows of subscriptions. */

import type { Nano } from "../../money/nano.ts";
import type { EndedHold, Hold } from "../../store/money/holds.ts";
import type { WindowChange } from "../../store/money/subscription-windows.ts";
import type { LockedWallet } from "../../store/money/wallets.ts";
import type { BatchState, BookOptions, HoldDecision, HoldOrder } from "./batch-state.ts";
import { type HoldRequest, type HoldResult, pickFacts } from "./billing-types.ts";
import { applyCharge, EMPTY_WALLET, holdFromWallet, isBlocked } from "./debt.ts";
import {
  addToBalance,
  computeAvailable,
  computeRemainingWithoutHolds,
  type SubscriptionBalance,
} from "./subscription-balances.ts";

/** The database contradicts itself, for example a hold without a wallet. */
export class BookingFault extends Error {
  override readonly name = "BookingFault";
}

/** Ends the hold: a second settlement of the same request in this batch finds none. */
export function endHold(state: BatchState, hold: EndedHold, chargedNano: Nano): void {
  state.endedHolds.delete(hold.requestId);
  if (hold.subscriptionId !== null) {
    const { userId, subscriptionId, atMs } = hold;
    addToWindows(state, userId, {
      subscriptionId,
      atMs,
      heldNano: -hold.amountNano,
      usedNano: chargedNano,
    });
    return;
  }
  if (hold.amountNano === 0n && chargedNano === 0n) return;
  state.wallets.set(hold.userId, applyCharge(findWallet(state, hold), hold.amountNano, chargedNano));
  state.changedWallets.add(hold.userId);
}

/** Decides a hold, and takes its money if it is made. */
export function decideHold(
  state: BatchState,
  { kind, request }: HoldOrder,
  options: BookOptions,
): HoldDecision {
  const storedHold = state.storedHolds.get(request.requestId);
  if (storedHold !== undefined) {
    return { kind: "held", amountNano: storedHold.amountNano, subscriptionId: storedHold.subscriptionId };
  }
  const earlierResult = state.holdResults.get(request.requestId);
  if (earlierResult !== undefined) return earlierResult;
  const result =
    kind === "new"
      ? decideOn(state, request, { replaced: null, options })
      : replaceHold(state, request, options);
  state.holdResults.set(request.requestId, result);
  return result;
}

/**
 * A repeated batch may find the hold that an earlier try of it has made, and replaces that one: the result is the same
 * as if the earlier try had not been committed.
 */
function replaceHold(state: BatchState, request: HoldRequest, options: BookOptions): HoldDecision {
  const replaced = state.replaceableHolds.get(request.requestId);
  if (replaced?.processId !== options.processId) return { kind: "lost" };
  return decideOn(state, request, { replaced, options });
}

/** The money of `replaced` counts as available. That hold ends if the new one is made, and only then. */
function decideOn(
  state: BatchState,
  request: HoldRequest,
  { replaced, options: { processId, nowMs } }: { replaced: EndedHold | null; options: BookOptions },
): HoldResult {
  const { requestId, userId } = request;
  const result =
    request.charge === "balance"
      ? holdFromWallet(readWalletWithout(state, userId, replaced), request)
      : chooseSubscription(listBalancesWithout(state, userId, replaced), request);
  if (result.kind !== "held") return result;
  if (replaced !== null) {
    endHold(state, replaced, 0n);
    state.replacedHoldIds.push(requestId);
  }
  const { amountNano, subscriptionId } = result;
  const payer = state.subscriptionBalances
    .get(userId)
    ?.find((balance) => balance.subscriptionId === subscriptionId);
  const atMs = payer?.atMs ?? nowMs;
  if (subscriptionId !== null)
    addToWindows(state, userId, { subscriptionId, atMs, heldNano: amountNano, usedNano: 0n });
  else holdInWallet(state, userId, amountNano);
  state.holds.set(requestId, buildHold(request, result, processId, atMs));
  return result;
}

function holdInWallet(state: BatchState, userId: string, amountNano: Nano): void {
  const wallet = state.wallets.get(userId);
  if (wallet === undefined || amountNano === 0n) return;
  state.wallets.set(userId, { ...wallet, heldNano: wallet.heldNano + amountNano });
  state.changedWallets.add(userId);
}

/** Later holds of this batch see the change in the windows that it was locked with. */
function addToWindows(state: BatchState, userId: string, change: WindowChange): void {
  state.windowChanges.push(change);
  const balances = state.subscriptionBalances.get(userId) ?? [];
  for (const balance of balances)
    if (balance.subscriptionId === change.subscriptionId) addToBalance(balance, change);
}

function findWallet({ wallets }: BatchState, { userId }: Pick<EndedHold, "userId">): LockedWallet {
  const wallet = wallets.get(userId);
  if (wallet === undefined) throw new BookingFault(`User ${userId} has a hold but no wallet.`);
  return wallet;
}

function readWalletWithout(state: BatchState, userId: string, replaced: EndedHold | null): LockedWallet {
  if (replaced === null || replaced.subscriptionId !== null || replaced.amountNano === 0n)
    return state.wallets.get(userId) ?? EMPTY_WALLET;
  return applyCharge(findWallet(state, replaced), replaced.amountNano, 0n);
}

function listBalancesWithout(
  { subscriptionBalances }: BatchState,
  userId: string,
  replaced: EndedHold | null,
): SubscriptionBalance[] {
  const balances = subscriptionBalances.get(userId) ?? [];
  if (replaced === null || replaced.subscriptionId === null) return balances;
  const { subscriptionId, atMs, amountNano } = replaced;
  return balances.map((balance) => {
    if (balance.subscriptionId !== subscriptionId) return balance;
    const copy = { ...balance, windows: balance.windows.map((window) => ({ ...window })) };
    addToBalance(copy, { atMs, heldNano: -amountNano, usedNano: 0n });
    return copy;
  });
}

/**
 * Chooses the first subscription, in paying order, that covers the whole amount, else the upper estimate of
 * uncountable inputs. `blocked` if only holds prevent that. Otherwise the first that covers the minimum pays.
 */
function chooseSubscription(allBalances: readonly SubscriptionBalance[], request: HoldRequest): HoldResult {
  const { plans, wantedNano, leastNano, firmNano = leastNano } = request;
  const balances = allBalances
    .filter(({ planName }) => plans === null || plans.includes(planName))
    .map((balance) => ({ balance, availableNano: computeAvailable(balance) }));
  const covering =
    balances.find(({ availableNano }) => availableNano >= wantedNano) ??
    balances.find(({ availableNano }) => availableNano >= firmNano);
  const blocked =
    covering === undefined
      ? balances.find(({ balance, availableNano }) =>
          isBlocked(request, availableNano, computeRemainingWithoutHolds(balance)),
        )
      : undefined;
  if (blocked !== undefined)
    return { kind: "blocked", availableNano: blocked.availableNano, neededNano: firmNano };
  const payer = covering ?? balances.find(({ availableNano }) => availableNano >= leastNano);
  if (payer !== undefined) {
    const { balance, availableNano } = payer;
    const amountNano = wantedNano < availableNano ? wantedNano : availableNano;
    return { kind: "held", amountNano, subscriptionId: balance.subscriptionId };
  }
  let bestNano = 0n;
  let resetsAtMs: number | null = null;
  for (const { balance, availableNano } of balances) {
    if (availableNano > bestNano) bestNano = availableNano;
    if (balance.resetsAtMs !== null && (resetsAtMs === null || balance.resetsAtMs < resetsAtMs)) {
      resetsAtMs = balance.resetsAtMs;
    }
  }
  return { kind: "short", availableNano: bestNano, resetsAtMs };
}

export function buildHold(
  request: HoldRequest,
  { amountNano, subscriptionId }: { amountNano: Nano; subscriptionId: string | null },
  processId: string,
  atMs: number,
): Hold {
  return {
    ...pickFacts(request),
    processId,
    state: "admitted",
    atMs,
    userId: request.userId,
    subscriptionId,
    amountNano,
    tariffId: request.tariff.id,
    accountId: null,
    upstreamModel: null,
    inputTokens: clampInputTokens(request),
    outputTokens: 0,
  };
}

/** An estimate may be fractional or negative. The database stores whole numbers. */
export function clampInputTokens({ inputTokens }: HoldRequest): number {
  return Math.max(0, Math.round(inputTokens));
}
