/** Records of pushes by SCIM for administrators: the last one, how much there is, and the rejected ones. */

import type { Db } from "../engine/db.ts";
import { integer, text } from "../engine/row.ts";
import { rowReader } from "../engine/row-reader.ts";

interface ScimSync {
  atMs: number;
  /** The name of the service account. */
  serviceAccount: string;
}

/** Written at most once in `everyMs`: a directory may send many requests a second. */
export async function recordSync(
  db: Db,
  issuer: string,
  { atMs, serviceAccount }: ScimSync,
  everyMs: number,
): Promise<void> {
  await db.sql`
    INSERT INTO scim_sync (issuer, at_ms, service_account) VALUES (${issuer}, ${atMs}, ${serviceAccount})
    ON CONFLICT (issuer) DO UPDATE SET at_ms = excluded.at_ms, service_account = excluded.service_account
      WHERE scim_sync.at_ms < ${atMs - everyMs}`;
}

interface ScimSummary {
  lastSync: ScimSync | null;
  people: number;
  groups: number;
}

export async function readScimSummary(db: Db, issuer: string): Promise<ScimSummary> {
  const [sync] = await db.sql`SELECT at_ms, service_account FROM scim_sync WHERE issuer = ${issuer}`;
  const [people] = await db.sql`
    SELECT COUNT(*) AS n FROM scim_user WHERE issuer = ${issuer} AND removed_at_ms IS NULL`;
  const [groups] = await db.sql`SELECT COUNT(*) AS n FROM scim_group WHERE issuer = ${issuer}`;
  return {
    lastSync:
      sync === undefined
        ? null
        : { atMs: integer(sync, "at_ms"), serviceAccount: text(sync, "service_account") },
    people: people === undefined ? 0 : integer(people, "n"),
    groups: groups === undefined ? 0 : integer(groups, "n"),
  };
}

const toRejectedPush = rowReader({
  /** Time-ordered. */
  id: text,
  atMs: integer,
  serviceAccount: text,
  /** Method and path. */
  request: text,
  status: integer,
  /** The detail of the response. */
  reason: text,
});
type RejectedPush = ReturnType<typeof toRejectedPush>;

/** Keeps the newest `keptMax`. */
export async function recordRejectedPush(db: Db, push: RejectedPush, keptMax: number): Promise<void> {
  const { id, atMs, serviceAccount, request, status, reason } = push;
  await db.sql`
    INSERT INTO rejected_push (id, at_ms, service_account, request, status, reason)
    VALUES (${id}, ${atMs}, ${serviceAccount}, ${request}, ${status}, ${reason})`;
  await db.sql`
    DELETE FROM rejected_push WHERE id NOT IN (SELECT id FROM rejected_push ORDER BY id DESC LIMIT ${keptMax})`;
}

/** Newest first. */
export async function listRejectedPushes(db: Db, limit: number): Promise<RejectedPush[]> {
  const rows = await db.sql`
    SELECT id, at_ms, service_account, request, status, reason FROM rejected_push ORDER BY id DESC LIMIT ${limit}`;
  return rows.map(toRejectedPush);
}

export async function sweepRejectedPushes(db: Db, beforeMs: number): Promise<void> {
  await db.sql`DELETE FROM rejected_push WHERE at_ms < ${beforeMs}`;
}
