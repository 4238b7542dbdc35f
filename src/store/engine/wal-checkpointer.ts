/**
 * Whoever commits to SQLite moves its log into its file when it has grown long, and waits for the disk. This moves it
 * earlier, in a thread of its own: others read and write meanwhile.
 */

export interface WalCheckpointer {
  /** Soon, unless it is being moved at this moment. */
  move(): void;
  close(): Promise<void>;
}

export type CheckpointCommand = { kind: "move"; databaseUrl: string } | { kind: "close" };

/** The thread starts when it is needed. */
export function openWalCheckpointer(databaseUrl: string): WalCheckpointer {
  let worker: Worker | null = null;
  let moving: Promise<void> | null = null;
  let answered = () => {};

  /** However it ends: what is not moved now is moved by whoever commits later. */
  function start(): Worker {
    const started = new Worker(new URL("./wal-checkpoint-worker.ts", import.meta.url).href);
    started.onmessage = () => answered();
    started.onerror = () => answered();
    started.addEventListener("close", () => {
      worker = null;
      answered();
    });
    return started;
  }

  function order(wanted: CheckpointCommand): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    answered = resolve;
    worker ??= start();
    worker.postMessage(wanted);
    return promise;
  }

  return {
    move() {
      moving ??= order({ kind: "move", databaseUrl }).then(() => {
        moving = null;
      });
    },
    async close() {
      if (worker === null) return;
      await moving;
      await order({ kind: "close" });
      worker?.terminate();
    },
  };
}
