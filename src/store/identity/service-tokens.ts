/** Tokens of service accounts. The store has only their digests; the token itself is shown once. */

import type { ServiceAccountRecord } from "../../records/service-account.ts";
import type { Db } from "../engine/db.ts";
import { integer, integerOrNull, text } from "../engine/row.ts";
import { rowReader } from "../engine/row-reader.ts";
import { selectIn } from "../engine/select-in.ts";
import { toServiceAccount } from "./service-accounts.ts";

const toServiceToken = rowReader({
  id: text,
  serviceAccountId: text,
  last4: text,
  createdAtMs: integer,
  /** The end of the overlap after a newer token was created; null for the newest. */
  worksUntilMs: integerOrNull,
  usedAtMs: integerOrNull,
});
export type ServiceTokenRecord = ReturnType<typeof toServiceToken>;

/** Returns null if the token or its account does not exist, has expired or was replaced. */
export async function findServiceToken(
  db: Db,
  digest: string,
  nowMs: number,
): Promise<{ token: Pick<ServiceTokenRecord, "id" | "usedAtMs">; account: ServiceAccountRecord } | null> {
  const [row] = await db.sql`
    SELECT service_token.id AS token_id, used_at_ms, service_account.id AS id, name, scopes,
      CAST(call_nano AS TEXT) AS call_nano, CAST(day_nano AS TEXT) AS day_nano, expires_at_ms,
      service_account.created_at_ms AS created_at_ms
    FROM service_token JOIN service_account ON service_account.id = service_token.service_account_id
    WHERE digest = ${digest} AND (works_until_ms IS NULL OR works_until_ms > ${nowMs})
      AND (expires_at_ms IS NULL OR expires_at_ms > ${nowMs})`;
  if (row === undefined) return null;
  return {
    token: { id: text(row, "token_id"), usedAtMs: integerOrNull(row, "used_at_ms") },
    account: toServiceAccount(row),
  };
}

export async function touchServiceToken(db: Db, id: string, usedAtMs: number): Promise<void> {
  await db.sql`UPDATE service_token SET used_at_ms = ${usedAtMs} WHERE id = ${id}`;
}

/** Returns false if the token was revoked. Locks it: it cannot be revoked before the transaction ends. */
export async function lockServiceToken(tx: Db, id: string): Promise<boolean> {
  const rows = await tx.sql`UPDATE service_token SET used_at_ms = used_at_ms WHERE id = ${id} RETURNING id`;
  return rows.length > 0;
}

/** Tokens before it end at `othersUntilMs`, or with their overlap. Ended ones are deleted. */
export async function insertServiceToken(
  tx: Db,
  token: ServiceTokenRecord,
  { digest, othersUntilMs }: { digest: string; othersUntilMs: number },
): Promise<void> {
  const { id, serviceAccountId, last4, createdAtMs } = token;
  await tx.sql`
    UPDATE service_token SET works_until_ms = ${othersUntilMs}
    WHERE service_account_id = ${serviceAccountId} AND (works_until_ms IS NULL OR works_until_ms > ${othersUntilMs})`;
  await tx.sql`
    DELETE FROM service_token WHERE service_account_id = ${serviceAccountId} AND works_until_ms <= ${createdAtMs}`;
  await tx.sql`
    INSERT INTO service_token (id, digest, service_account_id, last4, created_at_ms)
    VALUES (${id}, ${digest}, ${serviceAccountId}, ${last4}, ${createdAtMs})`;
}

/** The tokens of these accounts that still work, newest first. */
export async function listServiceTokens(
  db: Db,
  accountIds: readonly string[],
  nowMs: number,
): Promise<ServiceTokenRecord[]> {
  const rows = await selectIn(
    db,
    `SELECT id, service_account_id, last4, created_at_ms, works_until_ms, used_at_ms FROM service_token
     WHERE service_account_id`,
    accountIds,
  );
  return rows
    .map(toServiceToken)
    .filter(({ worksUntilMs }) => worksUntilMs === null || worksUntilMs > nowMs)
    .sort((a, b) => b.createdAtMs - a.createdAtMs);
}

/** Deletes all tokens of an account and returns their number. */
export async function deleteServiceTokens(db: Db, serviceAccountId: string): Promise<number> {
  const deleted = await db.sql`
    DELETE FROM service_token WHERE service_account_id = ${serviceAccountId} RETURNING id`;
  return deleted.length;
}
