/** The coordinator on PostgreSQL: one row of a table without a write-ahead log. */

import type { Coordinator, CoordinatorDocument } from "../limits/sharing/coordinator.ts";
import { COORDINATION_KIND, readCoordination, replaceCoordination } from "../store/engine/coordination.ts";
import type { Db } from "../store/engine/db.ts";

const NO_DOCUMENT = "";

export class PostgresCoordinator implements Coordinator {
  readonly kind = COORDINATION_KIND;
  readonly #db: Db;
  readonly #newToken: () => string;

  /** `db` has separate connections: a report must not delay a command. The coordinator closes it. */
  constructor(db: Db, newToken: () => string) {
    this.#db = db;
    this.#newToken = newToken;
  }

  async read(): Promise<CoordinatorDocument> {
    const { token, document, nowMs } = await readCoordination(this.#db);
    return { text: document, token: token ?? NO_DOCUMENT, nowMs };
  }

  replace({ token }: CoordinatorDocument, text: string): Promise<boolean> {
    const next = { token: this.#newToken(), document: text };
    return replaceCoordination(this.#db, token === NO_DOCUMENT ? null : token, next);
  }

  close(): Promise<void> {
    return this.#db.close();
  }
}
