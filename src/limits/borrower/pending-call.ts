/** One exchange with the coordinator, from what is sent to what its reply means. A repeat sends the same content. */

import type {
  AskResult,
  ExchangeCall,
  ExchangeReply,
  MeterAsk,
  MeterReport,
} from "../coordinator/protocol.ts";
import type { BorrowedRecord, RecordHolding } from "./borrowed-record.ts";
import type { BorrowerTiming } from "./borrower-timing.ts";
import type { UseBatch } from "./holding.ts";

/** The position of a record in the call; adds it if it is new. */
export type RecordIndex = (record: BorrowedRecord) => number;

/** What wants to borrow: a waiting request, or the refill of a meter. */
export interface AskSource {
  /** Null if nothing is lacking any more. */
  buildAsk(indexOf: RecordIndex, nowMs: number): MeterAsk | null;
  onResult(result: AskResult, nowMs: number): void;
}

type CallBounds = Pick<BorrowerTiming, "recordsPerCallMax" | "refundsPerCallMax" | "windowsPerCallMax">;

type OkReply = Extract<ExchangeReply, { kind: "ok" }>;

export class PendingCall {
  /** How often it was sent. */
  attempts = 0;
  readonly #records: BorrowedRecord[] = [];
  readonly #indexByRecord = new Map<BorrowedRecord, number>();
  readonly #items: MeterReport[] = [];
  readonly #sent: { readonly holding: RecordHolding; readonly batches: UseBatch[] }[] = [];
  readonly #asks: MeterAsk[] = [];
  readonly #sources: AskSource[] = [];
  #refundCount = 0;
  #windowCount = 0;

  readonly #indexOf: RecordIndex = (record) => {
    let index = this.#indexByRecord.get(record);
    if (index === undefined) {
      index = this.#records.push(record) - 1;
      this.#indexByRecord.set(record, index);
      if (record.perMs !== null) this.#windowCount += 1;
      this.#report(record, index);
    }
    return index;
  };

  get records(): readonly BorrowedRecord[] {
    return this.#records;
  }

  get isEmpty(): boolean {
    return this.#records.length === 0;
  }

  has(record: BorrowedRecord): boolean {
    return this.#indexByRecord.has(record);
  }

  isFull({ recordsPerCallMax, refundsPerCallMax, windowsPerCallMax }: CallBounds): boolean {
    return (
      Math.max(this.#records.length, this.#asks.length) >= recordsPerCallMax ||
      this.#refundCount >= refundsPerCallMax ||
      this.#windowCount >= windowsPerCallMax
    );
  }

  addRecord(record: BorrowedRecord): void {
    this.#indexOf(record);
  }

  addAsk(source: AskSource, nowMs: number): void {
    const ask = source.buildAsk(this.#indexOf, nowMs);
    if (ask === null) return;
    this.#asks.push(ask);
    this.#sources.push(source);
  }

  build(): Pick<ExchangeCall, "records" | "items" | "asks"> {
    return {
      records: this.#records.map((record) => record.buildRef()),
      items: this.#items,
      asks: this.#asks,
    };
  }

  /** Everything in the reply is absolute, so that a repeat may respond as well. */
  apply({ states, results }: OkReply, nowMs: number, contendedMs: number): void {
    for (const [index, record] of this.#records.entries()) {
      const state = states[index];
      if (state === undefined) continue;
      for (const holding of record.holdings) holding.apply(state.meters[holding.meter], nowMs, contendedMs);
    }
    for (const { holding, batches } of this.#sent) {
      const state = states[this.#indexByRecord.get(holding.record) ?? -1];
      if (state === undefined) continue;
      for (const batch of batches) {
        // The reply to a repeat does not say where the first attempt was booked, so nothing is refunded.
        if (this.attempts > 1) batch.status = "void";
        else holding.noteBooked(batch, state.bucketNo);
      }
    }
    for (const [index, source] of this.#sources.entries()) {
      const result = results[index];
      if (result !== undefined) source.onResult(result, nowMs);
    }
  }

  /** The term has ended before the reply: what was sent is void, and the asks are sent again. */
  abandon(nowMs: number): void {
    for (const { batches } of this.#sent) for (const batch of batches) batch.status = "void";
    for (const { record, meter, used } of this.#items) this.#records[record]?.find(meter)?.restoreUse(used);
    for (const source of this.#sources) source.onResult({ kind: "repeated" }, nowMs);
  }

  #report(record: BorrowedRecord, index: number): void {
    for (const holding of record.holdings) {
      const batches: UseBatch[] = [];
      const item = holding.takeReport(index, batches);
      if (item !== null) {
        this.#items.push(item);
        this.#refundCount += item.refunds.length;
      }
      if (batches.length > 0) this.#sent.push({ holding, batches });
    }
  }
}
