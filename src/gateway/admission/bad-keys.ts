/**
 * Counts invalid keys by client address. A 256-bit key cannot be guessed; the throttle makes a broken client that
 * retries for ever cheap. Valid keys from the same address are never throttled.
 */

export interface BadKeyThrottle {
  /** Counts one invalid key. Returns the seconds to wait once there were too many, otherwise null. */
  count(address: string): number | null;
}

const WINDOW_MS = 60_000;
const ADDRESSES_MAX = 10_000;

export function openBadKeyThrottle(triesPerMinute: number, monotonicMs: () => number): BadKeyThrottle {
  const windows = new Map<string, { startedMs: number; tries: number }>();
  return {
    count(address) {
      const nowMs = monotonicMs();
      const current = windows.get(address);
      if (!current || nowMs - current.startedMs >= WINDOW_MS) {
        windows.delete(address);
        evictOldest(windows);
        windows.set(address, { startedMs: nowMs, tries: 1 });
        return null;
      }
      current.tries++;
      if (current.tries <= triesPerMinute) return null;
      return Math.max(1, Math.ceil((current.startedMs + WINDOW_MS - nowMs) / 1000));
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
