/** Why a job was not completed by a thread. */

import { ApiError } from "../errors.ts";

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

export interface JobLimitTexts {
  readonly tooLarge: string;
  readonly overloaded: string;
}

/** The error for the client whose job exceeded a limit. Any other error is returned unchanged. */
export function jobError(error: unknown, texts: JobLimitTexts): unknown {
  if (!(error instanceof JobLimitError)) return error;
  if (!error.isOverload) return new ApiError("request_too_large", texts.tooLarge);
  return new ApiError("server_is_overloaded", texts.overloaded, { headers: { "retry-after": "1" } });
}
