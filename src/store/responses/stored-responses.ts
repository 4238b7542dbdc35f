/** Stored responses, as rows of conversations: none is removed while a later one continues it. */

import { nextTurn } from "../../base/next-turn.ts";
import { type Db, transaction } from "../engine/db.ts";
import { integer, integerOrNull, text, textOrNull } from "../engine/row.ts";
import { rowReader } from "../engine/row-reader.ts";
import { selectIn } from "../engine/select-in.ts";

const toResponse = rowReader({
  id: text,
  keyId: text,
  previousId: textOrNull,
  atMs: integer,
  tokens: integerOrNull,
  memoryBytes: integer,
  sealed: text,
});
export type StoredResponseRow = ReturnType<typeof toResponse>;

export interface NewStoredResponse extends StoredResponseRow {
  /** The user of the key, or the key itself. */
  readonly owner: string;
}

interface ConversationChange {
  readonly id: string;
  readonly keyId: string;
  readonly owner: string;
  readonly atMs: number;
  readonly bytes: number;
}

/**
 * Returns the ids of the responses that are stored afterwards. A response whose conversation was removed meanwhile is not
 * stored: it could not be continued.
 */
export async function insertStoredResponses(
  db: Db,
  responses: readonly NewStoredResponse[],
): Promise<ReadonlySet<string>> {
  return transaction(db, async (tx) => {
    const stored = new Set<string>();
    const changes = new Map<string, ConversationChange>();
    for (const response of responses) {
      const conversationId = await findConversationId(tx, response);
      if (conversationId === null) continue;
      stored.add(response.id);
      if (!(await insertResponse(tx, response, conversationId))) continue;
      const { keyId, owner, atMs } = response;
      const bytes = response.sealed.length + (changes.get(conversationId)?.bytes ?? 0);
      changes.set(conversationId, { id: conversationId, keyId, owner, atMs, bytes });
    }
    await countBytes(tx, [...changes.values()]);
    return stored;
  });
}

async function findConversationId(tx: Db, { id, previousId }: NewStoredResponse): Promise<string | null> {
  if (previousId === null) return id;
  const [row] = await tx.sql`SELECT conversation_id FROM stored_response WHERE id = ${previousId}`;
  return row === undefined ? null : text(row, "conversation_id");
}

/** Returns false if the response is stored already: a batch whose confirmation was lost is written again. */
async function insertResponse(tx: Db, response: NewStoredResponse, conversationId: string): Promise<boolean> {
  const { id, keyId, previousId, atMs, tokens, memoryBytes, sealed } = response;
  const inserted = await tx.sql`
    INSERT INTO stored_response
      (id, key_id, conversation_id, previous_id, at_ms, tokens, memory_bytes, is_deleted, sealed)
    VALUES (${id}, ${keyId}, ${conversationId}, ${previousId}, ${atMs}, ${tokens}, ${memoryBytes}, 0, ${sealed})
    ON CONFLICT (id) DO NOTHING RETURNING id`;
  return inserted.length > 0;
}

