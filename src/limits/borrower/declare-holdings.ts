/** What a process declares at the begin of a term, in batches. */

import type { DeclareCall, MeterHolding, RecordRef } from "../coordinator/protocol.ts";
import type { BorrowedRecord, RecordHolding } from "./borrowed-record.ts";
import type { BorrowerTiming } from "./borrower-timing.ts";
import type { RenewalTerms } from "./holding.ts";

type Batch = Pick<DeclareCall, "records" | "holdings">;

type BatchBounds = Pick<BorrowerTiming, "holdingsPerBatchMax" | "windowsPerCallMax">;

interface Declaration {
  /** At least one. */
  readonly batches: readonly Batch[];
  readonly held: readonly { readonly holding: RecordHolding; readonly lent: number }[];
}

export function declareHoldings(
  records: Iterable<BorrowedRecord>,
  { terms, timing }: { terms: RenewalTerms; timing: BatchBounds },
): Declaration {
  const held: { holding: RecordHolding; lent: number }[] = [];
  const batches: Batch[] = [];
  let refs: RecordRef[] = [];
  let holdings: MeterHolding[] = [];
  let windows = 0;
  for (const record of records) {
    let index = -1;
    for (const holding of record.holdings) {
      const declared = holding.renew(terms);
      if (declared === null) continue;
      if (index === -1) index = refs.push(record.buildRef()) - 1;
      holdings.push({ record: index, ...declared });
      held.push({ holding, lent: declared.lent });
    }
    if (index !== -1 && record.perMs !== null) windows += 1;
    if (holdings.length < timing.holdingsPerBatchMax && windows < timing.windowsPerCallMax) continue;
    batches.push({ records: refs, holdings });
    refs = [];
    holdings = [];
    windows = 0;
  }
  batches.push({ records: refs, holdings });
  return { batches, held };
}
