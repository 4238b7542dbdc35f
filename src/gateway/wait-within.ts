/** Waits for a bounded time, so that an early failure can still become an HTTP status. */

import type { Deadlines } from "../base/deadlines.ts";
import { ApiError } from "../errors.ts";

/** Returns the error if the work failed in time, "open" if it succeeded in time, and "waiting" otherwise. */
export function waitWithin(
  work: Promise<unknown>,
  ms: number,
  deadlines: Deadlines,
): Promise<ApiError | "open" | "waiting"> {
  return new Promise((resolve, reject) => {
    const deadline = deadlines.set(ms, () => resolve("waiting"));
    work.then(
      () => {
        deadlines.cancel(deadline);
        resolve("open");
      },
      (cause: unknown) => {
        deadlines.cancel(deadline);
        if (cause instanceof ApiError) resolve(cause);
        else reject(cause);
      },
    );
  });
}
