/**
 * Connections to PostgreSQL that cannot hang. The server ends statements and transactions that take too long, which
 * also frees the locks of a node that stopped responding. If the server does not respond at all, the statement is
 * abandoned here and all connections are replaced: a connection that was lost without a reset never reports it.
 */

import type { SQL } from "bun";
import { hasSession, openDriver, type SettingScope } from "./postgres-session.ts";
import { explainStoreError } from "./store-problem.ts";
import type { Row, SqlValue, StoreAccess } from "./transaction.ts";

/** What a pool is used for. It determines how long the server may take. */
export type Workload = "general" | "billing" | "coordination" | "maintenance";

export interface PoolLimits {
  connectionsMax: number;
  /** How long a statement may wait for a lock. 0: no limit, as for the following ones. */
  lockMs: number;
  statementMs: number;
  /** How long a transaction may be open without a statement. The server then ends it. */
  idleTransactionMs: number;
  transactionMs: number;
  /** How long after its own limit the server may take to report that it ended a statement. */
  responseGraceMs: number;
  /** After this much silence, another statement checks whether the server still responds, for `probeMs` at most. */
  silenceMs: number;
  probeMs: number;
}

const SILENCE = { responseGraceMs: 2_000, silenceMs: 3_000, probeMs: 2_000 };

export const POOL_LIMITS: Readonly<Record<Workload, PoolLimits>> = {
  /** The console and the policy: reports may take long. */
  general: {
    connectionsMax: 10,
    lockMs: 5_000,
    statementMs: 60_000,
    idleTransactionMs: 10_000,
    transactionMs: 300_000,
    ...SILENCE,
  },
  /** Requests wait for these transactions, and their locks block the same users on every node. */
  billing: {
    connectionsMax: 6,
    lockMs: 300,
    statementMs: 5_000,
    idleTransactionMs: 3_000,
    transactionMs: 10_000,
    ...SILENCE,
  },
  /**
   * Small statements that are abandoned after milliseconds, so a lost connection must be noticed soon. Only the first
   * use of a long window takes longer: it reads the stored usage of its subject.
   */
  coordination: {
    connectionsMax: 2,
    lockMs: 500,
    statementMs: 5_000,
    idleTransactionMs: 500,
    transactionMs: 1_000,
    responseGraceMs: 500,
    silenceMs: 500,
    probeMs: 500,
  },
  /** Migrations, reconciliation, the commands of an operator. */
  maintenance: {
    connectionsMax: 4,
    lockMs: 0,
    statementMs: 0,
    idleTransactionMs: 600_000,
    transactionMs: 0,
    ...SILENCE,
  },
};

/** A transaction may need a second connection beside it. */
const CONNECTIONS_MIN = 2;

/** The limits of one of several processes on a machine, which together use the connections of one. */
export function divideConnections(limits: PoolLimits, processes: number): PoolLimits {
  const connectionsMax = Math.max(CONNECTIONS_MIN, Math.ceil(limits.connectionsMax / processes));
  return { ...limits, connectionsMax };
}

const CHECK_INTERVAL_MS = 250;
/** Statements that still run on replaced connections may take this long to end. */
const REPLACED_GRACE_S = 5;

/** The server did not respond in time. Whether the statement took effect is unknown. */
export class StoreSilent extends Error {
  override readonly name = "StoreSilent";
}

export interface Driver {
  unsafe(text: string, values?: SqlValue[]): SQL.Query<Row[]>;
}

interface Waiting {
  sinceMs: number;
  untilMs: number;
  abandon(): void;
}

interface PoolOptions {
  readonly url: string;
  readonly limits: PoolLimits;
  readonly access: StoreAccess;
  readonly scope: SettingScope;
}

export class PostgresPool {
  readonly #options: PoolOptions;
  readonly #limits: PoolLimits;
  readonly #waiting = new Set<Waiting>();
  readonly #timer: ReturnType<typeof setInterval> | null;
  #driver: SQL;
  #isProbing = false;

  private constructor(options: PoolOptions) {
    this.#options = options;
    this.#limits = options.limits;
    this.#driver = this.#connect();
    this.#timer =
      this.#limits.statementMs === 0 ? null : setInterval(() => this.#check(), CHECK_INTERVAL_MS).unref();
  }

