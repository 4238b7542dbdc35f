/**
 * Redeem codes: created in batches, shown once and redeemed once. A code worth money becomes an entry from the
 * account book `promo`; a code worth a plan becomes a subscription.
 */

import { DAY_MS } from "../../base/time.ts";
import { type Nano, usdText } from "../../money/nano.ts";
import type { SubscriptionRecord } from "../../records/plan.ts";
import type { RandomBytes } from "../../secrets/keyring.ts";
import { mintRedeemCode, readRedeemCode, redeemCodeSecret } from "../../secrets/redeem-code.ts";
import { type Db, transaction } from "../../store/engine/db.ts";
import { bumpKeyRevision } from "../../store/engine/revisions.ts";
import { isUser } from "../../store/identity/users.ts";
import { postTransfer, type Transfer, userBook } from "../../store/money/ledger.ts";
import { listPlans } from "../../store/money/plans.ts";
import {
  type CodeValue,
  findRedeemBatch,
  insertRedeemBatch,
  readUnusableReason,
  takeRedeemCode,
  type UnusableCodeReason,
  voidRedeemBatch,
  voidRedeemCode,
} from "../../store/money/redeem-codes.ts";
import { listGranted, putSubscription } from "../../store/money/subscriptions.ts";
import { readWallet, type Wallet } from "../../store/money/wallets.ts";
import { AMOUNT_NANO_MAX, type MoneyContext } from "./operations.ts";
import { MoneyOperationRejected, type MoneyRejection } from "./rejection.ts";

export interface CodeContext extends MoneyContext {
  digest(secret: string): string;
  randomBytes: RandomBytes;
}

export const CODES_PER_BATCH_MAX = 10_000;
export const CODE_DAYS_MAX = 3_660;

export interface BatchOrder {
  name: string;
  count: number;
  /** An amount, or a plan by name for a number of days. */
  value: { kind: "money"; amountNano: Nano } | { kind: "plan"; plan: string; days: number };
  expiresAtMs: number | null;
  actor: string;
}

/** Returns the codes in plain text. They are not stored, so the caller must save them. */
export async function createCodes(context: CodeContext, order: BatchOrder): Promise<string[]> {
  const { name, count, expiresAtMs, actor } = order;
  const nowMs = context.clock.nowMs();
  if (!Number.isInteger(count) || count < 1 || count > CODES_PER_BATCH_MAX)
    throw new MoneyOperationRejected("bad_batch", `A batch has 1 to ${CODES_PER_BATCH_MAX} codes.`);
  if (expiresAtMs !== null && expiresAtMs <= nowMs)
    throw new MoneyOperationRejected(
      "bad_batch",
      "The expiry of the codes is in the past. Choose a later expiry.",
    );
  const minted = Array.from({ length: count }, () => mintRedeemCode(context.randomBytes));
  await transaction(context.db, async (tx) => {
    const value = await resolveValue(tx, order.value);
    if ((await findRedeemBatch(tx, name)) !== null)
      throw new MoneyOperationRejected(
        "batch_exists",
        `A batch "${name}" already exists. Choose another name.`,
      );
    await insertRedeemBatch(
      tx,
      { name, value, createdAtMs: nowMs, createdBy: actor, expiresAtMs },
      minted.map(({ code, hint }) => ({ digest: context.digest(redeemCodeSecret(code)), hint })),
    );
  });
  return minted.map(({ code }) => code);
}

async function resolveValue(tx: Db, value: BatchOrder["value"]): Promise<CodeValue> {
  if (value.kind === "money") {
    const { amountNano } = value;
    if (amountNano > 0n && amountNano <= AMOUNT_NANO_MAX) return value;
    throw new MoneyOperationRejected(
      "bad_amount",
      `The value of a code must be more than $0 and at most $${usdText(AMOUNT_NANO_MAX)}.`,
    );
  }
  const { plan, days } = value;
  if (!Number.isInteger(days) || days < 1 || days > CODE_DAYS_MAX)
    throw new MoneyOperationRejected("bad_batch", `A code can grant a plan for 1 to ${CODE_DAYS_MAX} days.`);
  // Takes the lock, so that the plan cannot be deleted between this check and the commit.
  await bumpKeyRevision(tx);
  const planId = (await listPlans(tx)).find((one) => one.name === plan)?.id;
  if (planId === undefined)
    throw new MoneyOperationRejected("bad_batch", `The plan "${plan}" does not exist.`);
  return { kind: "plan", planId, days };
}

