/**
 * An idempotency key of whoever moves money: what it was first used for has an id made of it, so that the same again is
 * found, and anything else under it is refused.
 */

import type { Db } from "../../store/engine/db.ts";
import { claimMoneyOrder, type MoneyOrderKind } from "../../store/money/money-orders.ts";
import { MoneyRefusedError } from "./refusal.ts";

export function checkOrderKey(key: string): void {
  if (/^[\x21-\x7e]{1,255}$/.test(key)) return;
  throw new MoneyRefusedError(
    "bad_idempotency_key",
    "An idempotency key must be 1 to 255 visible ASCII characters.",
  );
}

/** First in every transaction that takes a key, so that two orders with one key take turns. */
export async function claimOrderKey(
  tx: Db,
  key: string,
  { kind, nowMs }: { kind: MoneyOrderKind; nowMs: number },
): Promise<void> {
  if ((await claimMoneyOrder(tx, key, kind, nowMs)) !== kind) throw keyUsedForOtherOrder();
}

/** One for all kinds of entries: a key that added money cannot take it away. */
export function entryIdForKey(key: string): string {
  return `order:${key}`;
}

export function subscriptionIdForKey(key: string): string {
  return `sub_${new Bun.CryptoHasher("sha256").update(key).digest("hex").slice(0, 32)}`;
}

export function keyUsedForOtherOrder(): MoneyRefusedError {
  return new MoneyRefusedError(
    "idempotency_conflict",
    "This idempotency key was used before for something else. Nothing was done; make a new key for each order.",
  );
}
