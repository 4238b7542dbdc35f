/** Sign-ins of tools that are pending, approved or denied (RFC 8628). Codes are stored as digests. */

import { type Db, transaction } from "../engine/db.ts";
import { integer, text, textOrNull } from "../engine/row.ts";
import { choice, rowReader } from "../engine/row-reader.ts";

const STATES = ["pending", "approved", "denied", "used"] as const;

const toRequest = rowReader({
  deviceDigest: text,
  userCodeDigest: text,
  /** The network address of the tool. */
  address: text,
  /** The block of addresses that counts as one caller. */
  addressBlock: text,
  state: choice(STATES),
  createdAtMs: integer,
  expiresAtMs: integer,
  /** The earliest time of the next poll, and the pause after it. */
  pollFromMs: integer,
  intervalMs: integer,
  /** Who decided; null while the request is pending. */
  userId: textOrNull,
});
export type DeviceRequest = ReturnType<typeof toRequest>;

type NewDeviceRequest = Omit<DeviceRequest, "state" | "userId">;

/** What a person approved. */
const toApproval = rowReader({
  userId: text,
  groupId: text,
  /** The name of the tool. */
  name: text,
});
export type DeviceApproval = ReturnType<typeof toApproval>;

interface PendingMax {
  readonly inTotal: number;
  readonly perBlock: number;
}

/** Deletes expired requests. Returns which bound is reached, or null if the request is stored. */
export async function insertDeviceRequest(
  db: Db,
  request: NewDeviceRequest,
  max: PendingMax,
): Promise<keyof PendingMax | null> {
  return transaction(db, async (tx) => {
    await tx.sql`DELETE FROM device_request WHERE expires_at_ms <= ${request.createdAtMs}`;
    const [all] = await tx.sql`SELECT COUNT(*) AS many FROM device_request`;
    if (all !== undefined && integer(all, "many") >= max.inTotal) return "inTotal";
    const [near] = await tx.sql`
      SELECT COUNT(*) AS many FROM device_request
      WHERE address_block = ${request.addressBlock} AND state = 'pending'`;
    if (near !== undefined && integer(near, "many") >= max.perBlock) return "perBlock";
    await tx.sql`
      INSERT INTO device_request (device_digest, user_code_digest, address, address_block, state, created_at_ms,
        expires_at_ms, poll_from_ms, interval_ms)
      VALUES (${request.deviceDigest}, ${request.userCodeDigest}, ${request.address}, ${request.addressBlock},
        'pending', ${request.createdAtMs}, ${request.expiresAtMs}, ${request.pollFromMs}, ${request.intervalMs})`;
    return null;
  });
}

export async function findByDeviceCode(db: Db, deviceDigest: string): Promise<DeviceRequest | null> {
  const [row] = await db.sql`
    SELECT device_digest, user_code_digest, address, address_block, state, created_at_ms, expires_at_ms,
      poll_from_ms, interval_ms, user_id
    FROM device_request WHERE device_digest = ${deviceDigest}`;
  return row === undefined ? null : toRequest(row);
}

/** Only a pending request that has not expired. */
export async function findPendingByUserCode(
  db: Db,
  userCodeDigest: string,
  nowMs: number,
): Promise<DeviceRequest | null> {
  const [row] = await db.sql`
    SELECT device_digest, user_code_digest, address, address_block, state, created_at_ms, expires_at_ms,
      poll_from_ms, interval_ms, user_id
    FROM device_request
    WHERE user_code_digest = ${userCodeDigest} AND state = 'pending' AND expires_at_ms > ${nowMs}`;
  return row === undefined ? null : toRequest(row);
}

/** Records a poll. Returns false if it was too early: then the pauses become longer by `slowerMs`. */
export async function recordPoll(
  db: Db,
  deviceDigest: string,
  { nowMs, slowerMs }: { nowMs: number; slowerMs: number },
): Promise<boolean> {
  const inTime = await db.sql`
    UPDATE device_request SET poll_from_ms = ${nowMs} + interval_ms
    WHERE device_digest = ${deviceDigest} AND poll_from_ms <= ${nowMs} RETURNING device_digest`;
  if (inTime.length > 0) return true;
  await db.sql`
    UPDATE device_request SET interval_ms = interval_ms + ${slowerMs},
      poll_from_ms = ${nowMs} + interval_ms + ${slowerMs}
    WHERE device_digest = ${deviceDigest}`;
  return false;
}

/** Returns false if the request was decided before, or has expired. */
export async function approveRequest(
  db: Db,
  userCodeDigest: string,
  { userId, groupId, name }: DeviceApproval,
  nowMs: number,
): Promise<boolean> {
  const approved = await db.sql`
    UPDATE device_request SET state = 'approved', user_id = ${userId}, group_id = ${groupId}, name = ${name}
    WHERE user_code_digest = ${userCodeDigest} AND state = 'pending' AND expires_at_ms > ${nowMs}
    RETURNING device_digest`;
  return approved.length > 0;
}

export async function denyRequest(
  db: Db,
  userCodeDigest: string,
  { userId, nowMs }: { userId: string; nowMs: number },
): Promise<boolean> {
  const denied = await db.sql`
    UPDATE device_request SET state = 'denied', user_id = ${userId}
    WHERE user_code_digest = ${userCodeDigest} AND state = 'pending' AND expires_at_ms > ${nowMs}
    RETURNING device_digest`;
  return denied.length > 0;
}

/** Takes an approved request. Only one of several polls, on any node, gets it. */
export async function takeApproved(
  tx: Db,
  deviceDigest: string,
  nowMs: number,
): Promise<(DeviceApproval & { address: string }) | null> {
  const [row] = await tx.sql`
    UPDATE device_request SET state = 'used'
    WHERE device_digest = ${deviceDigest} AND state = 'approved' AND expires_at_ms > ${nowMs}
    RETURNING user_id, group_id, name, address`;
  return row === undefined ? null : { ...toApproval(row), address: text(row, "address") };
}

/** For a person whose access ends: approved requests must not become keys afterwards. */
export async function deleteDeviceRequests(tx: Db, userId: string): Promise<void> {
  await tx.sql`DELETE FROM device_request WHERE user_id = ${userId}`;
}
