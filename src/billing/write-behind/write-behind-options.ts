/** What write-behind billing needs, and its limits. */

import type { Db } from "../../store/engine/db.ts";
import type { DirectBillingOptions } from "../engine/direct-billing.ts";
import type { Journal } from "../journal/journal.ts";
import type { ReservationLimits } from "./reservation-limits.ts";
import type { UpkeepLimits } from "./upkeep.ts";

export interface WriteBehindLimits extends ReservationLimits, UpkeepLimits {
  /** Number of holds within 100 ms from which write-behind billing is used. */
  busyHolds: number;
  /** Maximum number of rows in one batch. A batch is booked and charged together. */
  batchRows: number;
}

export interface WriteBehindOptions extends DirectBillingOptions {
  journal: Journal;
  bookingDb: Db;
  /** Checkpoints the WAL of the database. */
  checkpointWal(): void;
  writeBehind: WriteBehindLimits;
}
