/** Redeem codes: made in batches and shown once, redeemed once, each time as an entry from the book `promo`. */

import type { Nano } from "../money/nano.ts";
import { usdText } from "../money/nano.ts";
import type { RandomBytes } from "../secrets/keyring.ts";
import { mintRedeemCode, readRedeemCode, redeemCodeSecret } from "../secrets/redeem-code.ts";
import { transaction } from "../store/db.ts";
import { postTransfer, type Transfer, userBook } from "../store/ledger.ts";
import {
  type CodeStanding,
  insertRedeemCodes,
  isRedeemBatch,
  redeemCodeStanding,
  takeRedeemCode,
  voidRedeemBatch,
} from "../store/redeem-codes.ts";
import { isUser } from "../store/users.ts";
import { readWallet } from "../store/wallets.ts";
import { AMOUNT_NANO_MAX, type Booked, type MoneyDesk } from "./operations.ts";
import { type MoneyRefusal, MoneyRefused } from "./refused.ts";

export interface CodeDesk extends MoneyDesk {
  digest(secret: string): string;
  randomBytes: RandomBytes;
}

export const CODES_PER_BATCH_MAX = 10_000;

export interface BatchOrder {
  name: string;
  count: number;
  amountNano: Nano;
  expiresAtMs: number | null;
  actor: string;
}

/** The codes exist nowhere else: whoever asked for them keeps them. */
export async function createCodes(desk: CodeDesk, order: BatchOrder): Promise<string[]> {
  const { name, count, amountNano, expiresAtMs, actor } = order;
  const nowMs = desk.clock.nowMs();
  if (!Number.isInteger(count) || count < 1 || count > CODES_PER_BATCH_MAX)
    throw new MoneyRefused("bad_batch", `A batch has 1 to ${CODES_PER_BATCH_MAX} codes.`);
  if (amountNano <= 0n || amountNano > AMOUNT_NANO_MAX) {
    throw new MoneyRefused(
      "bad_amount",
      `A code is worth more than $0 and at most $${usdText(AMOUNT_NANO_MAX)}.`,
    );
  }
  if (expiresAtMs !== null && expiresAtMs <= nowMs)
    throw new MoneyRefused("bad_batch", "The codes would have expired already.");
  const minted = Array.from({ length: count }, () => mintRedeemCode(desk.randomBytes));
  await transaction(desk.db, async (tx) => {
    if (await isRedeemBatch(tx, name))
      throw new MoneyRefused("batch_exists", `There is a batch "${name}" already.`);
    await insertRedeemCodes(
      tx,
      minted.map(({ code, hint }) => ({
        digest: desk.digest(redeemCodeSecret(code)),
        batch: name,
        hint,
        amountNano,
        createdAtMs: nowMs,
        createdBy: actor,
        expiresAtMs,
      })),
    );
  });
  return minted.map(({ code }) => code);
}

const REFUSALS: Record<CodeStanding, [MoneyRefusal, string]> = {
  unknown: ["code_unknown", "There is no such code."],
  redeemed: ["code_used", "This code was redeemed before."],
  voided: ["code_voided", "This code was withdrawn."],
  expired: ["code_expired", "This code has expired."],
};

export async function redeem(
  desk: Omit<CodeDesk, "randomBytes" | "newId">,
  { userId, code: typed, actor }: { userId: string; code: string; actor: string },
): Promise<Booked> {
  const code = readRedeemCode(typed);
  // Its check tells, without asking the store. What was typed is not repeated: it may be worth money.
  if (code === null)
    throw new MoneyRefused("code_mistyped", "This is not a code: check it for a mistyped character.");
  const digest = desk.digest(redeemCodeSecret(code));
  const atMs = desk.clock.nowMs();
  return transaction(desk.db, async (tx) => {
    if (!(await isUser(tx, userId))) throw new MoneyRefused("unknown_user", `There is no user "${userId}".`);
    const taken = await takeRedeemCode(tx, digest, userId, atMs);
    if (taken === null) throw new MoneyRefused(...REFUSALS[await redeemCodeStanding(tx, digest)]);
    const entry: Transfer = {
      id: `redeem:${digest}`,
      atMs,
      kind: "redeem",
      debit: "promo",
      credit: userBook(userId),
      amountNano: taken.amountNano,
      userId,
      subscriptionId: null,
      requestId: null,
      actor,
      reason: `code of batch ${taken.batch}`,
    };
    await postTransfer(tx, entry);
    return { entry, wallet: await readWallet(tx, userId), repeated: false };
  });
}

/** Returns how many codes were withdrawn; those redeemed stay so. */
export async function voidBatch(desk: Pick<CodeDesk, "db" | "clock">, name: string): Promise<number> {
  return transaction(desk.db, async (tx) => {
    if (!(await isRedeemBatch(tx, name)))
      throw new MoneyRefused("batch_unknown", `There is no batch "${name}".`);
    return voidRedeemBatch(tx, name, desk.clock.nowMs());
  });
}
