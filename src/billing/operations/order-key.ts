/**
 * Idempotency keys of money operations. The id of the entry or subscription is derived from the key, so a repetition
 * finds it and any other use of the key is rejected.
 */

import type { Db } from "../../store/engine/db.ts";
import { claimMoneyOrder, type MoneyOrderKind } from "../../store/money/money-orders.ts";
import { MoneyOperationRejected } from "./rejection.ts";

export function checkOrderKey(key: string): void {
  if (/^[\x21-\x7e]{1,255}$/.test(key)) return;
  throw new MoneyOperationRejected(
    "bad_idempotency_key",
    "An idempotency key must be 1 to 255 visible ASCII characters.",
  );
}

/** Must come first in every transaction with a key, so that two orders with one key run one after the other. */
export async function claimOrderKey(
  tx: Db,
  key: string,
  { kind, nowMs }: { kind: MoneyOrderKind; nowMs: number },
): Promise<void> {
  if ((await claimMoneyOrder(tx, key, kind, nowMs)) !== kind) throw keyUsedForOtherOrder();
}

/** One id for all kinds of entries: a key that added money cannot be reused to remove it. */
export function entryIdForKey(key: string): string {
  return `order:${key}`;
}

export function subscriptionIdForKey(key: string): string {
  return `sub_${new Bun.CryptoHasher("sha256").update(key).digest("hex").slice(0, 32)}`;
}

export function keyUsedForOtherOrder(): MoneyOperationRejected {
  return new MoneyOperationRejected(
    "idempotency_conflict",
    "This idempotency key was already used for a different operation. No change was made. Use a new key for each operation.",
  );
}
