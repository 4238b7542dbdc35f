/** Holds of paid requests in flight. */

import { INTERFACES } from "../../records/interfaces.ts";
import { type Db, placeholder } from "../engine/db.ts";
import { isSharedServer, lockClause } from "../engine/dialect.ts";
import { insertRows } from "../engine/insert-rows.ts";
import { flag, integer, nano, text, textOrNull } from "../engine/row.ts";
import { choice, recordColumns, rowReader } from "../engine/row-reader.ts";
import { selectIn } from "../engine/select-in.ts";
import { clip, storableId } from "../usage/storable-values.ts";

export const HOLD_STATES = ["admitted", "dispatched"] as const;
type HoldState = (typeof HOLD_STATES)[number];

/** The fields that change while the request is in flight. */
export interface HoldProgress {
  readonly state: HoldState;
  readonly accountId: string | null;
  readonly upstreamModel: string | null;
  readonly outputTokens: number;
}

export const UNSENT: HoldProgress = {
  state: "admitted",
  accountId: null,
  upstreamModel: null,
  outputTokens: 0,
};

const HOLD = recordColumns({
  requestId: text,
  processId: text,
  state: choice(HOLD_STATES),
  atMs: integer,
  userId: text,
  /** Null if the user's wallet pays. */
  subscriptionId: textOrNull,
  amountNano: nano,
  tariffId: text,
  keyId: text,
  groupId: text,
  accountId: textOrNull,
  interface: choice(INTERFACES),
  endpoint: text,
  publicModel: text,
  upstreamModel: textOrNull,
  stream: flag,
  inputTokens: integer,
  outputTokens: integer,
});
export type Hold = ReturnType<typeof HOLD.read>;

export async function insertHolds(tx: Db, holds: readonly Hold[]): Promise<void> {
  const rows = holds.map(({ publicModel, upstreamModel, ...hold }) =>
    HOLD.values({
      ...hold,
      publicModel: clip(publicModel),
      upstreamModel: upstreamModel === null ? null : clip(upstreamModel),
    }),
  );
  await insertRows(tx, "hold", HOLD.names, rows);
}

/** The fields of a hold that its settlement needs. */
export const toEndedHold = rowReader({
  requestId: text,
  userId: text,
  subscriptionId: textOrNull,
  amountNano: nano,
  atMs: integer,
});
export type EndedHold = ReturnType<typeof toEndedHold>;

/** Returns the holds that existed. Only one caller can delete one, and books its settlement. */
export async function endHolds(tx: Db, requestIds: readonly string[]): Promise<Map<string, EndedHold>> {
  const rows = await selectIn(
    tx,
    "DELETE FROM hold WHERE request_id",
    requestIds,
    "RETURNING request_id, user_id, subscription_id, CAST(amount_nano AS TEXT) AS amount_nano, at_ms",
  );
  return new Map(rows.map((row) => [text(row, "request_id"), toEndedHold(row)]));
}

/** Locks holds until the transaction ends: only the caller can end them. */
export async function lockHolds(tx: Db, requestIds: readonly string[]): Promise<Map<string, Hold>> {
  const head = `SELECT ${HOLD.selected} FROM hold WHERE request_id`;
  const rows = await selectIn(tx, head, requestIds.toSorted(), lockClause(tx, "request_id"));
  return new Map(rows.map((row) => [text(row, "request_id"), HOLD.read(row)]));
}

export async function findHolds(db: Db, requestIds: readonly string[]): Promise<Map<string, Hold>> {
  const rows = await selectIn(db, `SELECT ${HOLD.selected} FROM hold WHERE request_id`, requestIds);
  return new Map(rows.map((row) => [text(row, "request_id"), HOLD.read(row)]));
}

/** The oldest holds of one process, without those of responses that continue upstream (`moveResponseHolds`). */
export async function listHolds(db: Db, processId: string, beforeMs: number, limit: number): Promise<Hold[]> {
  const mark = (number: number) => placeholder(db.engine, number);
  const rows = await db.sql.text(
    `SELECT ${HOLD.selected} FROM hold
     WHERE process_id = ${mark(1)} AND at_ms < ${mark(2)} AND response_id IS NULL
     ORDER BY at_ms, request_id LIMIT ${mark(3)}`,
    [processId, beforeMs, limit],
  );
  return rows.map(HOLD.read);
}

/** As `listHolds`, also for rows that cannot be read. */
export async function listHoldIds(db: Db, processId: string, limit: number): Promise<string[]> {
  const rows = await db.sql`
    SELECT request_id FROM hold WHERE process_id = ${processId} AND response_id IS NULL
    ORDER BY at_ms, request_id LIMIT ${limit}`;
  return rows.map((row) => text(row, "request_id"));
}

