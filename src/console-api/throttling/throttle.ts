/** Limits the attempts of one subject in a window of time. Successful attempts are returned. */

import { wholeSeconds } from "../../base/time.ts";
import type { SharedCounts } from "../../nodes/throttle-sharing.ts";

export interface Throttle {
  /** Takes one attempt. Returns null, or the seconds until the next one is available; then nothing was taken. */
  take(subject: string): number | null;
  release(subject: string): void;
}

interface ThrottleOptions {
  tries: number;
  windowMs: number;
  monotonicMs(): number;
  /** The same throttle on other nodes; omitted if there are none. */
  shared?: SharedCounts | undefined;
}

/** Above this number, the subject with the oldest window is dropped. */
const SUBJECTS_MAX = 100_000;

export function openThrottle({ tries, windowMs, monotonicMs, shared }: ThrottleOptions): Throttle {
  // Insertion order is age, because an expired window is inserted again.
  const windows = new Map<string, { startedMs: number; taken: number }>();
  return {
    take(subject) {
      const nowMs = monotonicMs();
      const others = shared?.countOthers(subject) ?? 0;
      const found = windows.get(subject);
      if (found === undefined || nowMs - found.startedMs >= windowMs) {
        if (others >= tries) return wholeSeconds(shared?.othersEndInMs(subject) ?? windowMs);
        windows.delete(subject);
        const oldest = windows.size < SUBJECTS_MAX ? undefined : windows.keys().next().value;
        if (oldest !== undefined) windows.delete(oldest);
        windows.set(subject, { startedMs: nowMs, taken: 1 });
        shared?.report(subject, 1, windowMs);
        return null;
      }
      const endsInMs = found.startedMs + windowMs - nowMs;
      if (found.taken + others >= tries) return wholeSeconds(endsInMs);
      found.taken += 1;
      shared?.report(subject, found.taken, endsInMs);
      return null;
    },
    release(subject) {
      const found = windows.get(subject);
      if (found === undefined || found.taken === 0) return;
      found.taken -= 1;
      shared?.report(subject, found.taken, found.startedMs + windowMs - monotonicMs());
    },
  };
}

/** One household has 2^64 IPv6 addresses, so they count as one. */
export function addressBlock(address: string): string {
  if (!address.includes(":") || address.startsWith("::ffff:")) return address;
  const [head = "", tail] = address.split("::");
  const first = head === "" ? [] : head.split(":");
  const last = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - first.length - last.length);
  return `${[...first, ...Array<string>(zeros).fill("0"), ...last].slice(0, 4).join(":")}::/64`;
}
