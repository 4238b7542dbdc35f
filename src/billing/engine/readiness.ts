/**
 * Checks whether a new request could be recorded: the database accepts a row, and the disk has room for a journal
 * segment. The result is cached, so frequent checks cost nothing.
 */

import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { withTimeout } from "./store-faults.ts";

export interface ReadinessOptions {
  /** Writes a row to the database. */
  sendHeartbeat(): Promise<void>;
  /** False if billing already rejects new holds. */
  acceptsHolds(): boolean;
  spoolDir: string;
  /** Size of a journal segment. */
  segmentBytes: number;
  monotonicMs(): number;
  limits: ReadinessLimits;
}

export interface ReadinessLimits {
  /** A database that has not responded within this time counts as unavailable. */
  timeoutMs: number;
  /** How long a result is reused. */
  cacheMs: number;
}

export function openReadiness(options: ReadinessOptions): () => Promise<boolean> {
  const { sendHeartbeat, acceptsHolds, monotonicMs, limits } = options;
  const probePath = join(options.spoolDir, "probe");
  let checkedAtMs = Number.NEGATIVE_INFINITY;
  let latest = false;
  let inFlight: Promise<boolean> | null = null;

  async function check(): Promise<boolean> {
    try {
      await Promise.all([sendHeartbeat(), writeProbeFile()]);
      return true;
    } catch {
      return false;
    }
  }

  /** Writes zeros, as the journal does for a new segment. */
  async function writeProbeFile(): Promise<void> {
    try {
      await writeFile(probePath, Buffer.alloc(options.segmentBytes), { mode: 0o600 });
    } finally {
      await rm(probePath, { force: true });
    }
  }

  async function checkNow(): Promise<boolean> {
    inFlight ??= check().finally(() => {
      inFlight = null;
    });
    latest = await withTimeout(inFlight, limits.timeoutMs).catch(() => false);
    checkedAtMs = monotonicMs();
    return latest;
  }

  return async () => {
    const isFresh = monotonicMs() - checkedAtMs < limits.cacheMs;
    const isWritable = isFresh ? latest : await checkNow();
    return isWritable && acceptsHolds();
  };
}
