/** Test support: a database that a process stops reaching at a chosen statement, as if it was killed there. */

import type { Db } from "../../store/engine/db.ts";

/** A database that this process does not reach after a number of statements and commits. */
export class MortalDb {
  readonly db: Db;
  #pointsLeft = Number.POSITIVE_INFINITY;
  readonly #died = Promise.withResolvers<void>();

  constructor(db: Db) {
    this.db = this.#wrap(db);
  }

  get died(): Promise<void> {
    return this.#died.promise;
  }

  /** Zero: nothing more is reached. */
  dieAfter(points: number): void {
    this.#pointsLeft = points;
  }

  async #reach<T>(work: () => Promise<T>): Promise<T> {
    if (this.#pointsLeft <= 0) {
      this.#died.resolve();
      throw new Error("killed");
    }
    this.#pointsLeft--;
    return work();
  }

  #wrap(db: Db): Db {
    const sql: Db["sql"] = Object.assign(
      (strings: TemplateStringsArray, ...values: (string | number | null)[]) =>
        this.#reach(() => db.sql(strings, ...values)),
      {
        text: (...of: Parameters<Db["sql"]["text"]>) => this.#reach(() => db.sql.text(...of)),
        each: (...of: Parameters<Db["sql"]["each"]>) => this.#reach(() => db.sql.each(...of)),
        script: (text: string) => this.#reach(() => db.sql.script(text)),
      },
    );
    return {
      ...db,
      sql,
      begin: async (mode, work) => {
        const result = await db.begin(mode, (tx) => work(this.#wrap(tx)));
        // The commit has happened, and the process may die before it learns that.
        return this.#reach(async () => result);
      },
    };
  }
}
