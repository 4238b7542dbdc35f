/**
 * Runs the transactions of a process on its wallet reservations, one at a time. Each advances the fence of the process:
 * a process whose reservations were recovered by another writes nothing, and a commit whose result was lost is known to
 * have happened or not.
 */

import { type Db, transaction } from "../../store/engine/db.ts";
import { isSharedServer } from "../../store/engine/dialect.ts";
import {
  advanceFence,
  deleteFence,
  FenceLost,
  insertFence,
  readFence,
} from "../../store/money/reservation-fences.ts";

interface ReservationFenceOptions {
  db: Db;
  processId: string;
  /** Delay between two tries to learn whether a transaction was committed. */
  retryMs: number;
}

/** Runs `work` within the transaction `tx`, after the fence was advanced. */
type Guard<T> = (tx: Db, work: () => Promise<T>) => Promise<T>;

type FenceState =
  /** The next transaction creates the row, with this number. */
  | { kind: "absent"; next: number }
  /** The row exists with the number of the last commit. */
  | { kind: "held"; sequence: number }
  /** Another process has deleted the row. Everything in memory has to be recovered first. */
  | { kind: "lost"; next: number };

/** Owns the number of the last commit. */
export class ReservationFence {
  readonly #options: ReservationFenceOptions;
  #state: FenceState;
  #isStopped = false;

  constructor(options: ReservationFenceOptions) {
    this.#options = options;
    this.#state = { kind: "absent", next: 1 };
  }

  get isLost(): boolean {
    return this.#state.kind === "lost";
  }

  /**
   * `begin` runs one transaction and does all its work in the guard. Resolves if it was committed. Throws `FenceLost` if
   * the reservations belong to this process no more.
   */
  async commit<T>(begin: (guard: Guard<T>) => Promise<T>): Promise<T> {
    const before = this.#state;
    if (before.kind === "lost") throw new FenceLost(this.#options.processId);
    const after = before.kind === "absent" ? before.next : before.sequence + 1;
    let finished: { result: T } | null = null;
    const guard: Guard<T> = async (tx, work) => {
      if (before.kind === "absent") await insertFence(tx, this.#options.processId, after);
      else await advanceFence(tx, this.#options.processId, before.sequence);
      finished = { result: await work() };
      return finished.result;
    };
    try {
      const result = await begin(guard);
      this.#state = { kind: "held", sequence: after };
      return result;
    } catch (error) {
      if (error instanceof FenceLost) this.#state = { kind: "lost", next: after + 1 };
      // A transaction whose work failed was not committed.
      const done = finished as { result: T } | null;
      if (done === null || !isSharedServer(this.#options.db)) throw error;
      if (!(await this.#wasCommitted(before, after))) throw error;
      return done.result;
    }
  }

  /** The same in a separate transaction. */
  run<T>(work: (tx: Db) => Promise<T>): Promise<T> {
    const { db } = this.#options;
    return this.commit((guard) => transaction(db, (tx) => guard(tx, () => work(tx))));
  }

  /** Call when everything that was in memory is recovered. The next transaction creates a new fence. */
  renew(): void {
    if (this.#state.kind === "lost") this.#state = { kind: "absent", next: this.#state.next };
  }

  /** Deletes the fence. Call when no reservation is left. */
  async release(): Promise<void> {
    const state = this.#state;
    if (state.kind !== "held") return;
    await deleteFence(this.#options.db, this.#options.processId);
    this.#state = { kind: "absent", next: state.sequence + 1 };
  }

  /** Commits whose result is unknown stay unknown. Recovery reads the database. */
  stop(): void {
    this.#isStopped = true;
  }

  /** The connection failed during the commit. Nothing else may run before its result is known. */
  async #wasCommitted(before: FenceState, after: number): Promise<boolean> {
    const { db, processId, retryMs } = this.#options;
    while (!this.#isStopped) {
      try {
        const sequence = await transaction(db, (tx) => readFence(tx, processId));
        if (sequence === after) {
          this.#state = { kind: "held", sequence: after };
          return true;
        }
        const isUnchanged = before.kind === "held" ? sequence === before.sequence : sequence === null;
        if (!isUnchanged) this.#state = { kind: "lost", next: after + 1 };
        return false;
      } catch {
        await Bun.sleep(retryMs);
      }
    }
    return false;
  }
}
