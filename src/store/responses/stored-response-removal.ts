/** Removal of stored responses: by the client, by age, and above the limits of bytes. */

import { nextTurn } from "../../base/next-turn.ts";
import { type Db, transaction } from "../engine/db.ts";
import { flag, integer, text, textOrNull } from "../engine/row.ts";
import { rowReader } from "../engine/row-reader.ts";

const toRemovedRow = rowReader({
  id: text,
  conversationId: text,
  previousId: textOrNull,
  bytes: integer,
  isDeleted: flag,
});
type RemovedRow = ReturnType<typeof toRemovedRow>;

/**
 * Deletes one response of a key. If a later response continues it, the content stays as the input of that one and is
 * removed together with it. Returns false if the response is unknown.
 */
export async function deleteStoredResponse(db: Db, id: string, keyId: string): Promise<boolean> {
  return transaction(db, async (tx) => {
    const found = await findRow(tx, id);
    if (found === null || found.isDeleted) return false;
    // Locks the conversation, so that no other node adds to it or removes from it meanwhile.
    const locked = await tx.sql`
      UPDATE stored_conversation SET bytes = bytes WHERE id = ${found.conversationId} AND key_id = ${keyId}
      RETURNING owner`;
    const [conversation] = locked;
    if (conversation === undefined) return false;
    await tx.sql`UPDATE stored_response SET is_deleted = 1 WHERE id = ${id}`;
    const freedBytes = await removeUnused(tx, { ...found, isDeleted: true });
    if (freedBytes === 0) return true;
    await tx.sql`
      UPDATE stored_conversation SET bytes = bytes - ${freedBytes} WHERE id = ${found.conversationId}`;
    await tx.sql`
      DELETE FROM stored_conversation WHERE id = ${found.conversationId}
        AND NOT EXISTS (SELECT 1 FROM stored_response WHERE conversation_id = ${found.conversationId})`;
    await freeBytes(tx, text(conversation, "owner"), freedBytes);
    return true;
  });
}

/** On SQLite, that many rows take about 4 ms. */
const ROWS_PER_TURN = 200;

/** Removes the deleted response, and deleted ones before it, as far as no response continues them. */
async function removeUnused(tx: Db, last: RemovedRow): Promise<number> {
  let freedBytes = 0;
  let removed = 0;
  for (let row: RemovedRow | null = last; row?.isDeleted === true; ) {
    const { id, conversationId, previousId, bytes }: RemovedRow = row;
    const next = await tx.sql`
      SELECT id FROM stored_response WHERE conversation_id = ${conversationId} AND previous_id = ${id} LIMIT 1`;
    if (next.length > 0) break;
    await tx.sql`DELETE FROM stored_response WHERE id = ${id}`;
    freedBytes += bytes;
    // A conversation may have thousands of deleted responses.
    if (++removed % ROWS_PER_TURN === 0) await nextTurn();
    row = previousId === null ? null : await findRow(tx, previousId);
  }
  return freedBytes;
}

async function findRow(tx: Db, id: string): Promise<RemovedRow | null> {
  const [row] = await tx.sql`
    SELECT id, conversation_id, previous_id, OCTET_LENGTH(sealed) AS bytes, is_deleted FROM stored_response
    WHERE id = ${id}`;
  return row === undefined ? null : toRemovedRow(row);
}

async function freeBytes(tx: Db, owner: string, bytes: number): Promise<void> {
  await tx.sql`UPDATE stored_response_owner SET bytes = bytes - ${bytes} WHERE owner = ${owner}`;
  await tx.sql`DELETE FROM stored_response_owner WHERE owner = ${owner} AND bytes <= 0`;
}

/**
 * One transaction for each conversation, which blocks all other writers on SQLite, and one turn of the event loop:
 * thousands may expire together.
 */
async function removeConversation(db: Db, id: string): Promise<void> {
  await nextTurn();
  await transaction(db, async (tx) => {
    const [removed] = await tx.sql`DELETE FROM stored_conversation WHERE id = ${id} RETURNING owner, bytes`;
    await tx.sql`DELETE FROM stored_response WHERE conversation_id = ${id}`;
    if (removed !== undefined) await freeBytes(tx, text(removed, "owner"), integer(removed, "bytes"));
  });
}

const BATCH_CONVERSATIONS = 100;

/** Removes conversations that were last used before this time. Returns their number, at most that of one batch. */
export async function removeExpiredConversations(db: Db, beforeMs: number): Promise<number> {
  const rows = await db.sql`
    SELECT id FROM stored_conversation WHERE used_at_ms < ${beforeMs}
    ORDER BY used_at_ms LIMIT ${BATCH_CONVERSATIONS}`;
  for (const row of rows) await removeConversation(db, text(row, "id"));
  return rows.length;
}

/**
 * A revoked key never works again, so its responses cannot be read. Considers keys that were revoked since this time.
 * Returns the number, at most that of one batch.
 */
export async function removeConversationsOfRevokedKeys(db: Db, sinceMs: number): Promise<number> {
  const rows = await db.sql`
    SELECT id FROM stored_conversation
    WHERE key_id IN (SELECT id FROM api_key WHERE status = 'revoked' AND revoked_at_ms >= ${sinceMs})
    LIMIT ${BATCH_CONVERSATIONS}`;
  for (const row of rows) await removeConversation(db, text(row, "id"));
  return rows.length;
}

/** Removes the conversations of the owner that were not used for the longest time. */
export async function limitOwnerBytes(db: Db, owner: string, bytesMax: number): Promise<number> {
  let removed = 0;
  while ((await readOwnerBytes(db, owner)) > bytesMax) {
    const [oldest] = await db.sql`
      SELECT id FROM stored_conversation WHERE owner = ${owner} ORDER BY used_at_ms, id LIMIT 1`;
    if (oldest === undefined) break;
    await removeConversation(db, text(oldest, "id"));
    removed += 1;
  }
  return removed;
}

/** Removes the conversations of all owners that were not used for the longest time. */
export async function limitTotalBytes(db: Db, bytesMax: number): Promise<number> {
  let removed = 0;
  while ((await readTotalBytes(db)) > bytesMax) {
    const [oldest] = await db.sql`SELECT id FROM stored_conversation ORDER BY used_at_ms, id LIMIT 1`;
    if (oldest === undefined) break;
    await removeConversation(db, text(oldest, "id"));
    removed += 1;
  }
  return removed;
}

async function readOwnerBytes(db: Db, owner: string): Promise<number> {
  const [row] = await db.sql`SELECT bytes FROM stored_response_owner WHERE owner = ${owner}`;
  return row === undefined ? 0 : integer(row, "bytes");
}

export async function readTotalBytes(db: Db): Promise<number> {
  const [row] =
    await db.sql`SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) AS bytes FROM stored_response_owner`;
  return row === undefined ? 0 : integer(row, "bytes");
}
