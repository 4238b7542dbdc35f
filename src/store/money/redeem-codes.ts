/** Redeem codes, by their digests: created in batches, voided individually or by batch. */

import type { Nano } from "../../money/nano.ts";
import { type Db, placeholder, type Row } from "../engine/db.ts";
import { insertRows } from "../engine/insert-rows.ts";
import { integer, integerOrNull, nano, text, textOrNull } from "../engine/row.ts";
import { rowReader } from "../engine/row-reader.ts";
import { selectIn } from "../engine/select-in.ts";

export type CodeValue = { kind: "money"; amountNano: Nano } | { kind: "plan"; planId: string; days: number };

interface RedeemBatchRecord {
  name: string;
  value: CodeValue;
  createdAtMs: number;
  createdBy: string;
  expiresAtMs: number | null;
}

export interface RedeemBatch extends RedeemBatchRecord {
  codes: number;
  redeemed: number;
  voided: number;
  /** Codes that are not redeemed, voided or expired at the time of the query. */
  open: number;
}

export async function insertRedeemBatch(
  tx: Db,
  { name, value, createdAtMs, createdBy, expiresAtMs }: RedeemBatchRecord,
  codes: readonly { digest: string; hint: string }[],
): Promise<void> {
  const amount = value.kind === "money" ? value.amountNano.toString() : null;
  const [planId, days] = value.kind === "plan" ? [value.planId, value.days] : [null, null];
  await tx.sql`
    INSERT INTO redeem_batch (name, amount_nano, plan_id, plan_days, created_at_ms, created_by, expires_at_ms)
    VALUES (${name}, CAST(${amount} AS BIGINT), ${planId}, ${days}, ${createdAtMs}, ${createdBy}, ${expiresAtMs})`;
  const rows = codes.map(({ digest, hint }) => [digest, name, hint]);
  await insertRows(tx, "redeem_code", ["digest", "batch", "hint"], rows);
}

const BATCH = `SELECT name, CAST(amount_nano AS TEXT) AS amount_nano, plan_id, plan_days, created_at_ms, created_by,
  expires_at_ms FROM redeem_batch`;

export async function findRedeemBatch(db: Db, name: string): Promise<RedeemBatchRecord | null> {
  const [row] = await db.sql.text(`${BATCH} WHERE name = ${placeholder(db.engine, 1)}`, [name]);
  return row === undefined ? null : toBatch(row);
}

/** Returns null if the code cannot be redeemed. One statement, so that of two concurrent calls only one succeeds. */
export async function takeRedeemCode(
  tx: Db,
  digest: string,
  userId: string,
  nowMs: number,
): Promise<RedeemBatchRecord | null> {
  const [row] = await tx.sql`
    UPDATE redeem_code SET redeemed_at_ms = ${nowMs}, redeemed_by = ${userId}
    WHERE digest = ${digest} AND redeemed_at_ms IS NULL AND voided_at_ms IS NULL
      AND EXISTS (SELECT 1 FROM redeem_batch WHERE redeem_batch.name = redeem_code.batch
        AND (expires_at_ms IS NULL OR expires_at_ms > ${nowMs}))
    RETURNING batch`;
  return row === undefined ? null : findRedeemBatch(tx, text(row, "batch"));
}

export type UnusableCodeReason = "unknown" | "redeemed" | "voided" | "expired";

/** Why a code cannot be redeemed. */
export async function readUnusableReason(db: Db, digest: string): Promise<UnusableCodeReason> {
  const [row] = await db.sql`
    SELECT redeemed_at_ms, voided_at_ms FROM redeem_code WHERE digest = ${digest}`;
  if (row === undefined) return "unknown";
  if (integerOrNull(row, "redeemed_at_ms") !== null) return "redeemed";
  return integerOrNull(row, "voided_at_ms") === null ? "expired" : "voided";
}

/** The last batch of the previous page. */
export interface BatchCursor {
  createdAtMs: number;
  name: string;
}

