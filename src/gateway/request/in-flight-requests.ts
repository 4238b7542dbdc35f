/**
 * What has to be over before the books are closed: requests, and what goes on for them when their clients have been
 * answered or have left.
 */

export interface InFlightRequests {
  /** Something that ends by itself, and then calls `end`. Only counted: every request does this. */
  begin(): void;
  end(): void;
  /** `cut` is called when the process ends, and makes it end soon. What is returned says that it has. */
  enter(cut: () => void): () => void;
  /** Cuts what can be cut. Resolves with the number left when all is over, or when the time is up. */
  close(timeoutMs: number): Promise<number>;
}

export function openInFlightRequests(): InFlightRequests {
  const entries = new Set<{ cut: () => void }>();
  let begun = 0;
  let isClosing = false;
  let onEmpty: (() => void) | null = null;

  const left = () => begun + entries.size;

  function lookWhetherEmpty(): void {
    if (onEmpty !== null && left() === 0) onEmpty();
  }

  return {
    begin() {
      begun++;
    },
    end() {
      begun--;
      lookWhetherEmpty();
    },
    enter(cut) {
      const entry = { cut };
      entries.add(entry);
      if (isClosing) queueMicrotask(cut);
      return () => {
        entries.delete(entry);
        lookWhetherEmpty();
      };
    },
    async close(timeoutMs) {
      isClosing = true;
      for (const { cut } of [...entries]) cut();
      if (left() === 0) return 0;
      const empty = Promise.withResolvers<void>();
      onEmpty = empty.resolve;
      const timer = setTimeout(empty.resolve, timeoutMs);
      await empty.promise;
      clearTimeout(timer);
      return left();
    },
  };
}
