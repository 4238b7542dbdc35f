/** What administrators ordered to be captured of keys. A change stamps the key, so that every node reads it. */

import { CAPTURE_MODES, type CaptureMode, type KeyCapture } from "../../records/capture.ts";
import { type Db, type Row, transaction } from "../engine/db.ts";
import { bumpKeyRevision } from "../engine/revisions.ts";
import { enumText, integer } from "../engine/row.ts";

/** Reads the columns `capture_mode`, `capture_remaining` and `capture_until_ms`. */
export function toKeyCapture(row: Row): KeyCapture {
  return {
    mode: row.capture_mode === null ? null : enumText<CaptureMode>(row, "capture_mode", CAPTURE_MODES),
    remaining: integer(row, "capture_remaining"),
    untilMs: integer(row, "capture_until_ms"),
  };
}

/** Null if nothing was ordered for the key. */
export async function readKeyCapture(db: Db, keyId: string): Promise<KeyCapture | null> {
  const [row] = await db.sql`
    SELECT mode AS capture_mode, remaining AS capture_remaining, until_ms AS capture_until_ms
    FROM key_capture WHERE key_id = ${keyId}`;
  return row === undefined ? null : toKeyCapture(row);
}

interface KeyCaptureChange {
  readonly mode: KeyCapture["mode"];
  /** Undefined keeps the order that is running: nodes may take from it at the same time. */
  readonly order: Pick<KeyCapture, "remaining" | "untilMs"> | undefined;
}

/** Returns false if there is no such active key. */
export async function writeKeyCapture(
  db: Db,
  keyId: string,
  { mode, order }: KeyCaptureChange,
): Promise<boolean> {
  return transaction(db, async (tx) => {
    const revision = await bumpKeyRevision(tx);
    const stamped = await tx.sql`
      UPDATE api_key SET revision = ${revision} WHERE id = ${keyId} AND status = 'active' RETURNING id`;
    if (stamped.length === 0) return false;
    const { remaining, untilMs } = order ?? NO_ORDER;
    await tx.sql`
      INSERT INTO key_capture (key_id, mode, remaining, until_ms)
      VALUES (${keyId}, ${mode}, ${remaining}, ${untilMs})
      ON CONFLICT (key_id) DO UPDATE SET mode = excluded.mode`;
    if (order !== undefined)
      await tx.sql`
        UPDATE key_capture SET remaining = ${remaining}, until_ms = ${untilMs} WHERE key_id = ${keyId}`;
    await tx.sql`DELETE FROM key_capture WHERE key_id = ${keyId} AND mode IS NULL AND remaining = 0`;
    return true;
  });
}

const NO_ORDER = { remaining: 0, untilMs: 0 };

/**
 * Takes one of the ordered captures, on whichever node: the condition makes the count exact. Returns how many are left,
 * or null if there was none. `startedMs` is when the request began.
 */
export async function claimCapture(tx: Db, keyId: string, startedMs: number): Promise<number | null> {
  const [row] = await tx.sql`
    UPDATE key_capture SET remaining = remaining - 1
    WHERE key_id = ${keyId} AND remaining > 0 AND until_ms > ${startedMs} RETURNING remaining`;
  return row === undefined ? null : integer(row, "remaining");
}
