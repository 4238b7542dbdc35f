/**
 * Wrong keys, counted by address. A 256-bit key cannot be guessed; this keeps a broken client that retries
 * for ever from costing anything. Right keys from the same address are never held up.
 */

export interface BadKeyThrottle {
  /** Counts one more; gives the seconds to wait once there were too many, else null. */
  count(address: string): number | null;
}

const WINDOW_MS = 60_000;
const ADDRESSES_MAX = 10_000;

export function openBadKeyThrottle(triesPerMinute: number, monotonicMs: () => number): BadKeyThrottle {
  const windows = new Map<string, { startedMs: number; tries: number }>();
  return {
    count(address) {
      const nowMs = monotonicMs();
      const found = windows.get(address);
      if (!found || nowMs - found.startedMs >= WINDOW_MS) {
        windows.delete(address);
        forgetOldest(windows);
        windows.set(address, { startedMs: nowMs, tries: 1 });
        return null;
      }
      found.tries++;
      if (found.tries <= triesPerMinute) return null;
      return Math.max(1, Math.ceil((found.startedMs + WINDOW_MS - nowMs) / 1000));
    },
  };
}

/** Insertion order is age, since an expired window is inserted anew. */
function forgetOldest(windows: Map<string, unknown>): void {
  if (windows.size < ADDRESSES_MAX) return;
  for (const address of windows.keys()) {
    windows.delete(address);
    return;
  }
}
