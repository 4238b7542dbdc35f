/** One record of the coordinator: three meters with what was used, what is lent to which term, and who waits. */

import type { CoordinatorLimits } from "./coordinator-limits.ts";
import {
  bucketWidthMs,
  METER_NOS,
  type MeterNo,
  type MeterReport,
  type MeterState,
  type NoteSubject,
  type RecordId,
  type RecordRef,
  type RecordState,
  SLOTS,
} from "./protocol.ts";

type Triple<T> = [T, T, T];

export interface Bucket {
  readonly no: number;
  readonly used: Triple<number>;
}

interface Holder {
  readonly lent: Triple<number>;
  /** The newest recall that the term has responded to, by meter. */
  readonly confirmed: Triple<number>;
}

interface WaitingRequest {
  readonly term: string;
  readonly key: string;
  readonly meter: MeterNo;
  least: number;
  recall: number;
  untilMs: number;
}

/**
 * `silent`: the process may still run, cut off from the coordinator. In the other states it uses nothing any more.
 * `ended`: all usage of the term was reported, or is stored. `dead`: some may be stored later. `recovered`: it was.
 */
export type TermLife =
  | { readonly kind: "alive" }
  | { readonly kind: "silent" | "ended" | "dead" | "recovered"; readonly sinceMs: number };

/** What a record needs to know while a call is applied. */
export interface CallContext {
  /** The earliest time that the call can have, and the latest. */
  readonly nowMs: number;
  readonly bookMs: number;
  readonly term: string;
  /** Nothing is lent of a meter that is closed. */
  isClosed(isMinute: boolean): boolean;
  findLife(term: string): TermLife;
  /** The use of a window from the stored usage. */
  readUse(record: RecordId): readonly Bucket[];
  note(term: string, record: RecordId, meter: MeterNo, about: NoteSubject): void;
}

const MINUTE_MS = 60_000;
/** How long the usage of a dead process may take to be stored, by a process that starts in its folder. */
const FOLDER_RETURNS_MS = 60_000;

export class MeterRecord {
  readonly ref: RecordId;
  readonly #perMs: number;
  readonly #widthMs: number;
  readonly #isWindow: boolean;
  readonly #buckets = new Map<number, Bucket>();
  readonly #holders = new Map<string, Holder>();
  readonly #recalls: Triple<number> = [0, 0, 0];
  #waiting: WaitingRequest[] = [];
  #limits: RecordRef["limits"] = [null, null, null];
  #revision = -1;

