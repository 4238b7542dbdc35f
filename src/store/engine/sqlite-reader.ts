/**
 * Reads a SQLite file in a worker thread, by a connection of its own that cannot write. SQLite runs on the thread that
 * calls it, so a statement that reads many rows would otherwise hold the event loop. Each statement reads what was
 * committed when it began, and waits for no writer.
 */

import {
  createSql,
  type Db,
  openQueue,
  type Row,
  type SqlValue,
  type StoreConnection,
  withinTransaction,
} from "./transaction.ts";

export type ReaderCommand =
  | {
      readonly kind: "run";
      readonly path: string;
      readonly text: string;
      readonly values: readonly SqlValue[];
    }
  | { readonly kind: "close" };

export type ReaderReply =
  | { readonly ok: true; readonly rows: Row[] }
  | { readonly ok: false; readonly message: string; readonly code: string | null };

interface ReaderLimits {
  /** Statements and snapshots that wait for the thread. */
  readonly waitingMax: number;
  readonly statementMs: number;
  /** A thread that was not used for so long is ended, which frees its memory. */
  readonly idleMs: number;
  /** How long the thread may take to close its connection. */
  readonly closeMs: number;
}

export const READER_LIMITS: ReaderLimits = {
  waitingMax: 100,
  statementMs: 30_000,
  idleMs: 60_000,
  closeMs: 1_000,
};

/** The read was not completed: too many others wait, or it takes too long. */
export class ReadRejected extends Error {
  override readonly name = "ReadRejected";
}

export function openSqliteReader(path: string, limits = READER_LIMITS): Db {
  const thread = new ReaderThread(path, limits);
  const queue = openQueue();
  let waiting = 0;
  async function inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (waiting >= limits.waitingMax) throw new ReadRejected("Too many reads wait for the database.");
    waiting += 1;
    try {
      return await queue.inTurn(work);
    } finally {
      waiting -= 1;
    }
  }
  const connection: StoreConnection = {
    engine: "sqlite",
    run: (text, values) => thread.run(text, values),
    async each(text, rows) {
      for (const values of rows) await thread.run(text, values);
    },
    async script(text) {
      await thread.run(text, []);
    },
    isAwaited: queue.isAwaited,
  };
  const reader: Db = {
    engine: "sqlite",
    sql: createSql({
      engine: "sqlite",
      run: (text, values) => inTurn(() => connection.run(text, values)),
      each: (text, rows) => inTurn(() => connection.each(text, rows)),
      script: (text) => inTurn(() => connection.script(text)),
    }),
    begin: (_mode, work) => inTurn(() => readSnapshot(connection, work)),
    get reports() {
      return reader;
    },
    isAwaited: queue.isAwaited,
    flush: async () => {},
    close: () => thread.close(),
  };
  return reader;
}

async function readSnapshot<T>(connection: StoreConnection, work: (tx: Db) => Promise<T>): Promise<T> {
  await connection.script("BEGIN");
  try {
    const result = await withinTransaction(connection, work);
    await connection.script("COMMIT");
    return result;
  } catch (error) {
    // A new thread has no transaction. Report the first error.
    await connection.script("ROLLBACK").catch(() => {});
    throw error;
  }
}

/** Starts with the first statement. A statement that takes too long loses its thread, which ends after it. */
class ReaderThread {
  readonly #path: string;
  readonly #limits: ReaderLimits;
  #worker: Worker | null = null;
  #receive: ((reply: ReaderReply) => void) | null = null;
  #idleTimer: ReturnType<typeof setTimeout> | undefined;
  #isClosed = false;

  constructor(path: string, limits: ReaderLimits) {
    this.#path = path;
    this.#limits = limits;
  }

  async run(text: string, values: readonly SqlValue[]): Promise<Row[]> {
    if (this.#isClosed) throw new ReadRejected("The database is closed.");
    clearTimeout(this.#idleTimer);
    const command = { kind: "run", path: this.#path, text, values } as const;
    const reply = await this.#send(command, this.#limits.statementMs);
    if (reply === null) {
      this.#stop();
      throw new ReadRejected("A read of the database took too long.");
    }
    this.#idleTimer = setTimeout(() => void this.#end(), this.#limits.idleMs);
    this.#idleTimer.unref();
    if (reply.ok) return reply.rows;
    throw Object.assign(new Error(reply.message), { code: reply.code });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#end();
  }

  /** The connection is closed first: the last connection to a file removes its write-ahead log. */
  async #end(): Promise<void> {
    clearTimeout(this.#idleTimer);
    if (this.#worker === null) return;
    if (this.#receive === null) await this.#send({ kind: "close" }, this.#limits.closeMs);
    this.#stop();
  }

  /** Null if there is no reply in time. The timer keeps the process alive meanwhile. */
  async #send(command: ReaderCommand, limitMs: number): Promise<ReaderReply | null> {
    const { promise, resolve } = Promise.withResolvers<ReaderReply | null>();
    const timer = setTimeout(() => resolve(null), limitMs);
    this.#receive = resolve;
    this.#worker ??= this.#start();
    this.#worker.postMessage(command);
    const reply = await promise;
    this.#receive = null;
    clearTimeout(timer);
    return reply;
  }

  #start(): Worker {
    const worker = new Worker(new URL("./sqlite-reader-worker.ts", import.meta.url).href);
    worker.unref();
    worker.onmessage = ({ data }: MessageEvent<ReaderReply>) => this.#receive?.(data);
    worker.onerror = ({ message }) => {
      this.#receive?.({
        ok: false,
        message: `The thread that reads the database failed: ${message}`,
        code: null,
      });
      this.#stop();
    };
    return worker;
  }

  #stop(): void {
    if (this.#worker === null) return;
    this.#worker.onmessage = null;
    this.#worker.onerror = null;
    this.#worker.terminate();
    this.#worker = null;
    this.#receive?.({ ok: false, message: "The database was closed.", code: null });
  }
}
