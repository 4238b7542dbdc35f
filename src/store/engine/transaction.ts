/**
 * Database handles: the pool itself, or one transaction of it. Statements of a transaction run in the order of their
 * calls. A call after the end of the transaction is rejected: on SQLite, where all callers share one connection, it
 * would otherwise run in another caller's transaction.
 */

export type Engine = "sqlite" | "postgres";
/** Whether a store is opened to change it, or only to read it. */
export type StoreAccess = "read" | "write";
export type SqlValue = string | number | null;
export type Row = Readonly<Record<string, SqlValue>>;
/** `write` takes the write lock at once on SQLite; `read` is a snapshot on both engines. */
export type Mode = "write" | "read";

export interface Sql {
  (strings: TemplateStringsArray, ...values: SqlValue[]): Promise<Row[]>;
  /** For statements whose length is known only at run time. Put placeholders in the text, never values. */
  text(text: string, values: readonly SqlValue[]): Promise<Row[]>;
  /** Runs a statement without a result once for each row of values. */
  each(text: string, rows: readonly (readonly SqlValue[])[]): Promise<void>;
  /** Runs several statements without parameters. */
  script(text: string): Promise<void>;
}

export interface Db {
  readonly engine: Engine;
  readonly sql: Sql;
  /** Call `transaction` and `snapshot` instead. A transaction within another is a savepoint. */
  begin<T>(mode: Mode, work: (tx: Db) => Promise<T>): Promise<T>;
  /**
   * The same data, for reads whose work grows with the number of stored rows: lists, searches, sums. On SQLite they run
   * in a worker thread, and a read that is too much is rejected with `ReadRejected`. Within a transaction this is the
   * transaction itself.
   */
  readonly reports: Db;
  /** Whether other work of this process waits for the current write transaction to end. */
  isAwaited(): boolean;
  /**
   * When this resolves, everything committed so far survives a power failure. SQLite's commits do not wait for the
   * disk. On PostgreSQL the server decides, and this does nothing.
   */
  flush(): Promise<void>;
  close(): Promise<void>;
}

type Run = (text: string, values: readonly SqlValue[]) => Promise<Row[]>;

/** What an engine provides: the pool, or the one connection that a transaction runs on. */
export interface StoreConnection {
  readonly engine: Engine;
  readonly run: Run;
  each(text: string, rows: readonly (readonly SqlValue[])[]): Promise<void>;
  script(text: string): Promise<void>;
  isAwaited(): boolean;
}
export type InTurn = <T>(work: () => Promise<T>) => Promise<T>;

export interface Queue {
  inTurn: InTurn;
  /** Whether further work waits behind the running one. */
  isAwaited(): boolean;
}

/** Runs work first in, first out, one at a time. A failure affects only its own caller. */
export function openQueue(): Queue {
  let tail: Promise<unknown> = Promise.resolve();
  let pending = 0;
  const leave = () => {
    pending--;
  };
  return {
    inTurn(work) {
      pending++;
      const result = tail.then(work);
      tail = result.then(leave, leave);
      return result;
    },
    isAwaited: () => pending > 1,
  };
}

export const createQueue = (): InTurn => openQueue().inTurn;

/** SQLite looks up numbered parameters by name, one after the other, so hundreds of them take quadratic time. */
export function placeholder(engine: Engine, number: number): string {
  return engine === "postgres" ? `$${number}` : "?";
}

/** `?` stands for a value on both engines. */
export function numberPlaceholders(engine: Engine, statement: string): string {
  let next = 1;
  return engine === "postgres" ? statement.replaceAll("?", () => placeholder(engine, next++)) : statement;
}

export function createSql({ engine, run, each, script }: Omit<StoreConnection, "isAwaited">): Sql {
  const tag = (strings: TemplateStringsArray, ...values: SqlValue[]) =>
    run(buildStatementText(engine, strings), values);
  return Object.assign(tag, { text: run, each, script });
}

const statementTexts = {
  sqlite: new WeakMap<TemplateStringsArray, string>(),
  postgres: new WeakMap<TemplateStringsArray, string>(),
};

function buildStatementText(engine: Engine, strings: TemplateStringsArray): string {
  const cached = statementTexts[engine].get(strings);
  if (cached !== undefined) return cached;
  const text = strings.reduce((before, part, index) => `${before}${placeholder(engine, index)}${part}`);
  statementTexts[engine].set(strings, text);
  return text;
}

