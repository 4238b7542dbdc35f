/** Service accounts and what they topped up. Their names are unique, their ids begin with `svc_`. */

import { z } from "zod";
import type { Nano } from "../../money/nano.ts";
import { SERVICE_SCOPES, type ServiceAccountRecord } from "../../records/service-account.ts";
import { orDuplicate } from "../engine/conflict.ts";
import type { Db, Row } from "../engine/db.ts";
import { readServerClock } from "../engine/dialect.ts";
import { integer, integerOrNull, json, nano, text } from "../engine/row.ts";
import { startOfDay } from "../usage/usage-day.ts";

export const SERVICE_ID_PREFIX = "svc";

const scopesSchema = z.array(z.string());

/** By name. */
export async function listServiceAccounts(db: Db): Promise<ServiceAccountRecord[]> {
  const rows = await db.sql`
    SELECT id, name, scopes, CAST(call_nano AS TEXT) AS call_nano, CAST(day_nano AS TEXT) AS day_nano,
      expires_at_ms, created_at_ms
    FROM service_account ORDER BY name`;
  return rows.map(toServiceAccount);
}

export async function findServiceAccount(db: Db, id: string): Promise<ServiceAccountRecord | null> {
  const [row] = await db.sql`
    SELECT id, name, scopes, CAST(call_nano AS TEXT) AS call_nano, CAST(day_nano AS TEXT) AS day_nano,
      expires_at_ms, created_at_ms
    FROM service_account WHERE id = ${id}`;
  return row === undefined ? null : toServiceAccount(row);
}

export async function putServiceAccount(db: Db, account: ServiceAccountRecord): Promise<void> {
  const { id, name, scopes, bounds, expiresAtMs, createdAtMs } = account;
  const callNano = bounds === null ? null : String(bounds.callNano);
  const dayNano = bounds === null ? null : String(bounds.dayNano);
  await orDuplicate(
    `Another service account already has the name "${name}".`,
    db.sql`
      INSERT INTO service_account (id, name, scopes, call_nano, day_nano, expires_at_ms, created_at_ms)
      VALUES (${id}, ${name}, ${JSON.stringify(scopes)}, CAST(${callNano} AS BIGINT), CAST(${dayNano} AS BIGINT),
        ${expiresAtMs}, ${createdAtMs})
      ON CONFLICT (id) DO UPDATE SET name = excluded.name, scopes = excluded.scopes, call_nano = excluded.call_nano,
        day_nano = excluded.day_nano, expires_at_ms = excluded.expires_at_ms`,
  );
}

/** Deletes the account with its tokens. */
export async function deleteServiceAccount(db: Db, id: string): Promise<void> {
  await db.sql`DELETE FROM service_account WHERE id = ${id}`;
}

/** The start of the day whose top-ups are counted, by the clock of the database: all nodes count on the same day. */
export async function readTopUpDayStart(db: Db, nowMs: number): Promise<number> {
  return startOfDay((await readServerClock(db)) ?? nowMs);
}

/**
 * Adds to the sum of the day and returns it. The row stays locked until the transaction ends, so that two nodes
 * count one after the other.
 */
export async function countTopUp(tx: Db, id: string, dayMs: number, amountNano: Nano): Promise<Nano> {
  const [row] = await tx.sql`
    INSERT INTO service_top_up_day (service_account_id, day_ms, amount_nano)
    VALUES (${id}, ${dayMs}, CAST(${String(amountNano)} AS BIGINT))
    ON CONFLICT (service_account_id, day_ms)
      DO UPDATE SET amount_nano = service_top_up_day.amount_nano + excluded.amount_nano
    RETURNING CAST(amount_nano AS TEXT) AS amount_nano`;
  if (row === undefined) throw new Error("A count returned no row.");
  return nano(row, "amount_nano");
}

/** What each account has topped up on the day. */
export async function readTopUpDay(db: Db, dayMs: number): Promise<ReadonlyMap<string, Nano>> {
  const rows = await db.sql`
    SELECT service_account_id, CAST(amount_nano AS TEXT) AS amount_nano FROM service_top_up_day
    WHERE day_ms = ${dayMs}`;
  return new Map(rows.map((row) => [text(row, "service_account_id"), nano(row, "amount_nano")]));
}

export function toServiceAccount(row: Row): ServiceAccountRecord {
  const stored = new Set(json(row, "scopes", scopesSchema));
  return {
    id: text(row, "id"),
    name: text(row, "name"),
    // A later version may have stored a scope that this one does not know: it grants nothing here.
    scopes: SERVICE_SCOPES.filter((scope) => stored.has(scope)),
    bounds:
      row.call_nano === null ? null : { callNano: nano(row, "call_nano"), dayNano: nano(row, "day_nano") },
    expiresAtMs: integerOrNull(row, "expires_at_ms"),
    createdAtMs: integer(row, "created_at_ms"),
  };
}
