/** Captured requests. Their content is sealed; the sum of their sizes stays within the budget. */

import { type Db, placeholder, type SqlValue, transaction } from "../engine/db.ts";
import { integer, text, textOrNull } from "../engine/row.ts";
import { choice, rowReader } from "../engine/row-reader.ts";
import { USAGE_OUTCOMES } from "../usage/usage-row.ts";
import { claimCapture } from "./key-captures.ts";

/** What lists show of a capture. */
const toSummary = rowReader({
  requestId: text,
  atMs: integer,
  keyId: text,
  userId: textOrNull,
  groupId: text,
  endpoint: text,
  model: text,
  status: integer,
  outcome: choice(USAGE_OUTCOMES),
  storedBytes: integer,
});
export type CaptureSummary = ReturnType<typeof toSummary>;

export interface SealedCapture extends CaptureSummary {
  readonly sealedKey: string;
  readonly content: string;
}

export interface CaptureTerms {
  /** The capture takes one of the ordered captures of its key. Null: it was not ordered by count. */
  readonly order: { readonly startedMs: number } | null;
  /** The capture is stored even if no ordered capture is left. */
  readonly isWantedAnyway: boolean;
  readonly budgetBytes: number;
}

/** `left`: the ordered captures of the key that remain; null if the capture took none. */
export type CaptureInsertion =
  | { readonly kind: "stored"; readonly left: number | null }
  | { readonly kind: "not_ordered" }
  /** The user was deleted while the capture waited to be stored. */
  | { readonly kind: "user_deleted" };

/** Stores the capture and, if the budget is exceeded, deletes the oldest ones, in one transaction. */
export async function insertCapture(
  db: Db,
  capture: SealedCapture,
  { order, isWantedAnyway, budgetBytes }: CaptureTerms,
): Promise<CaptureInsertion> {
  return transaction(db, async (tx) => {
    const total = await addToTotal(tx, capture.storedBytes);
    // The deletion of a user holds the lock of the total too, so a capture is deleted or not stored, never kept.
    if (capture.userId !== null && !(await isUser(tx, capture.userId))) {
      await addToTotal(tx, -capture.storedBytes);
      return { kind: "user_deleted" };
    }
    const left = order === null ? null : await claimCapture(tx, capture.keyId, order.startedMs);
    if (left === null && !isWantedAnyway) {
      await addToTotal(tx, -capture.storedBytes);
      return { kind: "not_ordered" };
    }
    await tx.sql`
      INSERT INTO capture (request_id, at_ms, key_id, user_id, group_id, endpoint, model, status, outcome,
        stored_bytes, sealed_key, content)
      VALUES (${capture.requestId}, ${capture.atMs}, ${capture.keyId}, ${capture.userId}, ${capture.groupId},
        ${capture.endpoint}, ${capture.model}, ${capture.status}, ${capture.outcome}, ${capture.storedBytes},
        ${capture.sealedKey}, ${capture.content})`;
    await deleteAboveBudget(tx, total - budgetBytes, capture.requestId);
    return { kind: "stored", left };
  });
}

async function isUser(tx: Db, id: string): Promise<boolean> {
  return (await tx.sql`SELECT id FROM app_user WHERE id = ${id}`).length > 0;
}

const EVICTION_BATCH = 64;

async function deleteAboveBudget(tx: Db, excessBytes: number, newest: string): Promise<void> {
  let excess = excessBytes;
  while (excess > 0) {
    const oldest = await tx.sql`
      SELECT request_id, stored_bytes FROM capture WHERE request_id <> ${newest}
      ORDER BY at_ms, request_id LIMIT ${EVICTION_BATCH}`;
    if (oldest.length === 0) return;
    const evicted: string[] = [];
    for (const row of oldest) {
      if (excess <= 0) break;
      evicted.push(text(row, "request_id"));
      excess -= integer(row, "stored_bytes");
    }
    await deleteByIds(tx, evicted);
  }
}

async function addToTotal(tx: Db, bytes: number): Promise<number> {
  const [row] = await tx.sql`UPDATE capture_total SET bytes = bytes + ${bytes} WHERE id = 1 RETURNING bytes`;
  if (row === undefined) throw new Error("The total of the captures is missing from the database.");
  return integer(row, "bytes");
}

/** Returns the number of deleted captures. */
async function deleteByIds(tx: Db, ids: readonly string[]): Promise<number> {
  if (ids.length === 0) return 0;
  const marks = ids.map((_, i) => placeholder(tx.engine, i + 1)).join(", ");
  const deleted = await tx.sql.text(
    `DELETE FROM capture WHERE request_id IN (${marks}) RETURNING stored_bytes`,
    [...ids],
  );
  const bytes = deleted.reduce((sum, row) => sum + integer(row, "stored_bytes"), 0);
  if (bytes > 0) await addToTotal(tx, -bytes);
  return deleted.length;
}