/** Runs `work` in the caller's transaction, which commits if this resolves, else rolls back. */
export async function withinTransaction<T>(
  connection: StoreConnection,
  work: (tx: Db) => Promise<T>,
  depth = 0,
): Promise<T> {
  const { engine } = connection;
  const runInOrder = createQueue();
  let isOpen = true;
  let hasFailed = false;

  function whileOpen<R>(step: () => Promise<R>): Promise<R> {
    return runInOrder(() => {
      if (!isOpen) throw new Error(TRANSACTION_OVER);
      return step();
    });
  }

  function statement<R>(step: () => Promise<R>): Promise<R> {
    return whileOpen(async () => {
      try {
        return await step();
      } catch (error) {
        hasFailed = true;
        throw error;
      }
    });
  }

  const tx: Db = {
    engine,
    sql: createSql({
      engine,
      run: (text, values) => statement(() => connection.run(text, values)),
      each: (text, rows) => statement(() => connection.each(text, rows)),
      script: (text) => statement(() => connection.script(text)),
    }),
    begin: (_mode, nested) => whileOpen(() => withinSavepoint(connection, nested, depth, withinTransaction)),
    get reports() {
      return tx;
    },
    isAwaited: connection.isAwaited,
    flush: () => Promise.reject(new Error("A transaction cannot be flushed before its end.")),
    close: () => Promise.reject(new Error("A transaction cannot be closed; it ends with its callback.")),
  };

  try {
    const result = await work(tx);
    await runInOrder(async () => {});
    // Here PostgreSQL would turn the commit into a silent rollback, and SQLite would commit the rest.
    if (hasFailed) throw new Error("A statement failed within the transaction, and its error was ignored.");
    return result;
  } finally {
    await runInOrder(async () => {
      isOpen = false;
    });
  }
}

/**
 * The same for a connection that runs each statement synchronously, as SQLite does. Statements are in order because
 * each one ends before the next call; only a nested transaction makes others wait.
 */
export async function withinWrite<T>(
  connection: StoreConnection,
  work: (tx: Db) => Promise<T>,
  depth = 0,
): Promise<T> {
  let isOpen = true;
  let hasFailed = false;
  let nested: Promise<unknown> | null = null;

  function statement<R>(step: () => Promise<R>): Promise<R> {
    if (!isOpen) return Promise.reject(new Error(TRANSACTION_OVER));
    if (nested !== null) return nested.then(() => statement(step));
    const done = step();
    done.catch(() => {
      hasFailed = true;
    });
    return done;
  }

  function beginNested<R>(inner: (tx: Db) => Promise<R>): Promise<R> {
    if (!isOpen) return Promise.reject(new Error(TRANSACTION_OVER));
    const previous = nested ?? Promise.resolve();
    const done = previous.then(() => withinSavepoint(connection, inner, depth, withinWrite));
    const settledNested: Promise<unknown> = done
      .catch(() => {})
      .then(() => {
        if (nested === settledNested) nested = null;
      });
    nested = settledNested;
    return done;
  }

  const tx: Db = {
    engine: connection.engine,
    sql: createSql({
      engine: connection.engine,
      run: (text, values) => statement(() => connection.run(text, values)),
      each: (text, rows) => statement(() => connection.each(text, rows)),
      script: (text) => statement(() => connection.script(text)),
    }),
    begin: (_mode, inner) => beginNested(inner),
    get reports() {
      return tx;
    },
    isAwaited: connection.isAwaited,
    flush: () => Promise.reject(new Error("A transaction cannot be flushed before its end.")),
    close: () => Promise.reject(new Error("A transaction cannot be closed; it ends with its callback.")),
  };

  try {
    const result = await work(tx);
    while (nested !== null) await nested;
    if (hasFailed) throw new Error("A statement failed within the transaction, and its error was ignored.");
    return result;
  } finally {
    while (nested !== null) await nested;
    isOpen = false;
  }
}

const TRANSACTION_OVER = "This transaction has ended; its handle was used afterwards.";

type TransactionRunner = <T>(
  connection: StoreConnection,
  work: (tx: Db) => Promise<T>,
  depth?: number,
) => Promise<T>;

async function withinSavepoint<T>(
  connection: StoreConnection,
  work: (tx: Db) => Promise<T>,
  depth: number,
  runNested: TransactionRunner,
): Promise<T> {
  const name = `nested_${depth}`;
  await connection.run(`SAVEPOINT ${name}`, []);
  try {
    const result = await runNested(connection, work, depth + 1);
    await connection.run(`RELEASE SAVEPOINT ${name}`, []);
    return result;
  } catch (error) {
    await connection.run(`ROLLBACK TO SAVEPOINT ${name}`, []);
    await connection.run(`RELEASE SAVEPOINT ${name}`, []);
    throw error;
  }
}
