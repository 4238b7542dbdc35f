/**
 * Keeps what this node may use of each limit, in step with the ledger that all nodes share. Without demand every node
 * holds its exact share; a node that needs more requests what the others do not use.
 */

import type { Amounts } from "../limiter-types.ts";
import type { ShareSource, SubjectRegistry } from "../subject-registry.ts";
import { computeFill, type SubjectState } from "../subject-state.ts";
import { type Holding, returnSurplus, type Want } from "./holding.ts";
import {
  type ExchangeReply,
  type ExchangeRequest,
  type Ledger,
  type LedgerRow,
  readTerms,
} from "./ledger.ts";
import { isLongWindow } from "./meter-names.ts";
import { findMeterUse, nameConcurrency, nameMeter, readMeterUse } from "./meters.ts";
import {
  type Bound,
  boundByShares,
  computeBound,
  computeDefaultDelta,
  computeShare,
  type ShareTerms,
} from "./shares.ts";
import { type Phase, STAGES, type StageTask } from "./stages.ts";

/** A node without requests keeps this part of its share, so that it can serve if the coordinator is lost. */
const KEPT_DIVISOR = 6;
/** How long a node asks after the last request that did not fit. */
const WANT_MS = 1_000;
/** Slots are requested for longer: requests in a queue do not retry. */
const WANT_SLOT_MS = 5_000;
/** After a response without a gain, requests do not wait for the next one. */
const HOPELESS_MS = 1_000;
const CHECKED_SUBJECTS_MAX = 5_000;

export interface ShareAllocatorOptions {
  readonly node: string;
  readonly subjects: SubjectRegistry;
  monotonicMs(): number;
  /** This node may use more of a limit of this subject. */
  onGain(state: SubjectState): void;
}

export class ShareAllocator implements ShareSource {
  readonly #options: ShareAllocatorOptions;
  readonly #holdings = new Map<string, Holding>();
  readonly #wants = new Map<string, Want>();
  /** Limits of which this node has used more than it may hold now. */
  readonly #overused = new Set<string>();
  #phase: Phase = "joining";
  #task: StageTask | null = null;
  #hasBeenActive = false;
  #known: { epoch: string; version: number } | null = null;
  #terms: ShareTerms = { members: [], unconfirmed: {} };
  /** Until all nodes have prepared the new terms, the earlier ones bound what this node may use. */
  #bounds: Bound[] = [boundByShares([])];
  /** Replaces all terms: shares of these nodes, or the whole limit. Null in normal operation. */
  #override: { readonly kind: "shares"; readonly members: readonly string[] } | { kind: "whole" } | null =
    null;
  /** Nodes that have started while the coordinator is lost get their shares as well. */
  #lossBound: Bound | null = null;

  constructor(options: ShareAllocatorOptions) {
    this.#options = options;
  }

  get isActive(): boolean {
    return this.#phase === "active";
  }

  /** Whether this node has ever known a ledger. */
  get hasJoined(): boolean {
    return this.#known !== null;
  }

  /** The other nodes have never confirmed this one, and it has no share without them. */
  get holdsNothing(): boolean {
    return !this.#hasBeenActive && this.#override === null;
  }

  get isAlone(): boolean {
    return this.#phase === "active" && this.#terms.members.length === 1;
  }

  /** To be done before the next exchange, and then reported by `completeTask`. */
  get task(): StageTask | null {
    return this.#task;
  }

  get isAsking(): boolean {
    return this.#wants.size > 0;
  }

  assign(state: SubjectState): void {
    const nowMs = this.#options.monotonicMs();
    const { concurrency } = state.limits;
    if (concurrency !== null) state.slots = this.#computeCap(nameConcurrency(state), concurrency);
    for (const meter of state.meters) {
      const { limit } = readMeterUse(meter, nowMs);
      const cap = this.#computeCap(nameMeter(state, meter), limit);
      meter.cap = cap >= limit ? meter.max : cap;
    }
  }

