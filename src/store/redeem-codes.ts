/** Codes that are worth money, once: known by their digest, made and voided in batches. */

import type { Nano } from "../money/nano.ts";
import type { Db } from "./db.ts";
import { insertRows } from "./insert-rows.ts";
import { integer, integerOrNull, nano, text } from "./row.ts";

export interface RedeemCodeRecord {
  digest: string;
  batch: string;
  hint: string;
  amountNano: Nano;
  createdAtMs: number;
  createdBy: string;
  expiresAtMs: number | null;
}

export interface RedeemBatch {
  name: string;
  /** For each code. */
  amountNano: Nano;
  createdAtMs: number;
  createdBy: string;
  expiresAtMs: number | null;
  codes: number;
  redeemed: number;
  voided: number;
  /** Neither redeemed nor voided, nor expired by the time that was asked about. */
  open: number;
}

const COLUMNS = [
  "digest",
  "batch",
  "hint",
  "amount_nano",
  "created_at_ms",
  "created_by",
  "expires_at_ms",
] as const;

export async function insertRedeemCodes(tx: Db, codes: readonly RedeemCodeRecord[]): Promise<void> {
  const rows = codes.map((code) => [
    code.digest,
    code.batch,
    code.hint,
    code.amountNano.toString(),
    code.createdAtMs,
    code.createdBy,
    code.expiresAtMs,
  ]);
  await insertRows(tx, "redeem_code", COLUMNS, rows);
}

export async function isRedeemBatch(db: Db, name: string): Promise<boolean> {
  const found = await db.sql`SELECT digest FROM redeem_code WHERE batch = ${name} LIMIT 1`;
  return found.length > 0;
}

/** Null if it cannot be redeemed. One statement, so that of two at once one gets it. */
export async function takeRedeemCode(
  tx: Db,
  digest: string,
  userId: string,
  nowMs: number,
): Promise<{ amountNano: Nano; batch: string } | null> {
  const [row] = await tx.sql`
    UPDATE redeem_code SET redeemed_at_ms = ${nowMs}, redeemed_by = ${userId}
    WHERE digest = ${digest} AND redeemed_at_ms IS NULL AND voided_at_ms IS NULL
      AND (expires_at_ms IS NULL OR expires_at_ms > ${nowMs})
    RETURNING CAST(amount_nano AS TEXT) AS amount_nano, batch`;
  return row === undefined ? null : { amountNano: nano(row, "amount_nano"), batch: text(row, "batch") };
}

export type CodeStanding = "unknown" | "redeemed" | "voided" | "expired";

/** Why a code could not be taken. */
export async function redeemCodeStanding(db: Db, digest: string): Promise<CodeStanding> {
  const [row] = await db.sql`
    SELECT redeemed_at_ms, voided_at_ms FROM redeem_code WHERE digest = ${digest}`;
  if (row === undefined) return "unknown";
  if (integerOrNull(row, "redeemed_at_ms") !== null) return "redeemed";
  return integerOrNull(row, "voided_at_ms") === null ? "expired" : "voided";
}

/** The latest first. */
export async function listRedeemBatches(db: Db, nowMs: number): Promise<RedeemBatch[]> {
  const rows = await db.sql`
    SELECT batch, CAST(MAX(amount_nano) AS TEXT) AS amount_nano, MIN(created_at_ms) AS created_at_ms,
      MIN(created_by) AS created_by, MAX(expires_at_ms) AS expires_at_ms, COUNT(*) AS codes,
      COUNT(redeemed_at_ms) AS redeemed, COUNT(voided_at_ms) AS voided,
      COUNT(CASE WHEN redeemed_at_ms IS NULL AND voided_at_ms IS NULL
        AND (expires_at_ms IS NULL OR expires_at_ms > ${nowMs}) THEN 1 END) AS open_codes
    FROM redeem_code GROUP BY batch ORDER BY MIN(created_at_ms) DESC, batch`;
  return rows.map((row) => ({
    name: text(row, "batch"),
    amountNano: nano(row, "amount_nano"),
    createdAtMs: integer(row, "created_at_ms"),
    createdBy: text(row, "created_by"),
    expiresAtMs: integerOrNull(row, "expires_at_ms"),
    codes: integer(row, "codes"),
    redeemed: integer(row, "redeemed"),
    voided: integer(row, "voided"),
    open: integer(row, "open_codes"),
  }));
}

/** What was redeemed stays so. Returns how many codes were voided now. */
export async function voidRedeemBatch(db: Db, name: string, nowMs: number): Promise<number> {
  const voided = await db.sql`
    UPDATE redeem_code SET voided_at_ms = ${nowMs}
    WHERE batch = ${name} AND redeemed_at_ms IS NULL AND voided_at_ms IS NULL RETURNING digest`;
  return voided.length;
}
