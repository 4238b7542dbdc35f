/**
 * A request that lacks something, from its first ask until it is served, rejected, or has to queue for a slot. It holds
 * nothing meanwhile. A request with limits at two coordinators asks both at once.
 */

import type { AskResult, MeterAsk, MeterWant } from "../coordinator/protocol.ts";
import type { Amounts } from "../limiter-types.ts";
import type { BorrowedSubject, RecordHolding } from "./borrowed-record.ts";
import type { BorrowerTimers } from "./borrower-timers.ts";
import type { BorrowerTiming } from "./borrower-timing.ts";
import type { CoordinatorLink } from "./coordinator-link.ts";
import type { AskSource, RecordIndex } from "./pending-call.ts";

/**
 * `taken`: `attempt` has succeeded. `blocked`: a slot is lacking, so the request has to queue. `rejected`: a limit over
 * time is used up. `lost`: the coordinator does not respond.
 */
export type BorrowOutcome = "taken" | "blocked" | "rejected" | "lost";

export interface BorrowTerms {
  /** The API key: waiting requests are served in turns of keys, over all nodes. */
  readonly key: string;
  readonly subjects: readonly BorrowedSubject[];
  /** Whether a slot of each subject is needed; a request that is already admitted has them. */
  readonly slots: "needed" | "held";
  amounts: Amounts;
  /** With less than this much money the request is rejected; with more its output is capped. */
  readonly leastNano: number;
  /** Takes what the request needs, if all of it is idle. `final`: it may take less money. */
  attempt(extent: "whole" | "final"): boolean;
}

interface BorrowingOptions {
  readonly timing: BorrowerTiming;
  readonly timers: BorrowerTimers;
  /** Null: the request waits in a queue of this node, which asks until it is stopped. */
  readonly onEnd: ((outcome: BorrowOutcome) => void) | null;
}

export class Borrowing {
  readonly terms: BorrowTerms;
  readonly parts: readonly BorrowPart[];
  readonly #options: BorrowingOptions;
  #isOver = false;

