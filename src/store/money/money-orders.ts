/** Idempotency keys of orders that move money or grant plans: one row for each key, whatever it was used for. */

import type { Db } from "../engine/db.ts";
import { oneOf } from "../engine/row.ts";

export const MONEY_ORDER_KINDS = ["entry", "plan"] as const;
export type MoneyOrderKind = (typeof MONEY_ORDER_KINDS)[number];

/**
 * Claims the key and locks it until the transaction ends. Returns what the key was first used for: `kind` itself where
 * it is new. A transaction that is rolled back leaves no claim.
 */
export async function claimMoneyOrder(
  tx: Db,
  idempotencyKey: string,
  kind: MoneyOrderKind,
  nowMs: number,
): Promise<MoneyOrderKind> {
  // The update changes nothing. It locks the row, and waits for a transaction that has inserted it and not ended yet.
  const [row] = await tx.sql`
    INSERT INTO money_order (idempotency_key, kind, at_ms) VALUES (${idempotencyKey}, ${kind}, ${nowMs})
    ON CONFLICT (idempotency_key) DO UPDATE SET kind = money_order.kind
    RETURNING kind`;
  if (row === undefined) throw new Error("A claim returns its row.");
  return oneOf(row, "kind", MONEY_ORDER_KINDS);
}