  want(state: SubjectState, amounts: Amounts): boolean {
    if (this.isAlone) return false;
    const nowMs = this.#options.monotonicMs();
    // The share grows while the use of ended processes leaves the windows.
    if (state.meters.some(({ past }) => past !== null)) this.assign(state);
    let isHopeless = false;
    const ask = (name: string, need: number, forMs: number) => {
      const want = this.#wants.get(name) ?? { need: 0, untilMs: 0, hopelessUntilMs: 0 };
      this.#wants.set(name, want);
      want.need = Math.max(want.need, need);
      want.untilMs = nowMs + forMs;
      if (want.hopelessUntilMs > nowMs) isHopeless = true;
    };
    const { concurrency } = state.limits;
    if (concurrency !== null && state.slots !== null && state.inUse >= state.slots) {
      if (state.slots >= concurrency) return false;
      ask(nameConcurrency(state), state.inUse + 1 - state.slots, WANT_SLOT_MS);
    }
    for (const meter of state.meters) {
      const fill = computeFill(meter, nowMs);
      const missing = meter.used + amounts[meter.unit] - fill;
      if (missing <= 0) continue;
      if (fill >= meter.max) return false;
      ask(nameMeter(state, meter), Math.min(missing, meter.max - fill), WANT_MS);
    }
    return !isHopeless;
  }

  /** Shares of these nodes without a ledger, because the coordinator has never responded; or the whole limit. */
  override(terms: { kind: "shares"; members: readonly string[] } | { kind: "whole" } | null): void {
    this.#override = terms;
    this.#assignAll();
  }