  constructor({ scope, id, perMs }: RecordId, context: CallContext) {
    this.ref = { scope, id, perMs };
    this.#perMs = perMs ?? MINUTE_MS;
    this.#widthMs = bucketWidthMs(perMs);
    this.#isWindow = perMs !== null;
    if (this.#isWindow) this.#readUse(context);
  }

  get isEmpty(): boolean {
    return this.#buckets.size === 0 && this.#waiting.length === 0 && this.#holders.size === 0;
  }

  /** The limits of the newest policy are in force. */
  setLimits({ revision, limits }: RecordRef): void {
    if (revision < this.#revision) return;
    this.#revision = revision;
    this.#limits = limits;
  }

  /** Removes use that no longer counts, and what is lent to terms that are over. */
  advance(context: CallContext): void {
    const { nowMs } = context;
    let mustRead = false;
    for (const [term, { lent }] of this.#holders) {
      const life = context.findLife(term);
      if (life.kind === "alive") continue;
      if (this.#isWindow) {
        mustRead = this.#endWindowLoan(term, lent, { life, nowMs }) || mustRead;
        continue;
      }
      // The term may have used all of it up to its end.
      for (const meter of METER_NOS) {
        if (meter === SLOTS) continue;
        this.#book(meter, life.sinceMs, lent[meter]);
        lent[meter] = 0;
      }
      if (life.kind !== "silent" || lent[SLOTS] === 0) this.#holders.delete(term);
    }
    if (mustRead) this.#readUse(context);
    for (const [no] of this.#buckets)
      if ((no + 1) * this.#widthMs <= nowMs - this.#perMs) this.#buckets.delete(no);
    this.#waiting = this.#waiting.filter(
      ({ term, untilMs }) => untilMs > nowMs && context.findLife(term).kind === "alive",
    );
    if (this.#waiting.length === 0)
      for (const [term, { lent }] of this.#holders)
        if (lent.every((amount) => amount === 0) && context.findLife(term).kind !== "dead")
          this.#holders.delete(term);
  }

  /**
   * What is lent of a window stays lent until the usage of the term is stored: then the sums contain what it did not
   * report. The usage of a dead process may be in its folder, which is waited for, but not for ever. Should it return
   * later, the sums are read again. Returns whether they must be read.
   */
  #endWindowLoan(
    term: string,
    lent: Triple<number>,
    { life, nowMs }: { life: Exclude<TermLife, { kind: "alive" }>; nowMs: number },
  ): boolean {
    const isLent = lent.some((amount) => amount > 0);
    switch (life.kind) {
      case "silent":
        return false;
      case "dead":
        if (nowMs <= life.sinceMs + FOLDER_RETURNS_MS) return false;
        lent.fill(0);
        return isLent;
      default:
        this.#holders.delete(term);
        return isLent || life.kind === "recovered";
    }
  }

  report({ meter, used, refunds, returned, confirms }: MeterReport, { term, bookMs }: CallContext): void {
    if (!this.isSlots(meter)) this.#book(meter, bookMs, used);
    for (const [no, amount] of refunds) {
      const bucket = this.#buckets.get(no);
      if (bucket !== undefined) bucket.used[meter] -= Math.min(bucket.used[meter], amount);
    }
    const { lent, confirmed } = this.#hold(term);
    lent[meter] = Math.max(0, lent[meter] - used - returned);
    // A higher number is from a record that was deleted since.
    if (confirms <= this.#recalls[meter]) confirmed[meter] = Math.max(confirmed[meter], confirms);
  }

  declare(meter: MeterNo, lent: number, context: CallContext): void {
    this.#hold(context.term).lent[meter] = lent;
  }

  declareUse(meter: MeterNo, atMs: number, amount: number): void {
    if (!this.#isWindow && meter !== SLOTS) this.#book(meter, atMs, amount);
  }

  /** Lends to waiting requests, and informs those that nothing more can be recalled for. */
  serve(context: CallContext): void {
    this.#waiting = this.#waiting.filter((waiting) => {
      const { term, key, meter, least, recall } = waiting;
      if (context.isClosed(this.#isMinute(meter))) return true;
      if (this.free(meter) >= least) {
        this.#hold(term).lent[meter] += least;
        context.note(term, this.ref, meter, { kind: "grant", key });
        return false;
      }
      if (this.isSlots(meter) || this.#mayGrow(meter, waiting, context, recall)) return true;
      context.note(term, this.ref, meter, { kind: "final", key });
      return false;
    });
  }

  /** Whether a term without this recall's response holds some of the meter. */
  #mayGrow(meter: MeterNo, { term }: WaitingRequest, context: CallContext, recall: number): boolean {
    for (const [holder, { lent, confirmed }] of this.#holders)
      if (
        holder !== term &&
        lent[meter] > 0 &&
        confirmed[meter] < recall &&
        context.findLife(holder).kind === "alive"
      )
        return true;
    return false;
  }

  canLend(meter: MeterNo, least: number, { key, context }: { key: string; context: CallContext }): boolean {
    if (this.free(meter) < least) return false;
    if (!this.isSlots(meter)) return true;
    return !this.#waiting.some(
      (waiting) => waiting.meter === meter && (waiting.term !== context.term || waiting.key !== key),
    );
  }

  isClosed(meter: MeterNo, context: CallContext): boolean {
    return context.isClosed(this.#isMinute(meter));
  }

  /** The node's slice bounds only what exceeds the need of its request. */
  lend(
    { meter, need, most }: { meter: MeterNo; need: number; most: number },
    key: string,
    { term }: CallContext,
  ): void {
    const free = this.free(meter);
    let holders = 1;
    for (const [holder, { lent }] of this.#holders) if (holder !== term && lent[meter] > 0) holders += 1;
    const slice = Math.floor(free / (2 * holders));
    this.#hold(term).lent[meter] += Math.min(free, Math.max(need, Math.min(most, slice)));
    this.#waiting = this.#waiting.filter(
      (waiting) => waiting.meter !== meter || waiting.term !== term || waiting.key !== key,
    );
  }

  /** Returns false if no other node can return anything. */
  wait(
    { meter, least }: { meter: MeterNo; least: number },
    key: string,
    { context, limits }: { context: CallContext; limits: CoordinatorLimits },
  ): boolean {
    const limit = this.#limits[meter];
    if (limit !== null && limit < least) return false;
    const { term, nowMs } = context;
    const waiting = this.#waiting.filter((one) => one.meter === meter);
    if (this.isSlots(meter)) {
      if (waiting.length === 0) this.#recall(meter, context);
      this.#enqueue({ term, key, meter, least, recall: 0, untilMs: nowMs + limits.slotWaitMs }, limits);
      return true;
    }
    const isHeld = [...this.#holders].some(
      ([holder, { lent }]) => holder !== term && lent[meter] > 0 && context.findLife(holder).kind === "alive",
    );
    if (!isHeld) return false;
    // One recall at a time: a later asker joins the one that is under way.
    const isRecalled = waiting.some((one) => one.term !== term && one.recall === this.#recalls[meter]);
    if (!isRecalled) this.#recall(meter, context);
    const recall = this.#recalls[meter];
    // An asker has nothing idle.
    this.#hold(term).confirmed[meter] = recall;
    this.#enqueue({ term, key, meter, least, recall, untilMs: nowMs + limits.recallWaitMs }, limits);
    return true;
  }

  #recall(meter: MeterNo, context: CallContext): void {
    this.#recalls[meter] += 1;
    const about = { kind: "recall", no: this.#recalls[meter] } as const;
    for (const [holder, { lent }] of this.#holders)
      if (holder !== context.term && lent[meter] > 0 && context.findLife(holder).kind === "alive")
        context.note(holder, this.ref, meter, about);
  }

  #enqueue(request: WaitingRequest, { waitingMax }: CoordinatorLimits): void {
    const { term, key, meter } = request;
    const present = this.#waiting.find((one) => one.term === term && one.key === key && one.meter === meter);
    if (present !== undefined) Object.assign(present, request);
    else if (this.#waiting.length < waitingMax) this.#waiting.push(request);
  }

  free(meter: MeterNo): number {
    const limit = this.#limits[meter];
    if (limit === null) return Number.MAX_SAFE_INTEGER;
    let free = limit - this.#sumUsed(meter);
    for (const { lent } of this.#holders.values()) free -= lent[meter];
    return free;
  }

  /** When so much use has expired that this amount is free; null if that is not enough. */
  findFreeTime(meter: MeterNo, amount: number, nowMs: number): number | null {
    if (this.isSlots(meter)) return null;
    let missing = amount - this.free(meter);
    for (const { no, used } of [...this.#buckets.values()].sort((a, b) => a.no - b.no)) {
      missing -= used[meter];
      if (missing <= 0) return this.#expiresMs(no) - nowMs;
    }
    return null;
  }

  read({ term, nowMs, bookMs }: CallContext): RecordState {
    const newestNo = Math.max(...this.#buckets.keys());
    const [first, second, third] = METER_NOS.map((meter): MeterState => {
      const used = this.#sumUsed(meter);
      return {
        lent: this.#holders.get(term)?.lent[meter] ?? 0,
        free: this.free(meter),
        used,
        resetMs: used > 0 ? Math.max(0, this.#expiresMs(newestNo) - nowMs) : 0,
        hasOthersWaiting: this.#waiting.some((one) => one.meter === meter && one.term !== term),
      };
    }) as Triple<MeterState>;
    return { bucketNo: Math.floor(bookMs / this.#widthMs), meters: [first, second, third] };
  }

  #expiresMs(bucketNo: number): number {
    return (bucketNo + 1) * this.#widthMs + this.#perMs;
  }

  isSlots(meter: MeterNo): boolean {
    return meter === SLOTS && !this.#isWindow;
  }

  #isMinute(meter: MeterNo): boolean {
    return meter !== SLOTS && !this.#isWindow;
  }

  #sumUsed(meter: MeterNo): number {
    let sum = 0;
    for (const { used } of this.#buckets.values()) sum += used[meter];
    return sum;
  }

  #hold(term: string): Holder {
    let holder = this.#holders.get(term);
    if (holder === undefined) {
      holder = { lent: [0, 0, 0], confirmed: [0, 0, 0] };
      this.#holders.set(term, holder);
    }
    return holder;
  }

  #book(meter: MeterNo, atMs: number, amount: number): void {
    if (amount === 0) return;
    const no = Math.floor(atMs / this.#widthMs);
    const bucket = this.#buckets.get(no);
    if (bucket !== undefined) {
      bucket.used[meter] += amount;
      return;
    }
    const used: Triple<number> = [0, 0, 0];
    used[meter] = amount;
    this.#buckets.set(no, { no, used });
  }

  #readUse(context: CallContext): void {
    this.#buckets.clear();
    for (const { no, used } of context.readUse(this.ref))
      for (const meter of METER_NOS) this.#book(meter, no * this.#widthMs, used[meter]);
  }
}