/** The oldest holds of one user, of any payer. */
export async function listUserHolds(db: Db, userId: string, limit: number): Promise<Hold[]> {
  const mark = (number: number) => placeholder(db.engine, number);
  const rows = await db.sql.text(
    `SELECT ${HOLD.selected} FROM hold WHERE user_id = ${mark(1)} ORDER BY at_ms, request_id LIMIT ${mark(2)}`,
    [userId, limit],
  );
  return rows.map(HOLD.read);
}

/**
 * Records a response that the account continues to produce after the request. It is found by its id until the
 * request has a usage row. Returns false if there is no hold.
 */
export async function recordResponse(
  db: Db,
  requestId: string,
  response: { responseId: string; accountId: string; upstreamModel: string },
): Promise<boolean> {
  const responseId = storableId(response.responseId);
  if (responseId === null) return true;
  const rows = await db.sql`
    UPDATE hold SET response_id = ${responseId}, state = 'dispatched', account_id = ${response.accountId},
      upstream_model = ${clip(response.upstreamModel)}
    WHERE request_id = ${requestId} RETURNING request_id`;
  return rows.length > 0;
}

/** The hold of a response that its account continues after the request. */
export interface HeldResponse extends Hold {
  readonly responseId: string;
  /** The process that created the hold has ended. */
  readonly isAdopted: boolean;
}

export async function findHeldResponses(
  db: Db,
  requestIds: readonly string[],
): Promise<Map<string, HeldResponse>> {
  const rows = await selectIn(
    db,
    `SELECT ${HOLD.selected}, response_id, is_adopted FROM hold WHERE request_id`,
    requestIds,
    "AND response_id IS NOT NULL",
  );
  return new Map(
    rows.map((row) => [
      text(row, "request_id"),
      { ...HOLD.read(row), responseId: text(row, "response_id"), isAdopted: flag(row, "is_adopted") },
    ]),
  );
}

/** Also of a hold that cannot be read. Null if there is none. */
export async function findHoldOwner(db: Db, requestId: string): Promise<string | null> {
  const [row] = await db.sql`SELECT process_id FROM hold WHERE request_id = ${requestId}`;
  return row === undefined ? null : text(row, "process_id");
}

/** The owner of holds whose process has ended and handed them over. It is no process, so the next one takes them. */
export const HANDED_OVER = "handed_over";

/** Gives the responses in progress of a process that has ended to another owner, each once. Returns their requests. */
export async function moveResponseHolds(db: Db, from: string, to: string): Promise<string[]> {
  const rows = await db.sql`
    UPDATE hold SET process_id = ${to}, is_adopted = 1 WHERE process_id = ${from} AND response_id IS NOT NULL
    RETURNING request_id`;
  return rows.map((row) => text(row, "request_id"));
}

const ROWS_PER_UPDATE = 64;

/** Ignores holds that have ended, and, on a shared server, those that a transaction is ending. */
export async function writeProgress(
  tx: Db,
  progress: readonly (readonly [requestId: string, HoldProgress])[],
): Promise<void> {
  const ordered = progress.toSorted(([a], [b]) => (a < b ? -1 : 1));
  for (let start = 0; start < ordered.length; start += ROWS_PER_UPDATE) {
    const chunk = ordered.slice(start, start + ROWS_PER_UPDATE);
    let next = 1;
    const tuple = () => `(${Array.from({ length: 5 }, () => placeholder(tx.engine, next++)).join(", ")})`;
    const values = chunk.map(tuple).join(", ");
    const set = `UPDATE hold SET state = v.column2, account_id = v.column3, upstream_model = v.column4,
         output_tokens = CAST(v.column5 AS BIGINT)`;
    await tx.sql.text(
      isSharedServer(tx)
        ? `WITH v AS (VALUES ${values}), free AS (
             SELECT hold.request_id FROM hold JOIN v ON hold.request_id = v.column1
             FOR UPDATE OF hold SKIP LOCKED)
           ${set} FROM v JOIN free ON free.request_id = v.column1 WHERE hold.request_id = v.column1`
        : `${set} FROM (VALUES ${values}) AS v WHERE hold.request_id = v.column1`,
      chunk.flatMap(([requestId, { state, accountId, upstreamModel, outputTokens }]) => [
        requestId,
        state,
        accountId,
        upstreamModel === null ? null : clip(upstreamModel),
        String(outputTokens),
      ]),
    );
  }
}
