/** One sync of a file serves all who wrote before it began. */
export function sharedSync(sync: () => Promise<void>) {
  let running: Promise<void> | null = null;
  let next: Promise<void> | null = null;

  function start(): Promise<void> {
    next = null;
    running = sync().finally(() => {
      running = null;
    });
    return running;
  }

  return {
    /** Resolves when what was written before this call is on the disk. */
    flush(): Promise<void> {
      if (running === null) return start();
      // The one under way may have begun before the caller wrote.
      next ??= running.catch(() => {}).then(start);
      return next;
    },
    /** Resolves when none is under way. */
    async rest(): Promise<void> {
      await running?.catch(() => {});
    },
  };
}
