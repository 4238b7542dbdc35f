/** What clients asked under a key of their own for repeats: one row for each caller and key. */

import type { Db } from "../engine/db.ts";
import { integer, integerOrNull, oneOf, text, textOrNull } from "../engine/row.ts";

export interface IdempotencyClaim {
  /** Whose tokens these are: an API key's id. */
  scope: string;
  token: string;
  /** Of what was asked: the same token may not stand for two things. */
  fingerprint: string;
  requestId: string;
}

export interface StoredAnswer {
  status: number;
  contentType: string;
  body: string;
}

export interface IdempotencyRow extends IdempotencyClaim {
  state: "running" | "done";
  atMs: number;
  answer: StoredAnswer | null;
}

const STATES = ["running", "done"] as const;
const SWEPT_AT_ONCE = 1_000;

/**
 * One statement decides, so that of two nodes exactly one claims it; the other gets the row of the first, or null
 * if that row has gone in between. A row from before `keptSinceMs` counts no more.
 */
export async function claimIdempotency(
  db: Db,
  { scope, token, fingerprint, requestId }: IdempotencyClaim,
  { incarnation, nowMs, keptSinceMs }: { incarnation: string; nowMs: number; keptSinceMs: number },
): Promise<"claimed" | IdempotencyRow | null> {
  const claimed = await db.sql`
    INSERT INTO idempotency (scope, token, fingerprint, request_id, incarnation, at_ms, state)
    VALUES (${scope}, ${token}, ${fingerprint}, ${requestId}, ${incarnation}, ${nowMs}, 'running')
    ON CONFLICT (scope, token) DO UPDATE SET fingerprint = excluded.fingerprint,
      request_id = excluded.request_id, incarnation = excluded.incarnation, at_ms = excluded.at_ms,
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
    state: oneOf(row, "state", STATES),
    answer:
      status === null || body === null ? null : { status, body, contentType: text(row, "content_type") },
  };
}

export async function finishIdempotency(
  db: Db,
  { scope, token, requestId }: IdempotencyClaim,
  answer: StoredAnswer | null,
): Promise<void> {
  await db.sql`
    UPDATE idempotency SET state = 'done', status = ${answer?.status ?? null},
      content_type = ${answer?.contentType ?? null}, body = ${answer?.body ?? null}
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
 * What a dead process was at may have been done, so it counts as done, without an answer. Dead is whoever has no row
 * in `incarnation` any more; `self` lives, whatever others think. Returns how many.
 */
export async function endOrphanedIdempotency(db: Db, self: string): Promise<number> {
  const ended = await db.sql`
    UPDATE idempotency SET state = 'done'
    WHERE state = 'running' AND incarnation <> ${self} AND incarnation NOT IN (SELECT id FROM incarnation)
    RETURNING token`;
  return ended.length;
}

/** In portions: one long statement would keep other writers waiting. Returns whether there may be more. */
export async function sweepIdempotency(db: Db, keptSinceMs: number): Promise<boolean> {
  const swept = await db.sql`
    DELETE FROM idempotency WHERE at_ms < ${keptSinceMs} AND (scope, token) IN (
      SELECT scope, token FROM idempotency WHERE at_ms < ${keptSinceMs} ORDER BY at_ms LIMIT ${SWEPT_AT_ONCE})
    RETURNING token`;
  return swept.length === SWEPT_AT_ONCE;
}
