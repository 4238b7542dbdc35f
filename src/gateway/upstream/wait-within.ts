/** Waits for a bounded time, so that an early failure can still become an HTTP status. */

import { ApiError } from "../../errors.ts";
import type { Deadlines } from "../../net/wire/deadlines.ts";

/** Returns the error if the work failed in time, "open" if it succeeded in time, and "waiting" otherwise. */
export function waitWithin(
  work: Promise<unknown>,
  ms: number,
  alarms: Deadlines,
): Promise<ApiError | "open" | "waiting"> {
  return new Promise((resolve, reject) => {
    const deadline = alarms.set(ms, () => resolve("waiting"));
    work.then(
      () => {
        alarms.cancel(deadline);
        resolve("open");
      },
      (cause: unknown) => {
        alarms.cancel(deadline);
        if (cause instanceof ApiError) resolve(cause);
        else reject(cause);
      },
    );
  });
}
