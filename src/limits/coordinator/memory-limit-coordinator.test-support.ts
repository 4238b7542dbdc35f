/** The coordinator of nodes within one process, and the reference for the ones on servers. */

import { type CoordinatorLimits, checkDeclaration, checkExchange } from "./coordinator-limits.ts";
import { type CallTime, CoordinatorEpoch } from "./epoch.test-support.ts";
import { type Bucket, type CallContext, MeterRecord } from "./meter-record.test-support.ts";
import type {
  AskResult,
  DeclareCall,
  DeclareReply,
  ExchangeCall,
  ExchangeReply,
  LimitCoordinator,
  LimitNote,
  MeterAsk,
  MeterWant,
  NoteSubscription,
  OpenEpochCall,
  OpenTermCall,
  OpenTermReply,
  RecordId,
  RecordKind,
  RecordRef,
} from "./protocol.ts";
import { nameRecord } from "./record-name.ts";

export interface MemoryLimitCoordinatorOptions {
  /** The clock of the server that this coordinator stands for. */
  serverMs(): number;
  newId(): string;
  readonly limits: CoordinatorLimits;
  /** All records unless set. */
  readonly serves?: readonly RecordKind[];
  /** The stored usage of a window, by bucket. Rows have the time of the server, which is this much behind. */
  readUse?(record: RecordId, behindMs: number): readonly Bucket[];
}

type NoteListener = (note: LimitNote) => void;

export class MemoryLimitCoordinator implements LimitCoordinator {
  readonly kind = "memory";
  readonly serves: readonly RecordKind[];
  readonly #options: MemoryLimitCoordinatorOptions;
  readonly #records = new Map<string, MeterRecord>();
  readonly #listeners = new Map<string, Set<NoteListener>>();
  #epoch: CoordinatorEpoch | null = null;

  constructor(options: MemoryLimitCoordinatorOptions) {
    this.#options = options;
    this.serves = options.serves ?? ["rates", "window"];
  }