  /** Resolves when the server has responded. */
  static async open(options: Omit<PoolOptions, "scope">): Promise<PostgresPool> {
    try {
      const direct = new PostgresPool({ ...options, scope: "session" });
      if (await direct.#closeUnless(hasSession(direct.driver))) return direct;
      const pooled = new PostgresPool({ ...options, scope: "transactions" });
      await pooled.#closeUnless(pooled.driver.connect().then(() => true));
      return pooled;
    } catch (error) {
      throw explainStoreError(error);
    }
  }

  get driver(): SQL {
    return this.#driver;
  }

  /** What each transaction must set at its beginning; null if its session has the settings. */
  get transactionSettings(): string | null {
    if (this.#options.scope === "session") return null;
    const set = ([name, value]: [string, string]) => `SET LOCAL ${name} = ${value}`;
    return Object.entries(listTimeouts(this.#limits)).map(set).join("; ");
  }

  /** Runs one statement. Cancels it on the server when it is abandoned. */
  run(driver: Driver, text: string, values?: SqlValue[]): Promise<Row[]> {
    const query = driver.unsafe(text, values);
    return this.#guard(query, this.#limits.statementMs, () => query.cancel());
  }

  /** Waits for a transaction, or until its time is over. `onAbandon` must make its further statements fail. */
  guardTransaction<T>(running: Promise<T>, onAbandon: () => void): Promise<T> {
    return this.#guard(running, this.#limits.transactionMs, onAbandon);
  }

  async close(): Promise<void> {
    if (this.#timer !== null) clearInterval(this.#timer);
    await this.#driver.close();
  }

  /** Closes the connections if the check fails or resolves with false. */
  async #closeUnless(check: Promise<boolean>): Promise<boolean> {
    let isUsable = false;
    try {
      isUsable = await check;
    } finally {
      if (!isUsable) await this.close();
    }
    return isUsable;
  }

  #connect(): SQL {
    const { url, limits, access, scope } = this.#options;
    return openDriver(url, {
      applicationName: "model-gateway",
      connectionsMax: limits.connectionsMax,
      scope,
      settings: {
        ...listTimeouts(limits),
        ...(access === "read" ? { default_transaction_read_only: "on" } : {}),
        // The server notices within half a minute that the machine of this process is gone.
        tcp_keepalives_idle: "10",
        tcp_keepalives_interval: "5",
        tcp_keepalives_count: "3",
      },
    });
  }

  #guard<T>(work: PromiseLike<T>, limitMs: number, onAbandon: () => void): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    if (this.#timer === null || limitMs === 0) {
      work.then(resolve, (error) => reject(explainStoreError(error)));
      return promise;
    }
    const sinceMs = performance.now();
    const waiting: Waiting = {
      sinceMs,
      untilMs: sinceMs + limitMs + this.#limits.responseGraceMs,
      abandon: () => {
        this.#waiting.delete(waiting);
        onAbandon();
        reject(new StoreSilent("the database does not respond"));
      },
    };
    this.#waiting.add(waiting);
    work.then(
      (result) => {
        this.#waiting.delete(waiting);
        resolve(result);
      },
      (error) => {
        this.#waiting.delete(waiting);
        reject(explainStoreError(error));
      },
    );
    return promise;
  }

  #check(): void {
    const nowMs = performance.now();
    const overdue = [...this.#waiting].filter(({ untilMs }) => nowMs >= untilMs);
    if (overdue.length > 0) {
      this.#replaceConnections();
      for (const waiting of overdue) waiting.abandon();
      return;
    }
    const [oldest] = this.#waiting;
    if (oldest !== undefined && nowMs - oldest.sinceMs >= this.#limits.silenceMs && !this.#isProbing)
      void this.#probe();
  }

  /** A long statement is no fault while others complete. */
  async #probe(): Promise<void> {
    this.#isProbing = true;
    const driver = this.#driver;
    const responded = driver.unsafe("SELECT 1").then(
      () => true,
      () => false,
    );
    const hasResponded = await Promise.race([responded, Bun.sleep(this.#limits.probeMs).then(() => false)]);
    this.#isProbing = false;
    if (!hasResponded && driver === this.#driver) this.#replaceConnections();
  }

  #replaceConnections(): void {
    const replaced = this.#driver;
    this.#driver = this.#connect();
    replaced.close({ timeout: REPLACED_GRACE_S }).catch(() => {});
  }
}

function listTimeouts({ lockMs, statementMs, idleTransactionMs }: PoolLimits): Record<string, string> {
  return {
    lock_timeout: String(lockMs),
    statement_timeout: String(statementMs),
    idle_in_transaction_session_timeout: String(idleTransactionMs),
  };
}
