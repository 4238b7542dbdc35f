/**
 * A handle on the database: the pool itself, or one transaction of it. Within a transaction statements run
 * in the order they were asked for, and what is asked of it after its end is refused: on SQLite, where all
 * share one connection, it would otherwise slip into somebody else's transaction.
 */

export type Engine = "sqlite" | "postgres";
export type SqlValue = string | number | null;
export type Row = Readonly<Record<string, SqlValue>>;
/** `write` holds the engine's write lock from the start on SQLite; `read` sees one moment on both engines. */
export type Mode = "write" | "read";

export interface Sql {
  (strings: TemplateStringsArray, ...values: SqlValue[]): Promise<Row[]>;
  /** For statements of a length known only at run time. Values never go into the text, only placeholders. */
  text(text: string, values: readonly SqlValue[]): Promise<Row[]>;
  /** One statement that returns nothing, once for each of these rows of values. */
  each(text: string, rows: readonly (readonly SqlValue[])[]): Promise<void>;
  /** Several statements without parameters. */
  script(text: string): Promise<void>;
}

export interface Db {
  readonly engine: Engine;
  readonly sql: Sql;
  /** Use `transaction` and `snapshot`. A transaction begun within another is a savepoint of it. */
  begin<T>(mode: Mode, work: (tx: Db) => Promise<T>): Promise<T>;
  /** Whether others of this process wait until the transaction that writes has ended. */
  isAwaited(): boolean;
  /**
   * What is committed survives the loss of power once this resolves. SQLite's commits do not wait for the disk; on
   * PostgreSQL that is the server's to decide, and there is nothing to do.
   */
  flush(): Promise<void>;
  close(): Promise<void>;
}

export type Run = (text: string, values: readonly SqlValue[]) => Promise<Row[]>;

/** What an engine brings: the pool, or the one connection that a transaction runs on. */
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
  /** Somebody waits for the end of the one whose turn it is. */
  isAwaited(): boolean;
}

/** First come, first served, one at a time. A failure is its caller's alone. */
export function openQueue(): Queue {
  let tail: Promise<unknown> = Promise.resolve();
  let inside = 0;
  const leave = () => {
    inside--;
  };
  return {
    inTurn(work) {
      inside++;
      const result = tail.then(work);
      tail = result.then(leave, leave);
      return result;
    },
    isAwaited: () => inside > 1,
  };
}

export const createQueue = (): InTurn => openQueue().inTurn;

/** SQLite looks numbered parameters up by name, one after the other: hundreds of them take quadratic time. */
export function placeholder(engine: Engine, number: number): string {
  return engine === "postgres" ? `$${number}` : "?";
}

export function createSql({ engine, run, each, script }: Omit<StoreConnection, "isAwaited">): Sql {
  const tag = (strings: TemplateStringsArray, ...values: SqlValue[]) => run(textOf(engine, strings), values);
  return Object.assign(tag, { text: run, each, script });
}

const texts = {
  sqlite: new WeakMap<TemplateStringsArray, string>(),
  postgres: new WeakMap<TemplateStringsArray, string>(),
};

function textOf(engine: Engine, strings: TemplateStringsArray): string {
  const known = texts[engine].get(strings);
  if (known !== undefined) return known;
  const text = strings.reduce((before, part, index) => `${before}${placeholder(engine, index)}${part}`);
  texts[engine].set(strings, text);
  return text;
}

/** Runs `work` on a transaction that the caller has begun, and will commit if this resolves or roll back if not. */
export async function withinTransaction<T>(
  connection: StoreConnection,
  work: (tx: Db) => Promise<T>,
  depth = 0,
): Promise<T> {
  const { engine } = connection;
  const inTurn = createQueue();
  let isOpen = true;
  let hasFailed = false;

  function whileOpen<R>(step: () => Promise<R>): Promise<R> {
    return inTurn(() => {
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
    isAwaited: connection.isAwaited,
    flush: () => Promise.reject(new Error("A transaction is flushed after its end.")),
    close: () => Promise.reject(new Error("A transaction ends with its work; it is not closed.")),
  };

  try {
    const result = await work(tx);
    await inTurn(async () => {});
    // PostgreSQL would turn the commit into a silent roll-back here, SQLite would commit the rest.
    if (hasFailed) throw new Error("A statement failed within the transaction, and its error was swallowed.");
    return result;
  } finally {
    await inTurn(async () => {
      isOpen = false;
    });
  }
}

/**
 * The same for a connection that does everything at once, as SQLite does: statements are in order because each is over
 * before the next is asked for, and only a nested transaction makes others wait.
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

  function within<R>(inner: (tx: Db) => Promise<R>): Promise<R> {
    if (!isOpen) return Promise.reject(new Error(TRANSACTION_OVER));
    const before = nested ?? Promise.resolve();
    const done = before.then(() => withinSavepoint(connection, inner, depth, withinWrite));
    const quiet: Promise<unknown> = done
      .catch(() => {})
      .then(() => {
        if (nested === quiet) nested = null;
      });
    nested = quiet;
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
    begin: (_mode, inner) => within(inner),
    isAwaited: connection.isAwaited,
    flush: () => Promise.reject(new Error("A transaction is flushed after its end.")),
    close: () => Promise.reject(new Error("A transaction ends with its work; it is not closed.")),
  };

  try {
    const result = await work(tx);
    while (nested !== null) await nested;
    if (hasFailed) throw new Error("A statement failed within the transaction, and its error was swallowed.");
    return result;
  } finally {
    while (nested !== null) await nested;
    isOpen = false;
  }
}

const TRANSACTION_OVER = "This transaction is over: its handle was used after its work had ended.";

type Within = <T>(connection: StoreConnection, work: (tx: Db) => Promise<T>, depth?: number) => Promise<T>;

async function withinSavepoint<T>(
  connection: StoreConnection,
  work: (tx: Db) => Promise<T>,
  depth: number,
  within: Within,
): Promise<T> {
  const name = `nested_${depth}`;
  await connection.run(`SAVEPOINT ${name}`, []);
  try {
    const result = await within(connection, work, depth + 1);
    await connection.run(`RELEASE SAVEPOINT ${name}`, []);
    return result;
  } catch (error) {
    await connection.run(`ROLLBACK TO SAVEPOINT ${name}`, []);
    await connection.run(`RELEASE SAVEPOINT ${name}`, []);
    throw error;
  }
}
