/**
 * Counts invalid keys by client address. A 256-bit key cannot be guessed; the throttle makes a broken client that
 * retries for ever cheap. Valid keys from the same address are never throttled.
 */

import { wholeSeconds } from "../../base/time.ts";
import type { SharedCounts } from "../../nodes/throttle-sharing.ts";

export interface BadKeyThrottle {
  /** Counts one invalid key. Returns the seconds to wait once there were too many, otherwise null. */
  count(address: string): number | null;
}

const WINDOW_MS = 60_000;
const ADDRESSES_MAX = 10_000;

interface BadKeyThrottleOptions {
  readonly triesPerMinute: number;
  monotonicMs(): number;
  /** The same throttle on other nodes; omitted if there are none. */
  readonly shared?: SharedCounts | undefined;
}

export function openBadKeyThrottle({
  triesPerMinute,
  monotonicMs,
  shared,
}: BadKeyThrottleOptions): BadKeyThrottle {
  const windows = new Map<string, { startedMs: number; tries: number }>();
  return {
    count(address) {
      const nowMs = monotonicMs();
      const current = windows.get(address);
      if (!current || nowMs - current.startedMs >= WINDOW_MS) {
        windows.delete(address);
        evictOldest(windows);
        windows.set(address, { startedMs: nowMs, tries: 1 });
        if ((shared?.countOthers(address) ?? 0) < triesPerMinute) return null;
        return wholeSeconds(shared?.othersEndInMs(address) ?? WINDOW_MS);
      }
      current.tries++;
      const endsInMs = current.startedMs + WINDOW_MS - nowMs;
      // Above the limit, further attempts change nothing on the other nodes.
      if (current.tries <= triesPerMinute) shared?.report(address, current.tries, endsInMs);
      if (current.tries + (shared?.countOthers(address) ?? 0) <= triesPerMinute) return null;
      return wholeSeconds(endsInMs);
    },
  };
}

/** Insertion order is age, because an expired window is inserted again. */
function evictOldest(windows: Map<string, unknown>): void {
  if (windows.size < ADDRESSES_MAX) return;
  for (const address of windows.keys()) {
    windows.delete(address);
    return;
  }
}
