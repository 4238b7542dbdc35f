/** How the names of meters begin: see `nameMeter` and `nameConcurrency` in meters.ts. */

import type { LimitKind } from "../limiter-types.ts";

export const CONCURRENCY_METER = "concurrency" satisfies LimitKind;
const WINDOW_METER = "window" satisfies LimitKind;

/** Whether a use counts for longer than a minute. */
export function isLongWindow(meter: string): boolean {
  return meter.startsWith(`${WINDOW_METER} `);
}