/** Newest first. */
export async function listRedeemBatches(
  db: Db,
  nowMs: number,
  page: { after: BatchCursor | null; limit: number },
): Promise<{ batches: RedeemBatch[]; next: BatchCursor | null }> {
  const at = (number: number) => placeholder(db.engine, number);
  const { after } = page;
  const found = await db.sql.text(
    `${BATCH} WHERE (created_at_ms, name) < (${at(1)}, ${at(2)})
     ORDER BY created_at_ms DESC, name DESC LIMIT ${page.limit + 1}`,
    [after?.createdAtMs ?? Number.MAX_SAFE_INTEGER, after?.name ?? ""],
  );
  const records = found.slice(0, page.limit).map(toBatch);
  const counts = await countCodes(
    db,
    records.map(({ name }) => name),
  );
  const batches = records.map((batch) => {
    const { codes, redeemed, voided } = counts.get(batch.name) ?? { codes: 0, redeemed: 0, voided: 0 };
    const isExpired = batch.expiresAtMs !== null && batch.expiresAtMs <= nowMs;
    return { ...batch, codes, redeemed, voided, open: isExpired ? 0 : codes - redeemed - voided };
  });
  const last = records.at(-1);
  const more = found.length > page.limit && last !== undefined;
  return { batches, next: more ? { createdAtMs: last.createdAtMs, name: last.name } : null };
}

const toCounts = rowReader({ codes: integer, redeemed: integer, voided: integer });

async function countCodes(db: Db, batchNames: readonly string[]) {
  const rows = await selectIn(
    db,
    `SELECT batch, COUNT(*) AS codes, COUNT(redeemed_at_ms) AS redeemed, COUNT(voided_at_ms) AS voided
     FROM redeem_code WHERE batch`,
    batchNames,
    "GROUP BY batch",
  );
  return new Map(rows.map((row) => [text(row, "batch"), toCounts(row)]));
}

const toListedCode = rowReader({
  digest: text,
  /** The first group of the code's characters. */
  hint: text,
  voidedAtMs: integerOrNull,
  redeemedAtMs: integerOrNull,
  redeemedBy: textOrNull,
});
export type ListedCode = ReturnType<typeof toListedCode>;

/** Ordered by digest, which is effectively random. */
export async function listRedeemCodes(
  db: Db,
  batch: string,
  page: { after: string | null; limit: number },
): Promise<{ codes: ListedCode[]; next: string | null }> {
  const found = await db.sql`
    SELECT digest, hint, voided_at_ms, redeemed_at_ms, redeemed_by FROM redeem_code
    WHERE batch = ${batch} AND digest > ${page.after ?? ""} ORDER BY digest LIMIT ${page.limit + 1}`;
  const codes = found.slice(0, page.limit).map(toListedCode);
  return { codes, next: found.length > page.limit ? (codes.at(-1)?.digest ?? null) : null };
}

/** Redeemed codes stay redeemed. Returns the number of codes voided by this call. */
export async function voidRedeemBatch(db: Db, name: string, nowMs: number): Promise<number> {
  const voided = await db.sql`
    UPDATE redeem_code SET voided_at_ms = ${nowMs}
    WHERE batch = ${name} AND redeemed_at_ms IS NULL AND voided_at_ms IS NULL RETURNING digest`;
  return voided.length;
}

/** Voids one code. Returns false if it was already redeemed or voided, or belongs to another batch. */
export async function voidRedeemCode(db: Db, batch: string, digest: string, nowMs: number): Promise<boolean> {
  const voided = await db.sql`
    UPDATE redeem_code SET voided_at_ms = ${nowMs}
    WHERE digest = ${digest} AND batch = ${batch} AND redeemed_at_ms IS NULL AND voided_at_ms IS NULL
    RETURNING digest`;
  return voided.length > 0;
}

export async function listCodePlanIds(db: Db): Promise<Set<string>> {
  const rows = await db.sql`SELECT DISTINCT plan_id FROM redeem_batch WHERE plan_id IS NOT NULL`;
  return new Set(rows.map((row) => text(row, "plan_id")));
}

function toBatch(row: Row): RedeemBatchRecord {
  const planId = textOrNull(row, "plan_id");
  return {
    name: text(row, "name"),
    value:
      planId === null
        ? { kind: "money", amountNano: nano(row, "amount_nano") }
        : { kind: "plan", planId, days: integer(row, "plan_days") },
    createdAtMs: integer(row, "created_at_ms"),
    createdBy: text(row, "created_by"),
    expiresAtMs: integerOrNull(row, "expires_at_ms"),
  };
}
