/**
 * Redeem codes: made in batches and shown once, redeemed once. One that is worth money is an entry from the book
 * `promo`; one that is worth a plan is a subscription.
 */

import { type Nano, usdText } from "../../money/nano.ts";
import type { SubscriptionRecord } from "../../records.ts";
import type { RandomBytes } from "../../secrets/keyring.ts";
import { mintRedeemCode, readRedeemCode, redeemCodeSecret } from "../../secrets/redeem-code.ts";
import { type Db, transaction } from "../../store/engine/db.ts";
import { bumpKeyRevision } from "../../store/engine/revisions.ts";
import { isUser } from "../../store/identity/users.ts";
import { postTransfer, type Transfer, userBook } from "../../store/money/ledger.ts";
import { listPlans } from "../../store/money/plans.ts";
import {
  type CodeStanding,
  type CodeWorth,
  findRedeemBatch,
  insertRedeemBatch,
  redeemCodeStanding,
  takeRedeemCode,
  voidRedeemBatch,
  voidRedeemCode,
} from "../../store/money/redeem-codes.ts";
import { listGranted, putSubscription } from "../../store/money/subscriptions.ts";
import { readWallet, type Wallet } from "../../store/money/wallets.ts";
import { AMOUNT_NANO_MAX, type MoneyContext } from "./operations.ts";
import { type MoneyRefusal, MoneyRefusedError } from "./refusal.ts";

export interface CodeContext extends MoneyContext {
  digest(secret: string): string;
  randomBytes: RandomBytes;
}

export const CODES_PER_BATCH_MAX = 10_000;
export const CODE_DAYS_MAX = 3_660;
const DAY_MS = 86_400_000;

export interface BatchOrder {
  name: string;
  count: number;
  /** An amount, or a plan by its name for so many days. */
  worth: { kind: "money"; amountNano: Nano } | { kind: "plan"; plan: string; days: number };
  expiresAtMs: number | null;
  actor: string;
}

/** The codes exist nowhere else: whoever asked for them keeps them. */
export async function createCodes(desk: CodeContext, order: BatchOrder): Promise<string[]> {
  const { name, count, expiresAtMs, actor } = order;
  const nowMs = desk.clock.nowMs();
  if (!Number.isInteger(count) || count < 1 || count > CODES_PER_BATCH_MAX)
    throw new MoneyRefusedError("bad_batch", `A batch has 1 to ${CODES_PER_BATCH_MAX} codes.`);
  if (expiresAtMs !== null && expiresAtMs <= nowMs)
    throw new MoneyRefusedError("bad_batch", "The codes would have expired already.");
  const minted = Array.from({ length: count }, () => mintRedeemCode(desk.randomBytes));
  await transaction(desk.db, async (tx) => {
    const worth = await worthOf(tx, order.worth);
    if ((await findRedeemBatch(tx, name)) !== null)
      throw new MoneyRefusedError("batch_exists", `There is a batch "${name}" already.`);
    await insertRedeemBatch(
      tx,
      { name, worth, createdAtMs: nowMs, createdBy: actor, expiresAtMs },
      minted.map(({ code, hint }) => ({ digest: desk.digest(redeemCodeSecret(code)), hint })),
    );
  });
  return minted.map(({ code }) => code);
}

async function worthOf(tx: Db, worth: BatchOrder["worth"]): Promise<CodeWorth> {
  if (worth.kind === "money") {
    const { amountNano } = worth;
    if (amountNano > 0n && amountNano <= AMOUNT_NANO_MAX) return worth;
    throw new MoneyRefusedError(
      "bad_amount",
      `A code is worth more than $0 and at most $${usdText(AMOUNT_NANO_MAX)}.`,
    );
  }
  const { plan, days } = worth;
  if (!Number.isInteger(days) || days < 1 || days > CODE_DAYS_MAX)
    throw new MoneyRefusedError("bad_batch", `A code grants a plan for 1 to ${CODE_DAYS_MAX} days.`);
  // For its lock: the plan cannot go between the check and the end.
  await bumpKeyRevision(tx);
  const planId = (await listPlans(tx)).find((one) => one.name === plan)?.id;
  if (planId === undefined) throw new MoneyRefusedError("bad_batch", `There is no plan "${plan}".`);
  return { kind: "plan", planId, days };
}

