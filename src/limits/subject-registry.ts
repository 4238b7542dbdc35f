/** The states of all subjects that have limits. Idle ones are dropped a few at a time, so that no timer is needed. */

import type { Amounts, Scope, Subject } from "./limiter-types.ts";
import { applyLimits, isIdle, isUnlimited, openState, type SubjectState } from "./subject-state.ts";

/** Bounds the cost of dropping idle subjects in one admission, even if many subjects were just seeded. */
const SWEEP_STEPS_MAX = 16;

/** Divides the limits over several nodes. */
export interface ShareSource {
  /** Sets what this node may use of the limits of the subject. */
  assign(state: SubjectState): void;
  /** A request did not fit. Returns true if other nodes may give the missing part soon. */
  want(state: SubjectState, amounts: Amounts): boolean;
}

export class SubjectRegistry {
  /** Null if there is one node. */
  shares: ShareSource | null = null;
  readonly #byScope: Record<Scope, Map<string, SubjectState>> = {
    key: new Map(),
    user: new Map(),
    group: new Map(),
    account: new Map(),
  };
  /** The same states, in the order of the sweep. */
  readonly #all: SubjectState[] = [];
  #sweepIndex = 0;
  #openedSinceSweep = 0;

  get size(): number {
    return this.#all.length;
  }

  /** Applies the limits of the subject, which may have changed since the last call. */
  find({ scope, id, limits }: Subject): SubjectState | null {
    const state = this.#byScope[scope].get(id);
    if (!state) return null;
    if (state.limits !== limits) {
      applyLimits(state, limits);
      this.shares?.assign(state);
    }
    return state;
  }

  /** The state of a subject with any limits, if it has one. */
  get(scope: Scope, id: string): SubjectState | null {
    return this.#byScope[scope].get(id) ?? null;
  }

  all(): readonly SubjectState[] {
    return this.#all;
  }

  /** Null if the subject has no limits. */
  findOrOpen(subject: Subject): SubjectState | null {
    const existing = this.find(subject);
    if (isUnlimited(subject.limits)) return null;
    if (existing) return existing;
    const state = openState(subject);
    this.shares?.assign(state);
    this.#byScope[subject.scope].set(subject.id, state);
    this.#all.push(state);
    this.#openedSinceSweep += 1;
    return state;
  }

  /** Checks two subjects for each new one, so that idle subjects do not accumulate. */
  dropIdle(nowMs: number): void {
    const all = this.#all;
    const steps = Math.min(all.length, 1 + 2 * this.#openedSinceSweep, SWEEP_STEPS_MAX);
    this.#openedSinceSweep = 0;
    for (let step = 0; step < steps; step++) {
      if (this.#sweepIndex >= all.length) this.#sweepIndex = 0;
      const state = all[this.#sweepIndex];
      if (!state) return;
      if (!isIdle(state, nowMs)) {
        this.#sweepIndex += 1;
        continue;
      }
      this.#byScope[state.scope].delete(state.id);
      const last = all.pop();
      if (last && last !== state) all[this.#sweepIndex] = last;
    }
  }
}
