/** What write-behind billing needs, and its limits. */

import type { Db } from "../../store/engine/db.ts";
import type { DirectBillingOptions } from "../engine/direct-billing.ts";
import type { Journal } from "../journal/journal.ts";
import type { ReservationLimits } from "./reservation-limits.ts";
import type { RecallLimits } from "./reservation-recall.ts";
import type { UpkeepLimits } from "./upkeep.ts";

export interface WriteBehindLimits extends ReservationLimits, UpkeepLimits, RecallLimits {
  /** Number of holds within 100 ms from which write-behind billing is used. */
  busyHolds: number;
  /** Maximum number of rows in one batch. A batch is booked and charged together. */
  batchRows: number;
  /** While the last heartbeat is older, reservations are not used. Below the time after which a process is dead. */
  heartbeatAgeMaxMs: number;
}

export interface WriteBehindOptions extends DirectBillingOptions {
  journal: Journal;
  bookingDb: Db;
  checkpointWal(): void;
  writeBehind: WriteBehindLimits;
}