const REFUSALS: Record<CodeStanding, [MoneyRefusal, string]> = {
  unknown: ["code_unknown", "There is no such code."],
  redeemed: ["code_used", "This code was redeemed before."],
  voided: ["code_voided", "This code was withdrawn."],
  expired: ["code_expired", "This code has expired."],
};

/** What a code gave, and what its user has now. */
export type RedemptionResult = { wallet: Wallet } & (
  | { kind: "money"; entry: Transfer }
  | { kind: "plan"; plan: string; subscription: SubscriptionRecord }
);

export async function redeem(
  desk: Omit<CodeContext, "randomBytes">,
  { userId, code: typed, actor }: { userId: string; code: string; actor: string },
): Promise<RedemptionResult> {
  const code = readRedeemCode(typed);
  // Its check tells, without asking the store. What was typed is not repeated: it may be worth money.
  if (code === null)
    throw new MoneyRefusedError("code_mistyped", "This is not a code: check it for a mistyped character.");
  const digest = desk.digest(redeemCodeSecret(code));
  const atMs = desk.clock.nowMs();
  return transaction(desk.db, async (tx) => {
    // Where a plan may be granted this lock comes first, as everywhere.
    await bumpKeyRevision(tx);
    if (!(await isUser(tx, userId)))
      throw new MoneyRefusedError("unknown_user", `There is no user "${userId}".`);
    const taken = await takeRedeemCode(tx, digest, userId, atMs);
    if (taken === null) throw new MoneyRefusedError(...REFUSALS[await redeemCodeStanding(tx, digest)]);
    const { worth, name } = taken;
    const given =
      worth.kind === "plan"
        ? await giveDays(tx, desk, userId, worth, atMs)
        : await giveMoney(tx, { digest, batch: name, userId, actor, atMs, amountNano: worth.amountNano });
    return { ...given, wallet: await readWallet(tx, userId) };
  });
}

interface Gift {
  digest: string;
  batch: string;
  userId: string;
  actor: string;
  atMs: number;
  amountNano: Nano;
}

async function giveMoney(tx: Db, { digest, batch, userId, actor, atMs, amountNano }: Gift) {
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

/** From now on; or, where the user has the plan to a certain day, from then on. */
async function giveDays(
  tx: Db,
  { newId }: Pick<MoneyContext, "newId">,
  userId: string,
  { planId, days }: Extract<CodeWorth, { kind: "plan" }>,
  nowMs: number,
) {
  const plan = (await listPlans(tx)).find(({ id }) => id === planId);
  if (plan === undefined) throw new Error("The plan of a code is gone, though codes hold it.");
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

/** Returns how many codes were withdrawn; those redeemed stay so. */
export async function voidBatch(desk: Pick<CodeContext, "db" | "clock">, name: string): Promise<number> {
  return transaction(desk.db, async (tx) => {
    if ((await findRedeemBatch(tx, name)) === null) throw unknownBatch(name);
    return voidRedeemBatch(tx, name, desk.clock.nowMs());
  });
}

/** False if it was redeemed or withdrawn before. */
export async function voidCode(
  desk: Pick<CodeContext, "db" | "clock">,
  batch: string,
  digest: string,
): Promise<boolean> {
  return transaction(desk.db, async (tx) => {
    if ((await findRedeemBatch(tx, batch)) === null) throw unknownBatch(batch);
    return voidRedeemCode(tx, batch, digest, desk.clock.nowMs());
  });
}

function unknownBatch(name: string): MoneyRefusedError {
  return new MoneyRefusedError("batch_unknown", `There is no batch "${name}".`);
}