  async openTerm(call: OpenTermCall): Promise<OpenTermReply> {
    const epoch = this.#epoch ?? this.#beginEpoch();
    return epoch.openTerm(this.#options.serverMs(), call);
  }

  async declare(call: DeclareCall): Promise<DeclareReply> {
    checkDeclaration(call, this.#options.limits);
    const epoch = this.#epoch;
    if (epoch === null) return { kind: "gone" };
    const accepted = epoch.accept(this.#options.serverMs(), call, "declare");
    if (accepted === null || accepted.kind === "undeclared") return { kind: "gone" };
    const { time } = accepted;
    if (accepted.kind === "new") this.#applyDeclaration(epoch, call, time);
    return { kind: "ok", nowMs: time.serverMs, isOpen: epoch.isOpen };
  }

  async exchange(call: ExchangeCall): Promise<ExchangeReply> {
    checkExchange(call, this.#options.limits);
    // PostgreSQL rejects it as well, and the node would repeat it until its term is over.
    if (new Set(call.records.map(nameRecord)).size < call.records.length)
      throw new Error("A call names a record twice.");
    if (this.#epoch === null) {
      this.#beginEpoch();
      return { kind: "declare" };
    }
    const epoch = this.#epoch;
    const accepted = epoch.accept(this.#options.serverMs(), call, "exchange");
    if (accepted === null) return { kind: "gone" };
    if (accepted.kind === "undeclared") return { kind: "declare" };
    const { time } = accepted;
    const isNew = accepted.kind === "new";
    const context = this.#createContext(epoch, call.term, time);
    const records = this.#findRecords(call.records, context);
    if (isNew) for (const item of call.items) records[item.record]?.report(item, context);
    for (const record of records) record.serve(context);
    const results = call.asks.map(
      (ask): AskResult => (isNew ? this.#ask(ask, records, context) : { kind: "repeated" }),
    );
    return {
      kind: "ok",
      nowMs: time.serverMs,
      isOpen: epoch.isOpen,
      states: records.map((record) => record.read(context)),
      results,
    };
  }

  async openEpoch(call: OpenEpochCall): Promise<boolean> {
    return this.#epoch?.tryToOpen(call) ?? false;
  }

  async endTerm(term: string): Promise<void> {
    this.#epoch?.endTerm(term);
  }

  async bury(process: string): Promise<void> {
    this.#epoch?.bury(process);
  }

  async listProcesses(): Promise<readonly string[]> {
    return this.#epoch?.listProcesses() ?? [];
  }

  async sweep(): Promise<void> {
    const epoch = this.#epoch;
    const nowMs = epoch?.certainMs ?? null;
    if (epoch === null || nowMs === null) return;
    const context = this.#createContext(epoch, "", { nowMs, bookMs: nowMs });
    for (const [name, record] of this.#records) {
      record.advance(context);
      if (record.isEmpty) this.#records.delete(name);
    }
    epoch.sweep(nowMs);
  }

  subscribe(
    process: string,
    { onNote, onConnected }: Parameters<LimitCoordinator["subscribe"]>[1],
  ): NoteSubscription {
    const listeners = this.#listeners.get(process) ?? new Set();
    this.#listeners.set(process, listeners.add(onNote));
    onConnected();
    return { stop: async () => void listeners.delete(onNote) };
  }

  async close(): Promise<void> {}

  /** As after a crash: rates, terms and the epoch are lost; windows are stored. */
  loseState(): void {
    this.#epoch = null;
    for (const [name, { ref }] of this.#records) if (ref.perMs === null) this.#records.delete(name);
  }

  #beginEpoch(): CoordinatorEpoch {
    this.#epoch = new CoordinatorEpoch(this.#options.newId(), this.#options.limits);
    return this.#epoch;
  }

  #applyDeclaration(epoch: CoordinatorEpoch, call: DeclareCall, time: CallTime): void {
    const context = this.#createContext(epoch, call.term, time);
    const records = this.#findRecords(call.records, context);
    for (const { record, meter, lent, usedAgo } of call.holdings) {
      const held = records[record];
      held?.declare(meter, lent, context);
      for (const [agoMs, amount] of usedAgo) held?.declareUse(meter, time.bookMs - agoMs, amount);
    }
    if (call.last !== null) epoch.finishDeclaration(call.term, call.last);
  }

  #createContext(
    epoch: CoordinatorEpoch,
    term: string,
    { nowMs, bookMs }: Pick<CallTime, "nowMs" | "bookMs">,
  ): CallContext {
    return {
      nowMs,
      bookMs,
      term,
      isClosed: (isMinute) => !(isMinute ? epoch.areMinutesOpen(nowMs) : epoch.isOpen),
      findLife: (id) => epoch.findLife(id, nowMs),
      readUse: (record) => this.#options.readUse?.(record, epoch.behindMs) ?? [],
      note: (holder, record, meter, about) => {
        const listeners = this.#listeners.get(epoch.findProcess(holder) ?? "") ?? [];
        // Delivered after the call, as by a server.
        for (const listener of listeners)
          queueMicrotask(() => listener({ term: holder, record, meter, about }));
      },
    };
  }

  #findRecords(refs: readonly RecordRef[], context: CallContext): MeterRecord[] {
    return refs.map((ref) => {
      const name = nameRecord(ref);
      let record = this.#records.get(name);
      if (record === undefined) {
        record = new MeterRecord(ref, context);
        this.#records.set(name, record);
      }
      record.setLimits(ref);
      record.advance(context);
      return record;
    });
  }

  /** All wants or none. An ask that waits holds nothing meanwhile. */
  #ask({ mode, key, wants }: MeterAsk, records: readonly MeterRecord[], context: CallContext): AskResult {
    const find = ({ record }: MeterWant) => {
      const found = records[record];
      if (found === undefined) throw new Error("An ask names a record that the call does not have.");
      return found;
    };
    if (wants.some((want) => find(want).isClosed(want.meter, context))) return { kind: "closed" };
    const lacks = wants.findIndex((want) => !find(want).canLend(want.meter, want.least, { key, context }));
    const lacking = wants[lacks];
    if (lacking === undefined) {
      for (const want of wants) find(want).lend(want, key, context);
      return { kind: "granted" };
    }
    const record = find(lacking);
    const mayWait = mode === "wait" || (mode === "final" && record.isSlots(lacking.meter));
    const { limits } = this.#options;
    if (mayWait && record.wait(lacking, key, { context, limits })) return { kind: "waiting", lacks };
    const freesInMs = record.findFreeTime(lacking.meter, lacking.least, context.nowMs);
    return { kind: "refused", lacks, freesInMs };
  }
}
