/** Why a job was not completed by a thread. */
export type JobLimit = "time" | "memory" | "waiting" | "closed";

const REASONS: Readonly<Record<JobLimit, string>> = {
  time: "The job used too much CPU time.",
  memory: "The job used too much memory.",
  waiting: "Too many jobs wait for a thread.",
  closed: "The threads are closed.",
};

export class JobLimitError extends Error {
  override readonly name = "JobLimitError";
  readonly limit: JobLimit;

  constructor(limit: JobLimit) {
    super(REASONS[limit]);
    this.limit = limit;
  }

  /** The job itself exceeded nothing: it may be sent again. */
  get isOverload(): boolean {
    return this.limit === "waiting" || this.limit === "closed";
  }
}
