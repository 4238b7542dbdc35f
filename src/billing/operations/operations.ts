/**
 * Money operations of people: top-up, adjustment and refund. Each call is one ledger entry with actor and reason, in
 * one transaction with the wallet. A repeated idempotency key books nothing and returns the first result.
 */

import type { Clock, NewId } from "../../base/clock.ts";
import { type Nano, usdText } from "../../money/nano.ts";
import { type Db, transaction } from "../../store/engine/db.ts";
import { isUser } from "../../store/identity/users.ts";
import { lockCharge, refundedNano } from "../../store/money/entries.ts";
import {
  findEntry,
  InsufficientFunds,
  postTransfer,
  subscriptionBook,
  type Transfer,
  TransferConflict,
  userBook,
} from "../../store/money/ledger.ts";
import { findSubscription } from "../../store/money/subscriptions.ts";
import { readWallet, type Wallet } from "../../store/money/wallets.ts";
import { readUsageRowsRemovedBefore } from "../../store/usage/usage-removal.ts";
import {
  checkOrderKey,
  claimOrderKey,
  entryIdForKey,
  keyUsedForOtherOrder,
  subscriptionIdForKey,
} from "./order-key.ts";
import { refundSubscription } from "./refund-subscription.ts";
import { MoneyOperationRejected } from "./rejection.ts";

/** What every call needs. Clock and ids are passed in, so that tests can control them. */
export interface MoneyContext {
  db: Db;
  clock: Pick<Clock, "nowMs">;
  newId: NewId;
}

export interface MoneyOrder {
  /** `cli:ada`, `admin:<user id>` */
  actor: string;
  reason: string | null;
  idempotencyKey?: string;
}

export interface MoneyResult {
  entry: Transfer;
  /** The user's wallet after the booking. */
  wallet: Wallet;
  /** The idempotency key was used before for the same order: nothing was booked now. */
  repeated: boolean;
}

/** The payment provider, as a word for the ledger. */
export const PROVIDER = /^[a-z0-9_-]{1,40}$/;
export const PROVIDER_RULE = "must be a word like invoice or stripe";

/** Maximum per call. Far below what 64 bits of nano-USD hold, so that no sum of calls overflows. */
export const AMOUNT_NANO_MAX: Nano = 1_000_000n * 1_000_000_000n;

export async function topUp(
  context: MoneyContext,
  {
    userId,
    amountNano,
    provider,
    ...order
  }: MoneyOrder & { userId: string; amountNano: Nano; provider: string },
): Promise<MoneyResult> {
  checkAmount(amountNano);
  return book(context, order, {
    ...buildTerms(context, "topup", order),
    debit: `topup:${provider}`,
    credit: userBook(userId),
    amountNano,
    userId,
  });
}

/** A negative amount removes money, never more than is available. */
export async function adjust(
  context: MoneyContext,
  { userId, amountNano, ...order }: MoneyOrder & { userId: string; amountNano: Nano },
): Promise<MoneyResult> {
  const isCredit = amountNano > 0n;
  const absoluteNano = isCredit ? amountNano : -amountNano;
  checkAmount(absoluteNano);
  return book(context, order, {
    ...buildTerms(context, "adjust", order),
    debit: isCredit ? "adjust" : userBook(userId),
    credit: isCredit ? userBook(userId) : "adjust",
    amountNano: absoluteNano,
    userId,
  });
}

