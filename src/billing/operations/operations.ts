/**
 * Money that people move: each call is one entry of the ledger, with who and why, in one transaction with the
 * wallet. The same idempotency key again books nothing and gives the first result.
 */

import { type Nano, usdText } from "../../money/nano.ts";
import type { Clock, NewId } from "../../net/wire/clock.ts";
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
import { MoneyRefusedError } from "./refusal.ts";

/** What every call needs beside the store: time and chance are passed in. */
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
  /** The user's wallet afterwards. */
  wallet: Wallet;
  /** The idempotency key was used before for the same: nothing was booked now. */
  repeated: boolean;
}

/** How it was paid: a word for the ledger. */
export const PROVIDER = /^[a-z0-9_-]{1,40}$/;
export const PROVIDER_RULE = "must be a word like invoice or stripe";

/** In one call. Far from what 64 bits of nano-dollars hold, so that no sum of calls gets there. */
export const AMOUNT_NANO_MAX: Nano = 1_000_000n * 1_000_000_000n;

export async function topUp(
  desk: MoneyContext,
  {
    userId,
    amountNano,
    provider,
    ...order
  }: MoneyOrder & { userId: string; amountNano: Nano; provider: string },
): Promise<MoneyResult> {
  refuseAmount(amountNano);
  return book(desk, order, {
    ...terms(desk, "topup", order),
    debit: `topup:${provider}`,
    credit: userBook(userId),
    amountNano,
    userId,
  });
}

/** Negative takes money away, never more than is available. */
export async function adjust(
  desk: MoneyContext,
  { userId, amountNano, ...order }: MoneyOrder & { userId: string; amountNano: Nano },
): Promise<MoneyResult> {
  const given = amountNano > 0n;
  const size = given ? amountNano : -amountNano;
  refuseAmount(size);
  return book(desk, order, {
    ...terms(desk, "adjust", order),
    debit: given ? "adjust" : userBook(userId),
    credit: given ? userBook(userId) : "adjust",
    amountNano: size,
    userId,
  });
}

/** Back to the book that paid, and never more than was charged less what went back before. */
export async function refund(
  desk: MoneyContext,
  { requestId, amountNano, ...order }: MoneyOrder & { requestId: string; amountNano: Nano | "all" },
): Promise<MoneyResult> {
  if (amountNano !== "all") refuseAmount(amountNano);
  const wanted = terms(desk, "refund", order);
  return refusing(desk, order, async (tx) => {
    // Two refunds of one request take turns here.
    const charge = await lockCharge(tx, requestId);
    const leftNano = charge === null ? 0n : charge.amountNano - (await refundedNano(tx, requestId));
    const before = await findEntry(tx, wanted.id);
    if (before !== null) {
      // A refund of the whole charge leaves nothing to refund.
      const isSameAmount = amountNano === "all" ? leftNano === 0n : before.amountNano === amountNano;
      if (before.requestId !== requestId || !isSameAmount || before.userId === null)
        throw keyUsedForOtherOrder();
      return { entry: before, wallet: await readWallet(tx, before.userId), repeated: true };
    }
    if (charge === null || charge.userId === null) throw await notCharged(tx, requestId);
    const { userId, subscriptionId } = charge;
    if (leftNano === 0n) {
      throw new MoneyRefusedError(
        "refunded_before",
        `All of the $${usdText(charge.amountNano)} charged for it was refunded before.`,
      );
    }
    const backNano = amountNano === "all" ? leftNano : amountNano;
    if (backNano > leftNano) {
      throw new MoneyRefusedError(
        "refunded_before",
        `$${usdText(charge.amountNano)} was charged for it, of which $${usdText(leftNano)} can still be refunded.`,
      );
    }
    const entry: Transfer = {
      ...wanted,
      // Never before its charge, whatever became of the clock: windows look for refunds from their start on.
      atMs: Math.max(wanted.atMs, charge.atMs),
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
        nowMs: wanted.atMs,
        amountNano: backNano,
      });
    }
    await postTransfer(tx, entry);
    return { entry, wallet: await readWallet(tx, userId), repeated: false };
  });
}

async function notCharged(tx: Db, requestId: string): Promise<MoneyRefusedError> {
  const isKnown = (await readUsageRowsRemovedBefore(tx)) === 0;
  return new MoneyRefusedError(
    "not_charged",
    isKnown
      ? `Nothing was charged for a request "${requestId}".`
      : `Nothing was charged for a request "${requestId}", or it shared a charge and its row is no longer kept. Adjust the balance instead.`,
  );
}

function terms(desk: MoneyContext, kind: "topup" | "adjust" | "refund", order: MoneyOrder) {
  const { actor, reason, idempotencyKey } = order;
  if (idempotencyKey !== undefined) checkOrderKey(idempotencyKey);
  const id = idempotencyKey === undefined ? `${kind}:${desk.newId("entry")}` : entryIdForKey(idempotencyKey);
  const atMs = desk.clock.nowMs();
  return { id, atMs, kind, actor, reason, subscriptionId: null, requestId: null };
}

function book(
  desk: MoneyContext,
  order: MoneyOrder,
  transfer: Transfer & { userId: string },
): Promise<MoneyResult> {
  const { userId } = transfer;
  return refusing(desk, order, async (tx) => {
    if (!(await isUser(tx, userId)))
      throw new MoneyRefusedError("unknown_user", `There is no user "${userId}".`);
    const repeated = (await postTransfer(tx, transfer)) === "known";
    const entry = repeated ? ((await findEntry(tx, transfer.id)) ?? transfer) : transfer;
    return { entry, wallet: await readWallet(tx, userId), repeated };
  });
}

/** Runs it in one transaction, and turns the ledger's errors into refusals for whoever asked. */
async function refusing(
  { db, clock }: MoneyContext,
  { idempotencyKey }: MoneyOrder,
  work: (tx: Db) => Promise<MoneyResult>,
): Promise<MoneyResult> {
  try {
    return await transaction(db, async (tx) => {
      if (idempotencyKey !== undefined) {
        await claimOrderKey(tx, idempotencyKey, { kind: "entry", nowMs: clock.nowMs() });
        // Plans from before there were claims.
        if ((await findSubscription(tx, subscriptionIdForKey(idempotencyKey))) !== null)
          throw keyUsedForOtherOrder();
      }
      return work(tx);
    });
  } catch (error) {
    throw refusalOf(error);
  }
}

function refusalOf(error: unknown): unknown {
  if (error instanceof TransferConflict) return keyUsedForOtherOrder();
  if (error instanceof InsufficientFunds) {
    return new MoneyRefusedError(
      "insufficient_funds",
      `Only $${usdText(error.availableNano)} is available: the rest is spent, or held for requests under way.`,
    );
  }
  return error;
}

function refuseAmount(amountNano: Nano): void {
  if (amountNano > 0n && amountNano <= AMOUNT_NANO_MAX) return;
  throw new MoneyRefusedError(
    "bad_amount",
    `An amount is more than $0 and at most $${usdText(AMOUNT_NANO_MAX)}.`,
  );
}
