/** Gateway processes that may own holds, with their heartbeats. */

import type { Clock } from "../../base/clock.ts";
import { type Db, transaction } from "../engine/db.ts";
import { readServerClock } from "../engine/dialect.ts";
import { checkSchemaForRegistration } from "../engine/migrate.ts";
import { integer, integerOrNull, text, textOrNull } from "../engine/row.ts";
import { rowReader } from "../engine/row-reader.ts";
import { SCHEMA_KNOWN } from "../migrations/index.ts";
import { SET_ASIDE } from "./set-aside-holds.ts";

const toProcess = rowReader({
  id: text,
  /** Identifies one kernel and one PID namespace. */
  host: text,
  pid: integer,
  startedAtMs: integer,
  beatAtMs: integer,
  /** Id of the data folder that the process has locked; null if it has locked none. */
  folderId: textOrNull,
  /** When the kernel started the process, in ticks since boot; null if the system does not report it. */
  startTicks: integerOrNull,
});
export type ProcessRecord = ReturnType<typeof toProcess>;

/**
 * Call it before the process serves. Until its row is deleted, no migration removes what the process needs. Throws
 * `ProgramTooOld` if a migration has removed it since the start.
 */
export async function registerProcess(db: Db, self: ProcessRecord): Promise<void> {
  await transaction(db, async (tx) => {
    await checkSchemaForRegistration(tx);
    await writeHeartbeat(tx, self);
  });
}

/**
 * Creates the row again if another process has deleted it as dead. The value always increases, even if the clock
 * goes back: other nodes look only for a change.
 */
export async function writeHeartbeat(db: Db, self: ProcessRecord): Promise<void> {
  const { id, host, pid, startedAtMs, beatAtMs, folderId, startTicks } = self;
  await db.sql`
    INSERT INTO process (id, host, pid, started_at_ms, beat_at_ms, folder_id, start_ticks, schema_known)
    VALUES (${id}, ${host}, ${pid}, ${startedAtMs}, ${beatAtMs}, ${folderId}, ${startTicks}, ${SCHEMA_KNOWN})
    ON CONFLICT (id) DO UPDATE SET beat_at_ms = CASE WHEN excluded.beat_at_ms > process.beat_at_ms
      THEN excluded.beat_at_ms ELSE process.beat_at_ms + 1 END`;
}

/** The database's clock, which all nodes share: their own clocks may differ by more than the heartbeat timeout. */
export async function storeNowMs(db: Db, clock: Pick<Clock, "nowMs">): Promise<number> {
  return (await readServerClock(db)) ?? clock.nowMs();
}

export async function listProcesses(db: Db): Promise<ProcessRecord[]> {
  const rows = await db.sql`
    SELECT id, host, pid, started_at_ms, beat_at_ms, folder_id, start_ticks FROM process ORDER BY id`;
  return rows.map(toProcess);
}

/** Owners of holds and wallet reservations without a process row: they were deleted as dead and then wrote again. */
export async function findUnknownOwners(db: Db): Promise<string[]> {
  const rows = await db.sql`
    SELECT process_id FROM (
      SELECT process_id FROM hold UNION SELECT process_id FROM wallet_reservation
      UNION SELECT process_id FROM reservation_fence
    ) owner
    WHERE process_id NOT IN (SELECT id FROM process) AND process_id <> ${SET_ASIDE} ORDER BY process_id`;
  return rows.map((row) => text(row, "process_id"));
}

/** Deletes the process once it has no holds and no wallet reservations. */
export async function deleteProcess(db: Db, id: string, beatAtMs: number): Promise<void> {
  await db.sql`
    DELETE FROM process WHERE id = ${id} AND beat_at_ms = ${beatAtMs}
      AND NOT EXISTS (SELECT 1 FROM hold WHERE hold.process_id = process.id)
      AND NOT EXISTS (SELECT 1 FROM wallet_reservation WHERE wallet_reservation.process_id = process.id)`;
}
