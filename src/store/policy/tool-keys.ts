/** Keys of signed-in tools. They are ordinary keys; this table says which keys they are, and when their sign-in ends. */

import { type Db, placeholder, type Row } from "../engine/db.ts";
import { integer, text } from "../engine/row.ts";
import { rowReader } from "../engine/row-reader.ts";
import { selectIn } from "../engine/select-in.ts";

/** How long an ended access token is still recognized: its error says to sign in again. */
export const ENDED_TOKEN_KNOWN_MS = 86_400_000;

const toTool = rowReader({
  keyId: text,
  /** The network address at the sign-in. */
  address: text,
  createdAtMs: integer,
  /** Without a refresh, the sign-in ends at this time. */
  idleEndMs: integer,
});
export type ToolKeyRecord = ReturnType<typeof toTool>;

export async function isToolKey(db: Db, keyId: string): Promise<boolean> {
  const found = await db.sql`SELECT key_id FROM tool_key WHERE key_id = ${keyId}`;
  return found.length > 0;
}

/** Ids of the keys of all signed-in tools, including ended ones. */
export async function readToolKeyIds(db: Db): Promise<ReadonlySet<string>> {
  const rows = await db.sql`SELECT key_id FROM tool_key`;
  return new Set(rows.map((row) => text(row, "key_id")));
}

export async function countTools(db: Db, userId: string): Promise<number> {
  const [row] = await db.sql`
    SELECT COUNT(*) AS many FROM tool_key JOIN api_key ON api_key.id = key_id
    WHERE user_id = ${userId} AND status = 'active'`;
  return row === undefined ? 0 : integer(row, "many");
}

/** Signed-in tools of a user, newest first. */
export async function listTools(db: Db, userId: string): Promise<ToolKeyRecord[]> {
  const rows = await db.sql`
    SELECT key_id, address, tool_key.created_at_ms AS created_at_ms, idle_end_ms
    FROM tool_key JOIN api_key ON api_key.id = key_id
    WHERE user_id = ${userId} AND status = 'active' ORDER BY tool_key.created_at_ms DESC, key_id`;
  return rows.map(toTool);
}

/** Those of the keys that are keys of tools. */
export async function readToolKeys(tx: Db, keyIds: readonly string[]): Promise<ReadonlySet<string>> {
  const rows = await selectIn(tx, "SELECT key_id FROM tool_key WHERE key_id", keyIds);
  return new Set(rows.map((row) => text(row, "key_id")));
}

/** Access tokens of these tools that have ended and are still recognized, with the columns of a former secret. */
export function readEndedTokens(tx: Db, toolKeyIds: readonly string[], nowMs: number): Promise<Row[]> {
  const [until, after] = [placeholder(tx.engine, 1), placeholder(tx.engine, 2)];
  const head = `SELECT key_id, digest, works_until_ms FROM former_secret
    WHERE works_until_ms <= ${until} AND works_until_ms > ${after} AND key_id`;
  return selectIn(tx, head, toolKeyIds, "", [nowMs, nowMs - ENDED_TOKEN_KNOWN_MS]);
}