  constructor(terms: BorrowTerms, options: BorrowingOptions) {
    this.terms = terms;
    this.#options = options;
    const links = new Set(terms.subjects.flatMap(({ records }) => records.map(({ link }) => link)));
    this.parts = [...links].map((link) => new BorrowPart(this, link as CoordinatorLink, options));
    for (const part of this.parts) part.countWaiting(1);
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  get isQueued(): boolean {
    return this.#options.onEnd === null;
  }

  /** Less money than wanted may be taken: more cannot be had. */
  get mayCap(): boolean {
    return this.parts.every((part) => part.mayCap || part.listLacking().length === 0);
  }

  /** Something has changed: takes what is needed, or lets the parts that lack something ask again. */
  serve(): void {
    if (this.#isOver) return;
    const isWhole = this.parts.every((part) => part.listLacking().length === 0);
    const mayCap = !isWhole && this.mayCap;
    // A queue also has to know that its first request is rejected.
    const isExhausted = this.isQueued && this.parts.some((part) => part.takeRejection());
    if ((isWhole || mayCap || isExhausted) && this.terms.attempt(mayCap ? "final" : "whole"))
      this.end("taken");
    if (this.#isOver) return;
    for (const part of this.parts) part.askAgain();
  }

  /** The coordinator does not respond. What the node may use without it is decided by `attempt`. */
  serveWithout(): void {
    if (this.#isOver) return;
    if (this.terms.attempt("whole")) this.end("taken");
    else this.end(this.parts.every((part) => part.isDecidedHere) ? "rejected" : "lost");
  }

  end(outcome: BorrowOutcome): void {
    if (this.#isOver || this.isQueued) return;
    this.stop();
    this.#options.onEnd?.(outcome);
  }

  stop(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    for (const part of this.parts) part.stop();
  }
}

type PartStatus = "idle" | "new" | "sent" | "waiting";
/** A final ask was sent, or granted: then less money than wanted may be taken. */
type FinalStage = "none" | "due" | "granted";

/** What the request lacks at one coordinator. */
class BorrowPart implements AskSource {
  readonly link: CoordinatorLink;
  readonly #borrowing: Borrowing;
  readonly #options: BorrowingOptions;
  readonly #holdings: readonly RecordHolding[];
  #status: PartStatus = "new";
  #final: FinalStage = "none";
  #wasRejected = false;
  /** A note that has arrived before the reply to the ask that it is about. */
  #early: "grant" | "final" | null = null;
  #wants: readonly { readonly holding: RecordHolding; readonly want: MeterWant }[] = [];
  /** What others were asked to return. */
  #awaited: RecordHolding | null = null;
  #cancelTimer: (() => void) | null = null;

  constructor(borrowing: Borrowing, link: CoordinatorLink, options: BorrowingOptions) {
    this.#borrowing = borrowing;
    this.link = link;
    this.#options = options;
    const { subjects, slots } = borrowing.terms;
    this.#holdings = subjects
      .flatMap(({ records }) => records.filter((record) => record.link === link))
      .flatMap(({ holdings }) => holdings)
      .filter(({ kind }) => kind !== "slots" || slots === "needed");
  }

  get mayCap(): boolean {
    return this.#final === "granted";
  }

  get isNew(): boolean {
    return this.#status === "new";
  }

  /** Whether an ask was refused since the last call. */
  takeRejection(): boolean {
    const wasRejected = this.#wasRejected;
    this.#wasRejected = false;
    return wasRejected;
  }

  /** Whether this node knows what it may use: it reaches the coordinator, or each node uses its share. */
  get isDecidedHere(): boolean {
    if (this.link.loss === null) return this.link.state === "up";
    return this.#holdings.every(({ hasLossPart }) => hasLossPart);
  }

  countWaiting(by: 1 | -1): void {
    for (const holding of this.#holdings) holding.waiting += by;
  }

  listLacking(): RecordHolding[] {
    return this.#holdings.filter((holding) => this.#isLacking(holding));
  }

  buildAsk(indexOf: RecordIndex): MeterAsk | null {
    const lacking = this.listLacking();
    if (lacking.length === 0) {
      this.#status = "idle";
      return null;
    }
    this.#wants = lacking.map((holding) => ({ holding, want: this.#buildWant(holding, indexOf) }));
    this.#status = "sent";
    this.#early = null;
    this.#awaited = null;
    this.#cancelTimer?.();
    return {
      mode: this.#final === "none" ? "wait" : "final",
      key: this.#borrowing.terms.key,
      wants: this.#wants.map(({ want }) => want),
    };
  }

  onResult(result: AskResult, nowMs: number): void {
    if (this.#borrowing.isOver) return;
    this.#status = "idle";
    switch (result.kind) {
      case "granted":
        if (this.#final === "due") this.#final = "granted";
        return;
      case "repeated":
        this.#status = "new";
        return;
      case "closed":
        this.#wait(this.#options.timing.exchangeMs);
        return;
      case "waiting":
        this.#noteWaiting(result.lacks);
        if (this.#early !== null && !this.#borrowing.isOver) this.wake(this.#early);
        return;
      case "refused":
        this.#noteRejected(result, nowMs);
    }
  }

  /** A note says that something was lent, or that nothing more will come. */
  wake(about: "grant" | "final"): void {
    if (this.#status === "sent") {
      if (this.#early !== "final") this.#early = about;
      return;
    }
    this.#status = about === "final" ? "new" : "idle";
    if (about === "final") this.#final = "due";
    for (const { holding } of this.#wants) holding.record.noteUrgent();
  }

  /** Sends an ask unless one is on its way, or others have been asked to return what they do not use. */
  askAgain(): void {
    // It may arrive before the reply to the ask, and its note with it.
    const hasArrived = this.#awaited !== null && !this.#isLacking(this.#awaited);
    if (this.#status === "waiting" && hasArrived) this.#status = "idle";
    if (this.#status === "idle" && this.listLacking().length > 0) this.#status = "new";
    if (this.#status === "new") this.link.sendSoon();
  }

  stop(): void {
    this.#cancelTimer?.();
    this.countWaiting(-1);
  }

  #isLacking(holding: RecordHolding): boolean {
    const amount = holding.computeNeed(this.#borrowing.terms.amounts);
    return amount > 0 && holding.idle < amount;
  }

  #buildWant(holding: RecordHolding, indexOf: RecordIndex): MeterWant {
    const { leastNano, amounts } = this.#borrowing.terms;
    const need = holding.computeNeed(amounts) - Math.max(0, holding.idle);
    const isCapped = this.#final !== "none" && holding.unit === "nano";
    const least = isCapped ? Math.min(need, Math.max(0, leastNano - Math.max(0, holding.idle))) : need;
    const later =
      holding.kind === "slots" ? Math.min(holding.waiting, WAITING_MAX) : holding.computeReserve();
    return {
      record: indexOf(holding.record),
      meter: holding.meter,
      least,
      need,
      most: Math.max(need, later),
    };
  }

  #noteWaiting(lacks: number): void {
    const { timing } = this.#options;
    this.#returnSlots();
    this.#awaited = this.#wants[lacks]?.holding ?? null;
    if (this.#awaited?.kind === "slots") {
      if (this.#borrowing.isQueued) this.#wait(timing.slotAskMs);
      else this.#borrowing.end("blocked");
      return;
    }
    this.#wait(timing.recallMs, () => {
      this.#final = "due";
    });
  }

  #noteRejected({ lacks, freesInMs }: Extract<AskResult, { kind: "refused" }>, nowMs: number): void {
    const { timing } = this.#options;
    const lacking = this.#wants[lacks];
    this.#returnSlots();
    const { leastNano, amounts } = this.#borrowing.terms;
    const isMoney = lacking?.holding.unit === "nano";
    if (isMoney && this.#final === "none" && leastNano < lacking.holding.computeNeed(amounts)) {
      this.#final = "due";
      this.#status = "new";
      return;
    }
    if (lacking !== undefined) {
      lacking.holding.exhaustedUntilMs = nowMs + timing.exhaustedMs;
      lacking.holding.freesAtMs = freesInMs === null ? null : nowMs + freesInMs;
    }
    this.#wasRejected = true;
    this.#borrowing.end("rejected");
  }

  /** A request that lacks something keeps no slot meanwhile, if few are free. */
  #returnSlots(): void {
    for (const holding of this.#holdings) {
      const isOwn = holding.kind === "slots" && holding.record.subject.scope === "key";
      if (isOwn && holding.isScarce) holding.giveBack(holding.idle);
    }
  }

  #wait(ms: number, before: () => void = () => {}): void {
    this.#status = "waiting";
    this.#cancelTimer?.();
    this.#cancelTimer = this.#options.timers.after(ms, () => {
      if (this.#borrowing.isOver || this.#status !== "waiting") return;
      before();
      this.#status = "new";
      this.link.sendSoon();
    });
  }
}

const WAITING_MAX = 50;
