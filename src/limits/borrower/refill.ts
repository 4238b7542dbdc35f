/** Borrows for later requests, so that they need not wait. */

import type { AskResult, MeterAsk } from "../coordinator/protocol.ts";
import type { BorrowedRecord, RecordHolding } from "./borrowed-record.ts";
import type { AskSource, RecordIndex } from "./pending-call.ts";

export function listRefills(
  records: Iterable<BorrowedRecord>,
  nowMs: number,
  exhaustedMs: number,
): AskSource[] {
  const refills: AskSource[] = [];
  for (const { holdings } of records)
    for (const holding of holdings) {
      const amount = holding.max === Number.POSITIVE_INFINITY ? 0 : holding.computeRefill(nowMs);
      if (amount > 0) refills.push(new Refill(holding, amount, exhaustedMs));
    }
  return refills;
}

class Refill implements AskSource {
  readonly #holding: RecordHolding;
  readonly #amount: number;
  readonly #exhaustedMs: number;

  constructor(holding: RecordHolding, amount: number, exhaustedMs: number) {
    this.#holding = holding;
    this.#amount = amount;
    this.#exhaustedMs = exhaustedMs;
  }

  buildAsk(indexOf: RecordIndex): MeterAsk {
    const { record, meter } = this.#holding;
    const want = { record: indexOf(record), meter, least: 1, need: 1, most: this.#amount };
    return { mode: "refill", key: "", wants: [want] };
  }

  onResult(result: AskResult, nowMs: number): void {
    if (result.kind === "refused") this.#holding.refillAfterMs = nowMs + this.#exhaustedMs;
  }
}
