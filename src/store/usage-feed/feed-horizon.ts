/**
 * The horizon of the usage feed: all entries up to it are committed, and no entry below it will appear later. On a shared
 * server a transaction can commit after another one that got later numbers; a reader that went past it would miss its
 * rows.
 */

import type { Db } from "../engine/db.ts";
import { isSharedServer, listWriters } from "../engine/dialect.ts";
import { integer } from "../engine/row.ts";

/** Numbers up to `to` belong to ended transactions, or to `writers`. */
interface HorizonCandidate {
  readonly to: number;
  readonly writers: ReadonlySet<string>;
}

const RETRY_MS = 20;

export class FeedHorizon {
  readonly #db: Db;
  #to = 0;
  /** The next horizon, which waits for open transactions; null if there are none. */
  #candidate: HorizonCandidate | null = null;
  #turn: Promise<unknown> = Promise.resolve();

  constructor(db: Db) {
    this.#db = db;
  }

  /** Moves the horizon as far as the ended transactions allow, and returns it. */
  advance(): Promise<number> {
    // One at a time: an older list of transactions must not be compared with a newer candidate.
    const result = this.#turn.then(() => this.#advance());
    this.#turn = result.catch(() => {});
    return result;
  }

  /** Waits up to `waitMs` until the entries that exist now are below the horizon. */
  async settle(waitMs: number): Promise<number> {
    let to = await this.advance();
    for (let waitedMs = 0; this.#candidate !== null && waitedMs < waitMs; waitedMs += RETRY_MS) {
      const before = to;
      await Bun.sleep(RETRY_MS);
      to = await this.advance();
      if (to > before) break;
    }
    return to;
  }

  /** The last number of the feed, committed or not. */
  async readLast(): Promise<number> {
    const db = this.#db;
    const [row] = isSharedServer(db)
      ? await db.sql`SELECT last_usage_export_no() AS last`
      : await db.sql`SELECT COALESCE(MAX(feed_no), 0) AS last FROM usage_export`;
    return row === undefined ? 0 : integer(row, "last");
  }

  async #advance(): Promise<number> {
    // A transaction locks the table before it gets a number. So the number is read first: a transaction with a smaller
    // number holds a lock now, or has ended.
    const last = await this.readLast();
    // With a single writer, numbers are committed in their order.
    const writers = isSharedServer(this.#db) ? await listWriters(this.#db, "usage_export") : NO_WRITERS;
    if (writers.size === 0) {
      this.#to = last;
      this.#candidate = null;
    } else if (this.#candidate === null) {
      this.#candidate = { to: last, writers };
    } else if (![...this.#candidate.writers].some((writer) => writers.has(writer))) {
      this.#to = this.#candidate.to;
      this.#candidate = { to: last, writers };
    }
    return this.#to;
  }
}

const NO_WRITERS: ReadonlySet<string> = new Set();
