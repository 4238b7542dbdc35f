/** What a node holds of a limit beyond or below its share, and what it asks the others for. */

/** How long a node keeps more than its share without demand. */
const SURPLUS_MS = 2_000;

export interface Want {
  need: number;
  untilMs: number;
  hopelessUntilMs: number;
}

export interface Holding {
  /** What this node may use, minus its share. */
  delta: number;
  limit: number;
  wantedMs: number;
}

/** Returns what a node holds beyond its share once no request has needed it for some time. */
export function returnSurplus(
  holding: Holding,
  { used, share, nowMs }: { used: number; share: number; nowMs: number },
): void {
  if (holding.delta <= 0 || nowMs - holding.wantedMs < SURPLUS_MS) return;
  holding.delta = Math.min(holding.delta, Math.max(0, Math.ceil(used * 1.5) - share));
}
