/**
 * Tracks the requests that must end before the process closes billing, including work that continues after the client
 * has its response or has disconnected.
 */

export interface InFlightRequests {
  /** Counts work that ends by itself and then calls `end`. Every request does this, so it is only a counter. */
  begin(): void;
  end(): void;
  /** `cut` is called at shutdown and makes the work end soon. Call the returned function when the work has ended. */
  register(abort: () => void): () => void;
  /** Calls every `cut`. Resolves with the number still in flight when all have ended, or at the timeout. */
  close(timeoutMs: number): Promise<number>;
}

export function openInFlightRequests(): InFlightRequests {
  const entries = new Set<{ abort: () => void }>();
  let activeCount = 0;
  let isClosing = false;
  let onEmpty: (() => void) | null = null;

  const countInFlight = () => activeCount + entries.size;

  function notifyIfEmpty(): void {
    if (onEmpty !== null && countInFlight() === 0) onEmpty();
  }

  return {
    begin() {
      activeCount++;
    },
    end() {
      activeCount--;
      notifyIfEmpty();
    },
    register(abort) {
      const entry = { abort };
      entries.add(entry);
      if (isClosing) queueMicrotask(abort);
      return () => {
        entries.delete(entry);
        notifyIfEmpty();
      };
    },
    async close(timeoutMs) {
      isClosing = true;
      for (const { abort } of [...entries]) abort();
      if (countInFlight() === 0) return 0;
      const empty = Promise.withResolvers<void>();
      onEmpty = empty.resolve;
      const timer = setTimeout(empty.resolve, timeoutMs);
      await empty.promise;
      clearTimeout(timer);
      return countInFlight();
    },
  };
}