/** Refunds to the account book that paid. The refund never exceeds the charge minus earlier refunds. */
export async function refund(
  context: MoneyContext,
  { requestId, amountNano, ...order }: MoneyOrder & { requestId: string; amountNano: Nano | "all" },
): Promise<MoneyResult> {
  if (amountNano !== "all") checkAmount(amountNano);
  const refundTerms = buildTerms(context, "refund", order);
  return runOrder(context, order, async (tx) => {
    // Takes the lock, so that two refunds of one request run one after the other.
    const charge = await lockCharge(tx, requestId);
    const leftNano = charge === null ? 0n : charge.amountNano - (await refundedNano(tx, requestId));
    const before = await findEntry(tx, refundTerms.id);
    if (before !== null) {
      // After a refund of the whole charge nothing is left to refund.
      const isSameAmount = amountNano === "all" ? leftNano === 0n : before.amountNano === amountNano;
      if (before.requestId !== requestId || !isSameAmount || before.userId === null)
        throw keyUsedForOtherOrder();
      return { entry: before, wallet: await readWallet(tx, before.userId), repeated: true };
    }
    if (charge === null || charge.userId === null) throw await explainNotCharged(tx, requestId);
    const { userId, subscriptionId } = charge;
    if (leftNano === 0n) {
      throw new MoneyOperationRejected(
        "refunded_before",
        `The charge of $${usdText(charge.amountNano)} was already fully refunded.`,
      );
    }
    const backNano = amountNano === "all" ? leftNano : amountNano;
    if (backNano > leftNano) {
      throw new MoneyOperationRejected(
        "refunded_before",
        `Of the charge of $${usdText(charge.amountNano)}, only $${usdText(leftNano)} can still be refunded.`,
      );
    }
    const entry: Transfer = {
      ...refundTerms,
      // Never before its charge, even if the clock was set back: windows look for refunds from their start on.
      atMs: Math.max(refundTerms.atMs, charge.atMs),
      debit: "refund",
      credit: subscriptionId === null ? userBook(userId) : subscriptionBook(subscriptionId),
      amountNano: backNano,
      userId,
      subscriptionId,
      requestId,
    };
    if (subscriptionId !== null) {
      await refundSubscription(tx, {
        subscriptionId,
        chargedAtMs: charge.atMs,
        nowMs: refundTerms.atMs,
        amountNano: backNano,
      });
    }
    await postTransfer(tx, entry);
    return { entry, wallet: await readWallet(tx, userId), repeated: false };
  });
}

async function explainNotCharged(tx: Db, requestId: string): Promise<MoneyOperationRejected> {
  const isKnown = (await readUsageRowsRemovedBefore(tx)) === 0;
  return new MoneyOperationRejected(
    "not_charged",
    isKnown
      ? `The request "${requestId}" was not charged.`
      : `The request "${requestId}" was not charged, or its row was deleted after the retention period. Adjust the balance instead.`,
  );
}

function buildTerms(context: MoneyContext, kind: "topup" | "adjust" | "refund", order: MoneyOrder) {
  const { actor, reason, idempotencyKey } = order;
  if (idempotencyKey !== undefined) checkOrderKey(idempotencyKey);
  const id =
    idempotencyKey === undefined ? `${kind}:${context.newId("entry")}` : entryIdForKey(idempotencyKey);
  const atMs = context.clock.nowMs();
  return { id, atMs, kind, actor, reason, subscriptionId: null, requestId: null };
}

function book(
  context: MoneyContext,
  order: MoneyOrder,
  transfer: Transfer & { userId: string },
): Promise<MoneyResult> {
  const { userId } = transfer;
  return runOrder(context, order, async (tx) => {
    if (!(await isUser(tx, userId)))
      throw new MoneyOperationRejected("unknown_user", `The user "${userId}" does not exist.`);
    const repeated = (await postTransfer(tx, transfer)) === "known";
    const entry = repeated ? ((await findEntry(tx, transfer.id)) ?? transfer) : transfer;
    return { entry, wallet: await readWallet(tx, userId), repeated };
  });
}

/** Runs `work` in one transaction and turns ledger errors into rejections for the caller. */
async function runOrder(
  { db, clock }: MoneyContext,
  { idempotencyKey }: MoneyOrder,
  work: (tx: Db) => Promise<MoneyResult>,
): Promise<MoneyResult> {
  try {
    return await transaction(db, async (tx) => {
      if (idempotencyKey !== undefined) {
        await claimOrderKey(tx, idempotencyKey, { kind: "entry", nowMs: clock.nowMs() });
        // Finds subscriptions from versions without claims.
        if ((await findSubscription(tx, subscriptionIdForKey(idempotencyKey))) !== null)
          throw keyUsedForOtherOrder();
      }
      return work(tx);
    });
  } catch (error) {
    throw toRejection(error);
  }
}

function toRejection(error: unknown): unknown {
  if (error instanceof TransferConflict) return keyUsedForOtherOrder();
  if (error instanceof InsufficientFunds) {
    return new MoneyOperationRejected(
      "insufficient_funds",
      `Only $${usdText(error.availableNano)} is available. The rest is spent, or held for requests in flight.`,
    );
  }
  return error;
}

function checkAmount(amountNano: Nano): void {
  if (amountNano > 0n && amountNano <= AMOUNT_NANO_MAX) return;
  throw new MoneyOperationRejected(
    "bad_amount",
    `The amount must be more than $0 and at most $${usdText(AMOUNT_NANO_MAX)}.`,
  );
}
