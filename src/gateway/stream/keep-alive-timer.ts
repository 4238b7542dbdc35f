/** One timer for all streams instead of several for each. */

export interface KeepAliveTimer {
  /** Calls `tick` at every interval until the returned function is called. */
  add(tick: (nowMs: number) => void): () => void;
}

export function openKeepAliveTimer(
  everyMs: number,
  monotonicMs: () => number,
): KeepAliveTimer & { stop(): void } {
  const ticks = new Set<(nowMs: number) => void>();
  const timer = setInterval(() => {
    const nowMs = monotonicMs();
    for (const tick of ticks) tick(nowMs);
  }, everyMs);
  timer.unref();
  return {
    add(tick) {
      ticks.add(tick);
      return () => ticks.delete(tick);
    },
    stop: () => clearInterval(timer),
  };
}
