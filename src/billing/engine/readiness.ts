/**
 * Whether what is asked now could be recorded: the store takes a row, and the disk of the journal another file. Looked
 * at when somebody asks, and not again for a while, so that asking often costs nothing.
 */

import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { inTime } from "./store-faults.ts";

export interface ReadinessOptions {
  /** Writes a row to the store. */
  sayAlive(): Promise<void>;
  /** False while it is known already that nothing new is promised. */
  isWell(): boolean;
  spoolDir: string;
  /** What the journal needs at a time. */
  segmentBytes: number;
  monotonicMs(): number;
  limits: ReadinessLimits;
}

export interface ReadinessLimits {
  /** A store that has not answered by then is away. */
  patienceMs: number;
  /** How long an answer holds. */
  freshMs: number;
}

export function openReadiness(options: ReadinessOptions): () => Promise<boolean> {
  const { sayAlive, isWell, monotonicMs, limits } = options;
  const probe = join(options.spoolDir, "probe");
  let lookedAtMs = Number.NEGATIVE_INFINITY;
  let latest = false;
  let looking: Promise<boolean> | null = null;

  async function look(): Promise<boolean> {
    try {
      await Promise.all([sayAlive(), takesAFile()]);
      return true;
    } catch {
      return false;
    }
  }

  /** Zeros, as a new segment of the journal is. */
  async function takesAFile(): Promise<void> {
    try {
      await writeFile(probe, Buffer.alloc(options.segmentBytes), { mode: 0o600 });
    } finally {
      await rm(probe, { force: true });
    }
  }

  async function lookAgain(): Promise<boolean> {
    looking ??= look().finally(() => {
      looking = null;
    });
    latest = await inTime(looking, limits.patienceMs).catch(() => false);
    lookedAtMs = monotonicMs();
    return latest;
  }

  return async () => {
    const isFresh = monotonicMs() - lookedAtMs < limits.freshMs;
    const isTaking = isFresh ? latest : await lookAgain();
    return isTaking && isWell();
  };
}
