/** The services that the parts of billing share. */

import type { Clock } from "../../base/clock.ts";
import type { Log } from "../../observe/log.ts";
import type { Db } from "../../store/engine/db.ts";
import type { RecentBookings } from "./recent-bookings.ts";

export interface EngineServices {
  db: Db;
  log: Log;
  clock: Clock;
  /** Of this process. */
  processId: string;
  /** Set where the database can fail over to one that lacks the last commits. */
  recentBookings?: RecentBookings;
}
