/** Shares file syncs: one sync serves all writers that wrote before it began. */
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
    /** Resolves when everything written before this call is on disk. */
    flush(): Promise<void> {
      if (running === null) return start();
      // The running sync may have begun before the caller's write.
      next ??= running.catch(() => {}).then(start);
      return next;
    },
    /** Resolves when no sync is running. */
    async rest(): Promise<void> {
      await running?.catch(() => {});
    },
  };
}
