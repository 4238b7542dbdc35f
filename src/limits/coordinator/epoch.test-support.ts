/**
 * Time and terms of a coordinator: one epoch, from an empty coordinator until its state is lost.
 *
 * A use must not leave its minute too early. So it is booked at the latest time that a call can have, and expires by the
 * earliest. Nodes know that from earlier replies and their monotonic clocks; the server's clock may be set.
 */

import type { CoordinatorLimits } from "./coordinator-limits.ts";
import type { TermLife } from "./meter-record.test-support.ts";
import type { ClockBounds, LastDeclaration, OpenEpochCall, OpenTermCall, OpenTermReply } from "./protocol.ts";

/**
 * `ended`: everything was reported and returned, or declared in another term. `dead`: the process has ended, and its
 * folder may have usage that is not stored. `recovered`: a process that started in its folder has stored it.
 */
type TermState = "running" | "ended" | "dead" | "recovered";

interface Term {
  readonly process: string;
  readonly folder: string;
  seq: number;
  aliveUntilMs: number;
  state: TermState;
  declared: "nothing" | "as newcomer" | "as survivor";
}

/** The time of a call. */
export interface CallTime {
  /** The earliest that it can be: for what expires. */
  readonly nowMs: number;
  /** The latest that it can be: for what is booked. */
  readonly bookMs: number;
  /** By the server's clock. */
  readonly serverMs: number;
}

const MINUTE_MS = 60_000;
/** A smaller difference may be the delay of a call. */
const STEP_MS = 2_000;

export class CoordinatorEpoch {
  readonly id: string;
  readonly #limits: CoordinatorLimits;
  readonly #terms = new Map<string, Term>();
  /** Added to the server's clock, so that the coordinator's time does not jump when that clock is set. */
  #offsetMs = 0;
  #beganMs: number | null = null;
  #isOpen = false;
  #minutesOpenAtMs = 0;

