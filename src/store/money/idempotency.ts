/** Idempotency records: one row for each caller and idempotency key. */

import type { Db } from "../engine/db.ts";
import { enumText, integer, integerOrNull, text, textOrNull } from "../engine/row.ts";

export interface IdempotencyClaim {
  /** The API key id that the token belongs to. */
  scope: string;
  token: string;
  /** Digest of the request: one token must not be used for two different requests. */
  fingerprint: string;
  requestId: string;
}

export interface StoredResult {
  status: number;
  contentType: string;
  body: string;
}

export interface IdempotencyRow extends IdempotencyClaim {
  state: "running" | "done";
  atMs: number;
  response: StoredResult | null;
}

const STATES = ["running", "done"] as const;
const SWEEP_BATCH_ROWS = 1_000;

/**
 * One statement decides, so exactly one of two nodes claims the token. The other gets the existing row, or null if
 * that row was deleted in between. Rows older than `keptSinceMs` are overwritten.
 */
export async function claimIdempotency(
  db: Db,
  { scope, token, fingerprint, requestId }: IdempotencyClaim,
  { processId, nowMs, keptSinceMs }: { processId: string; nowMs: number; keptSinceMs: number },
): Promise<"claimed" | IdempotencyRow | null> {
  const claimed = await db.sql`
    INSERT INTO idempotency (scope, token, fingerprint, request_id, process_id, at_ms, state)
    VALUES (${scope}, ${token}, ${fingerprint}, ${requestId}, ${processId}, ${nowMs}, 'running')
    ON CONFLICT (scope, token) DO UPDATE SET fingerprint = excluded.fingerprint,
      request_id = excluded.request_id, process_id = excluded.process_id, at_ms = excluded.at_ms,
      state = excluded.state, status = NULL, content_type = NULL, body = NULL
    WHERE idempotency.at_ms < ${keptSinceMs}
    RETURNING request_id`;
  if (claimed.length > 0) return "claimed";
  const [row] = await db.sql`
    SELECT scope, token, fingerprint, request_id, at_ms, state, status, content_type, body FROM idempotency
    WHERE scope = ${scope} AND token = ${token}`;
  if (row === undefined) return null;
  const status = integerOrNull(row, "status");
  const body = textOrNull(row, "body");
  return {
    scope: text(row, "scope"),
    token: text(row, "token"),
    fingerprint: text(row, "fingerprint"),
    requestId: text(row, "request_id"),
    atMs: integer(row, "at_ms"),
    state: enumText(row, "state", STATES),
    response:
      status === null || body === null ? null : { status, body, contentType: text(row, "content_type") },
  };
}

export async function finishIdempotency(
  db: Db,
  { scope, token, requestId }: IdempotencyClaim,
  response: StoredResult | null,
): Promise<void> {
  await db.sql`
    UPDATE idempotency SET state = 'done', status = ${response?.status ?? null},
      content_type = ${response?.contentType ?? null}, body = ${response?.body ?? null}
    WHERE scope = ${scope} AND token = ${token} AND request_id = ${requestId}`;
}

export async function forgetIdempotency(
  db: Db,
  { scope, token, requestId }: IdempotencyClaim,
): Promise<void> {
  await db.sql`
    DELETE FROM idempotency WHERE scope = ${scope} AND token = ${token} AND request_id = ${requestId}`;
}

/**
 * Marks requests of dead processes as done without a response, because they may have been executed. A process is
 * dead if it has no row in `process`; `self` is always alive. Returns the number of rows.
 */
export async function endOrphanedIdempotency(db: Db, self: string): Promise<number> {
  const ended = await db.sql`
    UPDATE idempotency SET state = 'done'
    WHERE state = 'running' AND process_id <> ${self} AND process_id NOT IN (SELECT id FROM process)
    RETURNING token`;
  return ended.length;
}

/** The same for the requests of one process. If it continues, it still stores their responses. */
export async function endProcessIdempotency(db: Db, processId: string): Promise<number> {
  const ended = await db.sql`
    UPDATE idempotency SET state = 'done' WHERE state = 'running' AND process_id = ${processId} RETURNING token`;
  return ended.length;
}

/** Deletes in batches: one long statement would block other writers. Returns whether there may be more. */
export async function sweepIdempotency(db: Db, keptSinceMs: number): Promise<boolean> {
  const swept = await db.sql`
    DELETE FROM idempotency WHERE at_ms < ${keptSinceMs} AND (scope, token) IN (
      SELECT scope, token FROM idempotency WHERE at_ms < ${keptSinceMs} ORDER BY at_ms LIMIT ${SWEEP_BATCH_ROWS})
    RETURNING token`;
  return swept.length === SWEEP_BATCH_ROWS;
}