/** Every transaction locks conversations before owners, each in the order of ids, so that nodes do not deadlock. */
async function countBytes(tx: Db, changes: readonly ConversationChange[]): Promise<void> {
  const byOwner = new Map<string, number>();
  for (const { id, keyId, owner, atMs, bytes } of changes.toSorted((a, b) => compare(a.id, b.id))) {
    byOwner.set(owner, (byOwner.get(owner) ?? 0) + bytes);
    await tx.sql`
      INSERT INTO stored_conversation (id, key_id, owner, used_at_ms, bytes)
      VALUES (${id}, ${keyId}, ${owner}, ${atMs}, ${bytes})
      ON CONFLICT (id) DO UPDATE SET used_at_ms = excluded.used_at_ms,
        bytes = stored_conversation.bytes + excluded.bytes`;
  }
  for (const [owner, bytes] of [...byOwner].toSorted(([a], [b]) => compare(a, b))) {
    await tx.sql`
      INSERT INTO stored_response_owner (owner, bytes) VALUES (${owner}, ${bytes})
      ON CONFLICT (owner) DO UPDATE SET bytes = stored_response_owner.bytes + excluded.bytes`;
  }
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** The response that a caller requests. Responses that are older than `sinceMs` have expired. */
export interface StoredResponseQuery {
  readonly id: string;
  readonly keyId: string;
  readonly sinceMs: number;
}

const toSize = rowReader({ id: text, previousId: textOrNull, sealedBytes: integer, turnBytes: integer });
/** How long the content of a response is: sealed as in the database, and in memory. */
export type StoredResponseSize = ReturnType<typeof toSize>;

export async function findStoredResponse(
  db: Db,
  query: StoredResponseQuery,
): Promise<StoredResponseSize | null> {
  return (await readSizes(db, query, { deletedMax: 0, responsesMax: 1 }))[0] ?? null;
}

export async function hasStoredResponse(
  db: Db,
  { id, keyId, sinceMs }: StoredResponseQuery,
): Promise<boolean> {
  const rows = await db.sql`
    SELECT id FROM stored_response
    WHERE id = ${id} AND key_id = ${keyId} AND at_ms >= ${sinceMs} AND is_deleted = 0`;
  return rows.length > 0;
}

/** SQLite reads them in the event loop. */
const RESPONSES_PER_TURN = 512;

/** Finds the response and those that it continues, the first one first. Empty if the response is unknown. */
export async function findStoredChain(db: Db, query: StoredResponseQuery): Promise<StoredResponseSize[]> {
  const responsesMax = RESPONSES_PER_TURN;
  const newestFirst = await readSizes(db, query, { deletedMax: 0, responsesMax });
  for (;;) {
    const previousId = newestFirst.at(-1)?.previousId;
    if (previousId === undefined) return [];
    if (previousId === null) return newestFirst.reverse();
    await nextTurn();
    const earlierQuery = { ...query, id: previousId, sinceMs: 0 };
    const earlier = await readSizes(db, earlierQuery, { deletedMax: 1, responsesMax });
    // The conversation was removed meanwhile.
    if (earlier.length === 0) return [];
    for (const response of earlier) newestFirst.push(response);
  }
}

/**
 * The response, and those that it continues, the newest first. `OCTET_LENGTH` reads no content, unlike `LENGTH` on
 * SQLite.
 */
async function readSizes(
  db: Db,
  { id, keyId, sinceMs }: StoredResponseQuery,
  { deletedMax, responsesMax }: { deletedMax: 0 | 1; responsesMax: number },
): Promise<StoredResponseSize[]> {
  const rows = await db.sql`
    WITH RECURSIVE chain (id, previous_id, depth) AS (
      SELECT id, previous_id, 1 FROM stored_response
      WHERE id = ${id} AND key_id = ${keyId} AND at_ms >= ${sinceMs} AND is_deleted <= ${deletedMax}
      UNION ALL
      SELECT earlier.id, earlier.previous_id, chain.depth + 1
      FROM stored_response AS earlier JOIN chain ON earlier.id = chain.previous_id
      WHERE earlier.key_id = ${keyId} AND chain.depth < ${responsesMax}
    )
    SELECT response.id AS id, response.previous_id AS previous_id,
      OCTET_LENGTH(response.sealed) AS sealed_bytes,
      response.memory_bytes - COALESCE(earlier.memory_bytes, 0) AS turn_bytes
    FROM chain JOIN stored_response AS response ON response.id = chain.id
      LEFT JOIN stored_response AS earlier ON earlier.id = response.previous_id
    ORDER BY chain.depth`;
  return rows.map(toSize);
}

/** Reads the content of responses in the order of their ids. Null if one of them was removed meanwhile. */
export async function readStoredResponses(
  db: Db,
  ids: readonly string[],
): Promise<StoredResponseRow[] | null> {
  const rows = await selectIn(
    db,
    "SELECT id, key_id, previous_id, at_ms, tokens, memory_bytes, sealed FROM stored_response WHERE id",
    ids,
  );
  const byId = new Map(rows.map(toResponse).map((response) => [response.id, response]));
  const found = ids.flatMap((id) => byId.get(id) ?? []);
  return found.length === ids.length ? found : null;
}