  /** The registered nodes while the coordinator is lost; null when it has responded. */
  noteRegistered(members: readonly string[] | null): void {
    const isKnown = members === null || members.every((member) => this.#terms.members.includes(member));
    if (isKnown && this.#lossBound === null) return;
    this.#lossBound = isKnown || members === null ? null : boundByShares(members);
    this.#assignAll();
  }

  /** Without the coordinator, what this node holds beyond its shares may be needed by the others. */
  dropSurplus(): void {
    for (const holding of this.#holdings.values()) holding.delta = Math.min(holding.delta, 0);
    this.#assignAll();
  }

  /** All nodes have dropped their surplus, and its use has left the minute. */
  restoreShares(): void {
    for (const name of this.#holdings.keys()) if (!isLongWindow(name)) this.#holdings.delete(name);
    this.#assignAll();
  }

  buildRequest(): Pick<ExchangeRequest, "node" | "known" | "stage" | "rows"> {
    const nowMs = this.#options.monotonicMs();
    const rows: Record<string, LedgerRow> = {};
    if (this.#phase === "active") this.#findLowRemainders(nowMs);
    for (const [name, want] of this.#wants) if (want.untilMs <= nowMs) this.#endWant(name, want, nowMs);
    const names = new Set([...this.#holdings.keys(), ...this.#overused, ...this.#wants.keys()]);
    for (const name of names) {
      const row = this.#buildRow(name, nowMs);
      if (row !== null) rows[name] = row;
    }
    return { node: this.#options.node, known: this.#known, stage: STAGES[this.#phase], rows };
  }

  /** Call it when the ledger of the reply has been written. Returns true if the ledger has to be written again soon. */
  apply(reply: ExchangeReply): boolean {
    const { ledger } = reply;
    if (this.#known?.epoch !== ledger.epoch || this.#known.version !== ledger.version) {
      this.#confirm(reply);
      return true;
    }
    if (this.#phase === "confirmed" && reply.isConfirmedByAll) {
      this.#phase = "learning";
      this.#task = { kind: "learn", terms: readTerms(ledger) };
      return true;
    }
    if (this.#phase === "prepared" && reply.isPreparedByAll) this.#activate(reply);
    if (this.#phase !== "active") return false;
    for (const [name, amount] of reply.grants) this.#receive(name, amount);
    return false;
  }

  /** Does nothing if the members have changed meanwhile. */
  completeTask(task: StageTask): void {
    if (task !== this.#task) return;
    this.#task = null;
    if (task.kind === "publish") this.#phase = "confirmed";
    else this.#prepare(task.terms);
  }

  /** Grants what other nodes request in this ledger. Call it before the request that is written next. */
  give(ledger: Ledger, lost: ReadonlySet<string>): void {
    const { node } = this.#options;
    const { epoch, version } = this.#known ?? {};
    if (this.#phase !== "active" || epoch !== ledger.epoch || version !== ledger.version) return;
    for (const [meter, rows] of Object.entries(ledger.meters)) {
      for (const [other, row] of Object.entries(rows)) {
        if (other === node) continue;
        // A lost node may serve on. What it gave away must be free when it takes its share again.
        const wished = lost.has(other) ? { ...row, wish: -row.delta, deficit: -row.delta, need: 0 } : row;
        if (wished.wish > 0) this.#give(meter, wished, ledger.members.length - 1);
      }
    }
  }

  #confirm({ ledger }: ExchangeReply): void {
    const isKnown = this.#known !== null || this.#override?.kind === "shares";
    if (isKnown) this.#bounds.push(this.#captureBound());
    this.#known = { epoch: ledger.epoch, version: ledger.version };
    this.#terms = readTerms(ledger);
    this.#phase = "publishing";
    this.#task = { kind: "publish" };
    this.#override = null;
    this.#holdings.clear();
    this.#assignAll();
    this.#findOverused();
  }

  #captureBound(): Bound {
    if (this.#override?.kind === "shares") return boundByShares(this.#override.members);
    const deltas = new Map<string, number>();
    for (const [name, { delta }] of this.#holdings) deltas.set(name, delta);
    return { terms: this.#terms, deltas };
  }

  #findOverused(): void {
    const nowMs = this.#options.monotonicMs();
    this.#overused.clear();
    for (const state of this.#options.subjects.all()) {
      if (state.slots !== null && state.inUse > state.slots) this.#overused.add(nameConcurrency(state));
      for (const meter of state.meters) {
        const { used, limit } = readMeterUse(meter, nowMs);
        if (used > Math.min(meter.cap, limit)) this.#overused.add(nameMeter(state, meter));
      }
    }
  }

  #prepare(terms: ShareTerms): void {
    this.#terms = terms;
    this.#phase = "prepared";
    this.#assignAll();
    this.#findOverused();
  }

  /** Every limit that a node has overused has a row now. Of these nothing is raised without a grant. */
  #activate({ ledger }: ExchangeReply): void {
    const { node, subjects, monotonicMs } = this.#options;
    const nowMs = monotonicMs();
    for (const [meter, rows] of Object.entries(ledger.meters)) {
      const limit = findMeterUse(subjects, meter, nowMs)?.limit ?? Object.values(rows)[0]?.limit ?? 0;
      const delta =
        this.#computeCap(meter, limit) - computeShare(limit, this.#terms.members, { node, meter });
      this.#holdings.set(meter, { delta, limit, wantedMs: nowMs });
    }
    this.#phase = "active";
    this.#hasBeenActive = true;
    this.#bounds = [];
    this.#assignAll();
  }

  #receive(name: string, amount: number): void {
    const nowMs = this.#options.monotonicMs();
    const want = this.#wants.get(name);
    if (amount === 0) {
      if (want !== undefined) want.hopelessUntilMs = nowMs + HOPELESS_MS;
      return;
    }
    const use = findMeterUse(this.#options.subjects, name, nowMs);
    this.#changeHolding(name, use?.limit ?? this.#holdings.get(name)?.limit ?? 0, amount);
    if (want !== undefined) {
      want.need = Math.max(0, want.need - amount);
      if (want.need === 0) this.#wants.delete(name);
    }
    if (use === null) return;
    this.assign(use.state);
    this.#options.onGain(use.state);
    use.state.onRelease?.();
  }

  #give(meter: string, wished: LedgerRow, givers: number): void {
    const { node, subjects, monotonicMs } = this.#options;
    const use = findMeterUse(subjects, meter, monotonicMs());
    const limit = use?.limit ?? wished.limit;
    const share = computeShare(limit, this.#terms.members, { node, meter });
    const cap = this.#computeCap(meter, limit);
    // A request that needs most of the limit gets all that the others can spare.
    const kept = wished.need > limit / 2 ? 0 : Math.floor(share / KEPT_DIVISOR);
    const asked = Math.max(Math.ceil(wished.wish / givers), Math.ceil(wished.need / givers));
    const unused = Math.min(asked, cap - Math.max(use?.used ?? 0, kept));
    // Above its share, a node also gives what it uses: requests wait until enough of it has left the window.
    const yielded = Math.min(wished.wish, wished.deficit, cap - share);
    const amount = Math.max(unused, yielded);
    if (amount <= 0) return;
    this.#changeHolding(meter, limit, -amount);
    if (use !== null) this.assign(use.state);
  }

  #changeHolding(name: string, limit: number, by: number): void {
    const { node, monotonicMs } = this.#options;
    const holding = this.#holdings.get(name) ?? {
      delta: computeDefaultDelta(this.#terms, limit, { node, meter: name }),
      limit,
      wantedMs: monotonicMs(),
    };
    holding.delta += by;
    holding.limit = limit;
    if (by > 0) holding.wantedMs = monotonicMs();
    this.#holdings.set(name, holding);
  }

  #computeCap(name: string, limit: number): number {
    const override = this.#override;
    const subject = { node: this.#options.node, meter: name };
    if (override?.kind === "whole") return limit;
    if (override !== null) return computeShare(limit, override.members, subject);
    const share = computeShare(limit, this.#terms.members, subject);
    const holding = this.#holdings.get(name);
    // A surplus belongs to the limit for which it was granted.
    if (holding !== undefined && holding.delta > 0 && limit < holding.limit) holding.delta = 0;
    let cap = share + (holding?.delta ?? this.#computeDefault(name, limit));
    const bounds = this.#lossBound === null ? this.#bounds : [...this.#bounds, this.#lossBound];
    for (const bound of bounds) cap = Math.min(cap, computeBound(bound, limit, subject));
    return Math.max(0, cap);
  }

  /** Which nodes are lost is known once all others have confirmed the terms. */
  #computeDefault(name: string, limit: number): number {
    if (STAGES[this.#phase] < STAGES.prepared) return 0;
    return Math.min(0, computeDefaultDelta(this.#terms, limit, { node: this.#options.node, meter: name }));
  }

  #buildRow(name: string, nowMs: number): LedgerRow | null {
    const subject = { node: this.#options.node, meter: name };
    const holding = this.#holdings.get(name);
    const use = findMeterUse(this.#options.subjects, name, nowMs);
    const limit = use?.limit ?? holding?.limit ?? 0;
    const used = use?.used ?? 0;
    const share = computeShare(limit, this.#terms.members, subject);
    const want = this.#wants.get(name);
    if (holding !== undefined && want === undefined) returnSurplus(holding, { used, share, nowMs });
    const cap = this.#computeCap(name, limit);
    if (use !== null && holding !== undefined) this.assign(use.state);
    if (used <= cap) this.#overused.delete(name);
    // Until all nodes are prepared, the row contains what this node will hold.
    const planned = share + (holding?.delta ?? this.#computeDefault(name, limit));
    const held = Math.max(this.#phase === "active" ? cap : planned, used);
    const isActive = this.#phase === "active";
    const deficit = isActive ? Math.max(0, share - cap) : 0;
    const wish = isActive && want !== undefined ? Math.min(limit - cap, Math.max(want.need, cap)) : 0;
    const isDefault = held === share && computeDefaultDelta(this.#terms, limit, subject) === 0;
    if (isDefault && wish <= 0 && deficit === 0) {
      this.#holdings.delete(name);
      return null;
    }
    return { delta: held - share, wish: Math.max(0, wish), need: want?.need ?? 0, deficit, limit };
  }

  #endWant(name: string, want: Want, nowMs: number): void {
    const use = findMeterUse(this.#options.subjects, name, nowMs);
    const isQueued = use !== null && use.state.onRelease !== null;
    if (isQueued) want.untilMs = nowMs + WANT_MS;
    else this.#wants.delete(name);
  }

  /** Asks before the remainder is used up, so that requests need not wait. */
  #findLowRemainders(nowMs: number): void {
    const states = this.#options.subjects.all();
    if (this.isAlone || states.length > CHECKED_SUBJECTS_MAX) return;
    for (const state of states) {
      for (const meter of state.meters) {
        if (meter.cap >= meter.max || meter.used === 0) continue;
        const { used } = readMeterUse(meter, nowMs);
        if (meter.cap - used >= meter.cap / 3 || used === 0) continue;
        const name = nameMeter(state, meter);
        if (!this.#wants.has(name))
          this.#wants.set(name, { need: 1, untilMs: nowMs + WANT_MS, hopelessUntilMs: 0 });
        const holding = this.#holdings.get(name);
        if (holding !== undefined) holding.wantedMs = nowMs;
      }
    }
  }

  #assignAll(): void {
    for (const state of this.#options.subjects.all()) {
      this.assign(state);
      state.onRelease?.();
    }
  }
}
