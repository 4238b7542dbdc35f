/** Idempotency keys of orders that move money or grant plans: one row for each key, for all kinds of orders. */

import type { Db } from "../engine/db.ts";
import { enumText } from "../engine/row.ts";

const MONEY_ORDER_KINDS = ["entry", "plan"] as const;
export type MoneyOrderKind = (typeof MONEY_ORDER_KINDS)[number];

/**
 * Claims the key and locks it until the transaction ends. Returns the kind that the key was first used for, which is
 * `kind` itself if the key is new. A rolled-back transaction leaves no claim.
 */
export async function claimMoneyOrder(
  tx: Db,
  idempotencyKey: string,
  kind: MoneyOrderKind,
  nowMs: number,
): Promise<MoneyOrderKind> {
  // The update changes nothing. It locks the row, and waits for a concurrent transaction that has inserted it.
  const [row] = await tx.sql`
    INSERT INTO money_order (idempotency_key, kind, at_ms) VALUES (${idempotencyKey}, ${kind}, ${nowMs})
    ON CONFLICT (idempotency_key) DO UPDATE SET kind = money_order.kind
    RETURNING kind`;
  if (row === undefined) throw new Error("A claim returned no row.");
  return enumText(row, "kind", MONEY_ORDER_KINDS);
}