  constructor(id: string, limits: CoordinatorLimits) {
    this.id = id;
    this.#limits = limits;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** How far the server's clock is behind the time of the coordinator, because it was set back. */
  get behindMs(): number {
    return Math.max(0, this.#offsetMs);
  }

  areMinutesOpen(nowMs: number): boolean {
    return this.#isOpen && nowMs >= this.#minutesOpenAtMs;
  }

  /** Null if the bounds are wrong because the calling process was paused. */
  #readTime(serverMs: number, { lo, hi, aheadMs }: ClockBounds, process: string): CallTime | null {
    const earliestMs = Math.floor(lo);
    const rawMs = serverMs + this.#offsetMs;
    const lateMs = rawMs - hi;
    const isAhead = lateMs > STEP_MS || (aheadMs !== null && lateMs > 0 && lateMs >= aheadMs);
    if (isAhead || rawMs < earliestMs - STEP_MS) {
      // The clock was set, and after the calls of all others: one within this time would have corrected it.
      const provenMs = isAhead ? lateMs : this.#limits.termMs;
      for (const term of this.#terms.values()) {
        const sinceBeatMs = rawMs - this.#beatMs(term);
        if (isRunning(term) && term.process !== process && sinceBeatMs >= 0 && sinceBeatMs < provenMs)
          return null;
      }
      this.#offsetMs = earliestMs - serverMs;
    }
    const nowMs = serverMs + this.#offsetMs;
    return { nowMs: Math.min(nowMs, earliestMs), bookMs: Math.max(nowMs, earliestMs), serverMs: nowMs };
  }

  openTerm(serverMs: number, { term, process, folder, bounds }: OpenTermCall): OpenTermReply {
    for (const other of this.#terms.values())
      if (other.folder === folder && other.process !== process && other.state !== "ended")
        other.state = "recovered";
    const time = bounds?.epoch === this.id ? this.#readTime(serverMs, bounds, process) : null;
    const beat = time === null ? this.#findNewestBeat((other) => other.folder !== folder) : null;
    const nowMs = serverMs + this.#offsetMs;
    this.#beganMs ??= nowMs;
    if (!this.#terms.has(term)) {
      const aliveUntilMs = (time?.nowMs ?? beat ?? nowMs) + this.#limits.termMs;
      const opened = { process, folder, seq: 0, aliveUntilMs };
      this.#terms.set(term, { ...opened, state: "running", declared: "nothing" });
    }
    return { nowMs, epoch: this.id, beat, hasUnknownUse: this.#hasUnknownUse(nowMs) };
  }

  #hasUnknownUse(nowMs: number): boolean {
    const terms = [...this.#terms.values()];
    const running = new Set(this.listProcesses());
    return (
      nowMs < this.#minutesOpenAtMs ||
      (!this.#isOpen && terms.some(({ declared }) => declared === "as survivor")) ||
      terms.some(
        (term) => !isRunning(term) && !running.has(term.process) && nowMs < term.aliveUntilMs + MINUTE_MS,
      )
    );
  }

  #findNewestBeat(counts: (term: Term) => boolean): number | null {
    let newestMs: number | null = null;
    for (const term of this.#terms.values())
      if (isRunning(term) && counts(term))
        newestMs = Math.max(newestMs ?? Number.NEGATIVE_INFINITY, this.#beatMs(term));
    return newestMs;
  }

  /** The time of the last call. */
  #beatMs({ aliveUntilMs }: Term): number {
    return aliveUntilMs - this.#limits.termMs;
  }

  /** Accepts a call of a living term; null: the term is gone. */
  accept(
    serverMs: number,
    { term: id, seq, ...bounds }: ClockBounds & { term: string; seq: number },
    kind: "declare" | "exchange",
  ): { kind: "new" | "repeated"; time: CallTime } | { kind: "undeclared" } | null {
    const term = this.#terms.get(id);
    if (term === undefined || !isRunning(term)) return null;
    const time = this.#readTime(serverMs, bounds, term.process);
    if (time === null || time.nowMs > term.aliveUntilMs) return null;
    const hasDeclared = term.declared !== "nothing";
    if (kind === "exchange" && !hasDeclared) return { kind: "undeclared" };
    const isNew = seq === term.seq + 1;
    if (!isNew && seq !== term.seq) return null;
    if (isNew && kind === "declare" && hasDeclared) return null;
    term.seq = seq;
    term.aliveUntilMs = Math.max(term.aliveUntilMs, time.nowMs + this.#limits.termMs);
    return { kind: isNew ? "new" : "repeated", time };
  }

  /** A process has one term. The one that it had before is unknown if the state was lost. */
  finishDeclaration(id: string, { replaces, isSurvivor }: LastDeclaration): void {
    const term = this.#terms.get(id);
    if (term === undefined) return;
    term.declared = isSurvivor ? "as survivor" : "as newcomer";
    if (replaces !== null && !this.#terms.has(replaces)) this.#terms.set(replaces, { ...term });
    for (const [other, { process }] of this.#terms)
      if (process === term.process && other !== id) this.endTerm(other);
  }

  /** Only survivors know which processes have ended. Without any, everything that was used before counts as unknown. */
  tryToOpen({ process, registered, hasUnknownUse }: OpenEpochCall): boolean {
    if (this.#isOpen) return true;
    const declared = new Set<string>();
    const survivors = new Set<string>();
    for (const term of this.#terms.values()) {
      if (term.declared !== "nothing") declared.add(term.process);
      if (term.declared === "as survivor") survivors.add(term.process);
    }
    const isNewcomer = survivors.size > 0 && !survivors.has(process);
    if (isNewcomer && registered.some((id) => survivors.has(id))) return false;
    if (hasUnknownUse || isNewcomer) this.#minutesOpenAtMs = (this.#beganMs ?? 0) + this.#limits.unknownUseMs;
    this.#isOpen = declared.size > 0 && registered.every((id) => declared.has(id));
    return this.#isOpen;
  }

  endTerm(id: string): void {
    const term = this.#terms.get(id);
    if (term?.state === "running") term.state = "ended";
  }

  bury(process: string): void {
    for (const term of this.#terms.values())
      if (term.process === process && isRunning(term)) term.state = "dead";
  }

  listProcesses(): string[] {
    const running = [...this.#terms.values()].filter(isRunning);
    return [...new Set(running.map(({ process }) => process))];
  }

  findProcess(term: string): string | null {
    return this.#terms.get(term)?.process ?? null;
  }

  findLife(id: string, nowMs: number): TermLife {
    const term = this.#terms.get(id);
    // Of an earlier epoch, or ended long ago.
    if (term === undefined) return { kind: "dead", sinceMs: this.#beganMs ?? nowMs };
    const { state, aliveUntilMs } = term;
    // The time of the end is not known: the server's clock may be wrong while no node corrects it.
    if (state !== "running") return { kind: state, sinceMs: aliveUntilMs };
    return nowMs <= aliveUntilMs ? { kind: "alive" } : { kind: "silent", sinceMs: aliveUntilMs };
  }

  /** The time that the last call had; null without terms. */
  get certainMs(): number | null {
    return this.#findNewestBeat(() => true);
  }

  sweep(nowMs: number): void {
    for (const [id, term] of this.#terms)
      if (!isRunning(term) && term.aliveUntilMs < nowMs - this.#limits.endedTermMs) this.#terms.delete(id);
  }
}

function isRunning({ state }: Term): boolean {
  return state === "running";
}
