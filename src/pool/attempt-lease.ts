/** One attempt at an account, from its choice to its end. */

import type { LimitLease, TrueUse } from "../limits/limiter-types.ts";
import type { PoolSlot } from "./account-state.ts";
import { abandon } from "./health.ts";
import type { HealthReporter } from "./shared-health.ts";

/** Counts an attempt in flight until it ends. After a probe without a result another one may probe. */
export class AttemptLease implements LimitLease {
  readonly #slot: PoolSlot;
  readonly #admitted: LimitLease | null;
  readonly #attempt: number;
  /** Set for a probe whose result other nodes wait for. */
  #reporter: HealthReporter | null = null;
  #isOver = false;

  constructor(slot: PoolSlot, admitted: LimitLease | null, attempt: number) {
    this.#slot = slot;
    this.#admitted = admitted;
    this.#attempt = attempt;
    slot.accountState.inFlight++;
  }

  /** The attempt is a probe: other nodes leave it to this one. */
  reportProbe(reporter: HealthReporter): void {
    this.#reporter = reporter;
    reporter.reportProbe(this.#slot, this.#attempt);
  }

  isHeld(): boolean {
    return this.#admitted?.isHeld() ?? true;
  }

  settle(use: TrueUse): void {
    this.#admitted?.settle(use);
    this.#slot.accountState.shortUntilMs = 0;
  }

  release(): void {
    this.#end();
    this.#admitted?.release();
  }

  cancel(): void {
    this.#end();
    this.#admitted?.cancel();
    this.#slot.accountState.shortUntilMs = 0;
  }

  /** The only subject is the account. */
  cancelSubjects(): void {}

  /** Accounts have no long windows. */
  finish(): void {}

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const { accountState, health, model } = this.#slot;
    accountState.inFlight--;
    this.#reporter?.reportAbandoned(this.#slot, this.#attempt);
    abandon(health.circuit, this.#attempt);
    abandon(model.circuit, this.#attempt);
  }
}
