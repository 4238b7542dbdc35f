/**
 * Leases of jobs that only one node may run at a time. The holder renews its lease; when it ends or dies, another node
 * takes over with a higher fencing number.
 */

import type { Clock } from "../../base/clock.ts";
import { type Db, placeholder } from "../engine/db.ts";
import { lockClause, readServerClock } from "../engine/dialect.ts";
import { integer, text } from "../engine/row.ts";

/** Another node runs the job now. */
export class JobLeaseLost extends Error {
  override readonly name = "JobLeaseLost";
}

export interface JobLease {
  readonly name: string;
  readonly fence: number;
  /**
   * Call it in the transaction of a write: it throws `JobLeaseLost` if another node has taken over, and no other node
   * takes over before the transaction ends.
   */
  check(tx: Db): Promise<void>;
}

/** Runs the work unless another node runs the job. */
export type RunJob = (work: (lease: JobLease) => Promise<void>) => Promise<unknown>;

interface JobLeasesOptions {
  readonly db: Db;
  readonly clock: Pick<Clock, "nowMs">;
  /** The id of this process. */
  readonly holder: string;
}

/** A lease covers this many intervals of its job, so that the next run finds the same holder. */
const TERM_INTERVALS = 1.5;
const TERM_MIN_MS = 30_000;
const RENEWALS_PER_TERM = 3;

export class JobLeases {
  readonly #options: JobLeasesOptions;

  constructor(options: JobLeasesOptions) {
    this.#options = options;
  }

  /** `everyMs`: how often each node starts the job. */
  forJob(name: string, everyMs: number): RunJob {
    return (work) => this.run({ name, everyMs }, work);
  }

  /** Runs the work if this node holds or gets the lease of the job. Returns whether it ran. */
  async run(
    { name, everyMs }: { name: string; everyMs: number },
    work: (lease: JobLease) => Promise<void>,
  ): Promise<boolean> {
    const termMs = Math.max(TERM_MIN_MS, Math.round(everyMs * TERM_INTERVALS));
    const fence = await this.#acquire(name, termMs);
    if (fence === null) return false;
    // A failed renewal needs no action: the fence protects the writes.
    const renewal = setInterval(() => {
      this.#acquire(name, termMs).catch(() => {});
    }, termMs / RENEWALS_PER_TERM);
    renewal.unref();
    try {
      await work({ name, fence, check: (tx) => checkFence(tx, name, fence) });
    } finally {
      clearInterval(renewal);
    }
    return true;
  }

  /** Lets other nodes take over all jobs of this process at once. */
  async release(): Promise<void> {
    const { db, holder } = this.#options;
    await db.sql`UPDATE job_lease SET until_ms = 0 WHERE holder = ${holder}`;
  }

  /** Returns the fencing number; null if another living process holds the lease. */
  async #acquire(name: string, termMs: number): Promise<number | null> {
    const { db, clock, holder } = this.#options;
    const nowMs = (await readServerClock(db)) ?? clock.nowMs();
    const [row] = await db.sql`
      INSERT INTO job_lease (name, holder, fence, until_ms) VALUES (${name}, ${holder}, 1, ${nowMs + termMs})
      ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until_ms = excluded.until_ms,
        fence = CASE WHEN job_lease.holder = excluded.holder THEN job_lease.fence ELSE job_lease.fence + 1 END
      WHERE job_lease.holder = excluded.holder OR job_lease.until_ms <= ${nowMs}
        OR NOT EXISTS (SELECT 1 FROM process WHERE id = job_lease.holder)
      RETURNING fence`;
    return row === undefined ? null : integer(row, "fence");
  }
}

async function checkFence(tx: Db, name: string, fence: number): Promise<void> {
  const [row] = await tx.sql.text(
    `SELECT fence FROM job_lease WHERE name = ${placeholder(tx.engine, 1)} ${lockClause(tx, "name")}`,
    [name],
  );
  if (row === undefined || integer(row, "fence") !== fence)
    throw new JobLeaseLost(`Another node runs the job ${name} now.`);
}

/** The jobs whose lease has not expired. */
export async function listJobs(db: Db, nowMs: number): Promise<{ name: string; holder: string }[]> {
  const rows = await db.sql`SELECT name, holder FROM job_lease WHERE until_ms > ${nowMs} ORDER BY name`;
  return rows.map((row) => ({ name: text(row, "name"), holder: text(row, "holder") }));
}
