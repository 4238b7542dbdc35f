/**
 * Checkpoints SQLite's WAL in a worker thread. Without it, a commit that finds the WAL too long runs the checkpoint
 * itself and waits for the disk. The worker checkpoints earlier, while reads and writes continue.
 */

interface WalCheckpointer {
  /** Starts a checkpoint unless one is running. Resolves when it has ended. */
  checkpoint(): Promise<void>;
  close(): Promise<void>;
}

export type CheckpointCommand = { kind: "move"; databaseUrl: string } | { kind: "close" };

/** The worker starts with the first checkpoint. */
export function openWalCheckpointer(databaseUrl: string): WalCheckpointer {
  let worker: Worker | null = null;
  let checkpoint: Promise<void> | null = null;
  let resolveCommand = () => {};

  /** Failures of the worker are ignored: a later commit checkpoints what this one did not. */
  function start(): Worker {
    const started = new Worker(new URL("./wal-checkpoint-worker.ts", import.meta.url).href);
    started.onmessage = () => resolveCommand();
    started.onerror = () => resolveCommand();
    started.addEventListener("close", () => {
      worker = null;
      resolveCommand();
    });
    return started;
  }

  function send(command: CheckpointCommand): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    resolveCommand = resolve;
    worker ??= start();
    worker.postMessage(command);
    return promise;
  }

  return {
    checkpoint() {
      checkpoint ??= send({ kind: "move", databaseUrl }).then(() => {
        checkpoint = null;
      });
      return checkpoint;
    },
    async close() {
      if (worker === null) return;
      await checkpoint;
      await send({ kind: "close" });
      worker?.terminate();
    },
  };
}