/** Deletes about `rowsMax` captures from before this time. Returns their number. */
export async function deleteOldCaptures(db: Db, beforeMs: number, rowsMax: number): Promise<number> {
  return transaction(db, async (tx) => {
    // The lock that every writer takes first: without it, two nodes could each wait for the other.
    await addToTotal(tx, 0);
    const rows = await tx.sql`
      SELECT request_id FROM capture WHERE at_ms < ${beforeMs} ORDER BY at_ms LIMIT ${rowsMax}`;
    return deleteByIds(
      tx,
      rows.map((row) => text(row, "request_id")),
    );
  });
}

interface CaptureFilter {
  readonly keyId?: string | undefined;
  readonly userId?: string | undefined;
  readonly groupId?: string | undefined;
}

/** Deletes the captures that match; all of them without a filter. */
export async function deleteCaptures(
  db: Db,
  filter: CaptureFilter & { readonly requestId?: string },
): Promise<number> {
  return transaction(db, async (tx) => {
    await addToTotal(tx, 0);
    const { where, values } = buildCondition(tx, filter);
    if (filter.requestId !== undefined) {
      where.push(`request_id = ${placeholder(tx.engine, values.push(filter.requestId))}`);
    }
    const deleted = await tx.sql.text(
      `DELETE FROM capture WHERE ${where.join(" AND ")} RETURNING stored_bytes`,
      values,
    );
    const bytes = deleted.reduce((sum, row) => sum + integer(row, "stored_bytes"), 0);
    await addToTotal(tx, -bytes);
    return deleted.length;
  });
}

const SUMMARY =
  "request_id, at_ms, key_id, user_id, group_id, endpoint, model, status, outcome, stored_bytes";

interface CapturePosition {
  readonly atMs: number;
  readonly requestId: string;
}

/** Lists captures, newest first. */
export async function listCaptures(
  db: Db,
  filter: CaptureFilter,
  page: { readonly after: CapturePosition | null; readonly limit: number },
): Promise<{ captures: CaptureSummary[]; next: CapturePosition | null }> {
  const { where, values } = buildCondition(db, filter);
  const mark = (value: SqlValue) => placeholder(db.engine, values.push(value));
  if (page.after !== null) {
    const { atMs, requestId } = page.after;
    where.push(`(at_ms < ${mark(atMs)} OR (at_ms = ${mark(atMs)} AND request_id < ${mark(requestId)}))`);
  }
  const rows = await db.sql.text(
    `SELECT ${SUMMARY} FROM capture WHERE ${where.join(" AND ")}
     ORDER BY at_ms DESC, request_id DESC LIMIT ${page.limit + 1}`,
    values,
  );
  const captures = rows.slice(0, page.limit).map(toSummary);
  return { captures, next: rows.length > page.limit ? (captures.at(-1) ?? null) : null };
}

export async function findCapture(db: Db, requestId: string): Promise<SealedCapture | null> {
  const [row] = await db.sql.text(
    `SELECT ${SUMMARY}, sealed_key, content FROM capture WHERE request_id = ${placeholder(db.engine, 1)}`,
    [requestId],
  );
  if (row === undefined) return null;
  return { ...toSummary(row), sealedKey: text(row, "sealed_key"), content: text(row, "content") };
}

export async function hasCapture(db: Db, requestId: string): Promise<boolean> {
  const rows = await db.sql`SELECT request_id FROM capture WHERE request_id = ${requestId}`;
  return rows.length > 0;
}

export async function readCaptureTotal(db: Db): Promise<{ captures: number; bytes: number }> {
  const [row] = await db.sql`
    SELECT bytes, (SELECT COUNT(*) FROM capture) AS captures FROM capture_total WHERE id = 1`;
  return row === undefined
    ? { captures: 0, bytes: 0 }
    : { captures: integer(row, "captures"), bytes: integer(row, "bytes") };
}

function buildCondition(
  { engine }: Db,
  { keyId, userId, groupId }: CaptureFilter,
): { where: string[]; values: SqlValue[] } {
  const where = ["1 = 1"];
  const values: SqlValue[] = [];
  for (const [column, value] of [
    ["key_id", keyId],
    ["user_id", userId],
    ["group_id", groupId],
  ] as const) {
    if (value !== undefined) where.push(`${column} = ${placeholder(engine, values.push(value))}`);
  }
  return { where, values };
}
