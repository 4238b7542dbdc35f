/**
 * Detects that the database was replaced: a standby was promoted, or a backup was restored. Then the last commits may be
 * lost, and whatever a process remembers of them is wrong. PostgreSQL numbers such histories as timelines.
 */

import { SQL } from "bun";
import type { Db } from "./db.ts";
import { isSharedServer } from "./dialect.ts";
import { textOrNull } from "./row.ts";

/** Owns the timeline that the database had when it was last read. */
export class StoreTimeline {
  readonly #db: Db;
  #known: string | null = null;
  #isSupported: boolean;

  constructor(db: Db) {
    this.#db = db;
    this.#isSupported = isSharedServer(db);
  }

  /**
   * Whether the database was replaced since the previous call. Throws if the database does not respond. Always false on
   * a server that does not report its timeline.
   */
  async wasReplaced(): Promise<boolean> {
    if (!this.#isSupported) return false;
    const timeline = await this.#read();
    if (timeline === null) return false;
    const before = this.#known;
    this.#known = timeline;
    return before !== null && before !== timeline;
  }

  /** The first eight digits of the name of a WAL file are the timeline. A standby has no current WAL file. */
  async #read(): Promise<string | null> {
    try {
      const [row] = await this.#db.sql`
        SELECT CASE WHEN pg_is_in_recovery() THEN NULL
          ELSE LEFT(pg_walfile_name(pg_current_wal_lsn()), 8) END AS timeline`;
      return row === undefined ? null : textOrNull(row, "timeline");
    } catch (error) {
      if (!isUnsupported(error)) throw error;
      this.#isSupported = false;
      return null;
    }
  }
}

/** SQLSTATE of a function that is missing, not permitted, or not available on this kind of server. */
const UNSUPPORTED = new Set(["42883", "42501", "0A000"]);

function isUnsupported(error: unknown): boolean {
  return error instanceof SQL.PostgresError && UNSUPPORTED.has(String(error.errno));
}
