/** The states of all subjects that have limits. Idle ones are dropped a few at a time, so that no timer is needed. */

import type { CallerLimits, RateLimits } from "../records/limits.ts";
import type { Scope, Subject } from "./limiter-types.ts";
import { isUnlimited } from "./subject-state.ts";

/** Bounds the cost of dropping idle subjects in one admission, even if many subjects were just seeded. */
const SWEEP_STEPS_MAX = 16;

interface RegisteredSubject {
  readonly scope: Scope;
  readonly id: string;
  limits: CallerLimits | RateLimits;
}

interface SubjectLifecycle<State extends RegisteredSubject> {
  open(subject: Subject): State;
  applyLimits(state: State, limits: CallerLimits | RateLimits): void;
  isIdle(state: State, nowMs: number): boolean;
}

export class SubjectRegistry<State extends RegisteredSubject> {
  readonly #lifecycle: SubjectLifecycle<State>;
  readonly #byScope: Record<Scope, Map<string, State>> = {
    key: new Map(),
    user: new Map(),
    group: new Map(),
    account: new Map(),
  };
  /** The same states, in the order of the sweep. */
  readonly #all: State[] = [];
  #sweepIndex = 0;
  #openedSinceSweep = 0;

  constructor(lifecycle: SubjectLifecycle<State>) {
    this.#lifecycle = lifecycle;
  }

  get size(): number {
    return this.#all.length;
  }

  /** Applies the limits of the subject, which may have changed since the last call. */
  find({ scope, id, limits }: Subject): State | null {
    const state = this.#byScope[scope].get(id);
    if (!state) return null;
    if (state.limits !== limits) this.#lifecycle.applyLimits(state, limits);
    return state;
  }

  /** The state of a subject with any limits, if it has one. */
  get(scope: Scope, id: string): State | null {
    return this.#byScope[scope].get(id) ?? null;
  }

  all(): readonly State[] {
    return this.#all;
  }

  /** Null if the subject has no limits. */
  findOrOpen(subject: Subject): State | null {
    const existing = this.find(subject);
    if (isUnlimited(subject.limits)) return null;
    if (existing) return existing;
    const state = this.#lifecycle.open(subject);
    this.#byScope[subject.scope].set(subject.id, state);
    this.#all.push(state);
    this.#openedSinceSweep += 1;
    return state;
  }

  /** The states of those that have limits, each once. */
  findLimited(subjects: readonly Subject[]): State[] {
    const limited: State[] = [];
    for (const subject of subjects) {
      const state = this.findOrOpen(subject);
      if (state && !limited.includes(state)) limited.push(state);
    }
    return limited;
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
      if (!this.#lifecycle.isIdle(state, nowMs)) {
        this.#sweepIndex += 1;
        continue;
      }
      this.#byScope[state.scope].delete(state.id);
      const last = all.pop();
      if (last && last !== state) all[this.#sweepIndex] = last;
    }
  }
}
