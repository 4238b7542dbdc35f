/** Records of sign-ins at providers: each `state` is accepted once on all nodes, and rejections are kept for a while. */

import type { Db } from "../engine/db.ts";
import { integer, text, textOrNull } from "../engine/row.ts";
import { rowReader } from "../engine/row-reader.ts";

/** Returns false if the state was used before, on any node. */
export async function takeState(db: Db, digest: string, expiresAtMs: number): Promise<boolean> {
  const taken = await db.sql`
    INSERT INTO used_sign_in_state (digest, expires_at_ms) VALUES (${digest}, ${expiresAtMs})
    ON CONFLICT (digest) DO NOTHING RETURNING digest`;
  return taken.length > 0;
}

const toRejection = rowReader({
  /** Time-ordered. */
  id: text,
  atMs: integer,
  /** The name of the provider. */
  provider: text,
  code: text,
  /** What an administrator needs to know. It contains no token. */
  reason: text,
  /** Null if the provider did not name a person that could be verified. */
  subject: textOrNull,
  email: textOrNull,
  /** The network address of the browser. */
  address: text,
});
type RejectedSignIn = ReturnType<typeof toRejection>;

/** Keeps the newest `keptMax`. */
export async function recordRejection(db: Db, rejected: RejectedSignIn, keptMax: number): Promise<void> {
  const { id, atMs, provider, code, reason, subject, email, address } = rejected;
  await db.sql`
    INSERT INTO rejected_sign_in (id, at_ms, provider, code, reason, subject, email, address)
    VALUES (${id}, ${atMs}, ${provider}, ${code}, ${reason}, ${subject}, ${email}, ${address})`;
  await db.sql`
    DELETE FROM rejected_sign_in WHERE id NOT IN (
      SELECT id FROM rejected_sign_in ORDER BY id DESC LIMIT ${keptMax})`;
}

/** Newest first. */
export async function listRejections(db: Db, limit: number): Promise<RejectedSignIn[]> {
  const rows = await db.sql`
    SELECT id, at_ms, provider, code, reason, subject, email, address FROM rejected_sign_in
    ORDER BY id DESC LIMIT ${limit}`;
  return rows.map(toRejection);
}

export async function sweepSignIns(
  db: Db,
  { nowMs, rejectedBeforeMs }: { nowMs: number; rejectedBeforeMs: number },
): Promise<void> {
  await db.sql`DELETE FROM used_sign_in_state WHERE expires_at_ms < ${nowMs}`;
  await db.sql`DELETE FROM rejected_sign_in WHERE at_ms < ${rejectedBeforeMs}`;
}