const REJECTIONS: Record<UnusableCodeReason, [MoneyRejection, string]> = {
  unknown: ["code_unknown", "This code does not exist."],
  redeemed: ["code_used", "This code was already redeemed."],
  voided: ["code_voided", "This code was voided."],
  expired: ["code_expired", "This code has expired."],
};

/** The value of a code, and the user's wallet afterwards. */
export type RedemptionResult = { wallet: Wallet } & (
  | { kind: "money"; entry: Transfer }
  | { kind: "plan"; plan: string; subscription: SubscriptionRecord }
);

export async function redeem(
  context: Omit<CodeContext, "randomBytes">,
  { userId, code: input, actor }: { userId: string; code: string; actor: string },
): Promise<RedemptionResult> {
  const code = readRedeemCode(input);
  // The check character detects mistakes without a database query. The error does not repeat the input, because it
  // may be worth money.
  if (code === null)
    throw new MoneyOperationRejected(
      "code_mistyped",
      "This code is not valid. Check it for a mistyped character.",
    );
  const digest = context.digest(redeemCodeSecret(code));
  const atMs = context.clock.nowMs();
  return transaction(context.db, async (tx) => {
    // If a plan may be granted, this lock comes first, as everywhere.
    await bumpKeyRevision(tx);
    if (!(await isUser(tx, userId)))
      throw new MoneyOperationRejected("unknown_user", `The user "${userId}" does not exist.`);
    const redeemed = await takeRedeemCode(tx, digest, userId, atMs);
    if (redeemed === null)
      throw new MoneyOperationRejected(...REJECTIONS[await readUnusableReason(tx, digest)]);
    const { value, name } = redeemed;
    const granted =
      value.kind === "plan"
        ? await grantDays(tx, context, userId, value, atMs)
        : await creditMoney(tx, { digest, batch: name, userId, actor, atMs, amountNano: value.amountNano });
    return { ...granted, wallet: await readWallet(tx, userId) };
  });
}

interface CodeCredit {
  digest: string;
  batch: string;
  userId: string;
  actor: string;
  atMs: number;
  amountNano: Nano;
}

async function creditMoney(tx: Db, { digest, batch, userId, actor, atMs, amountNano }: CodeCredit) {
  const entry: Transfer = {
    id: `redeem:${digest}`,
    atMs,
    kind: "redeem",
    debit: "promo",
    credit: userBook(userId),
    amountNano,
    userId,
    subscriptionId: null,
    requestId: null,
    actor,
    reason: `code of batch ${batch}`,
  };
  await postTransfer(tx, entry);
  return { kind: "money", entry } as const;
}

/** Starts now, or at the end of the user's current subscription to the plan if that has an end. */
async function grantDays(
  tx: Db,
  { newId }: Pick<MoneyContext, "newId">,
  userId: string,
  { planId, days }: Extract<CodeValue, { kind: "plan" }>,
  nowMs: number,
) {
  const plan = (await listPlans(tx)).find(({ id }) => id === planId);
  if (plan === undefined) throw new Error("The plan of a redeem code was deleted.");
  const ends = (await listGranted(tx, userId))
    .filter((one) => one.planId === planId && one.status === "active" && one.renews === "none")
    .map(({ endsAtMs }) => endsAtMs ?? 0);
  const startsAtMs = Math.max(nowMs, ...ends);
  const subscription: SubscriptionRecord = {
    id: newId("sub"),
    userId,
    planId,
    startsAtMs,
    endsAtMs: startsAtMs + days * DAY_MS,
    renews: "none",
    priority: 1,
    status: "active",
    createdAtMs: nowMs,
  };
  await putSubscription(tx, subscription);
  return { kind: "plan", plan: plan.name, subscription } as const;
}

/** Returns the number of voided codes. Redeemed codes stay redeemed. */
export async function voidBatch(context: Pick<CodeContext, "db" | "clock">, name: string): Promise<number> {
  return transaction(context.db, async (tx) => {
    if ((await findRedeemBatch(tx, name)) === null) throw unknownBatch(name);
    return voidRedeemBatch(tx, name, context.clock.nowMs());
  });
}

/** False if the code was already redeemed or voided. */
export async function voidCode(
  context: Pick<CodeContext, "db" | "clock">,
  batch: string,
  digest: string,
): Promise<boolean> {
  return transaction(context.db, async (tx) => {
    if ((await findRedeemBatch(tx, batch)) === null) throw unknownBatch(batch);
    return voidRedeemCode(tx, batch, digest, context.clock.nowMs());
  });
}

function unknownBatch(name: string): MoneyOperationRejected {
  return new MoneyOperationRejected("batch_unknown", `The batch "${name}" does not exist.`);
}
