/** Proves that the books agree with each other, or names what does not. */

import type { Log } from "../observe/log.ts";
import { type AuditBreak, verifyAudit } from "../store/audit.ts";
import {
  type BookCounts,
  type Contradiction,
  countBooks,
  entriesWithoutRow,
  oldHolds,
  overspent,
  refundedTooMuch,
  rowsWithoutEntry,
  wrongBalances,
  wrongHeld,
  wrongRollUps,
  wrongSharedCharges,
} from "../store/books.ts";
import { type Db, snapshot } from "../store/db.ts";
import { wrongDays } from "../store/folded-days.ts";
import { wrongWindows } from "../store/subscription-windows.ts";
import { readUsageRowsRemovedBefore } from "../store/usage-removal.ts";

export interface AuditFinding extends Contradiction {
  /** What was compared, such as `balance`. */
  check: string;
}

export interface AuditReport {
  /** At most `findingsMax` a check. */
  findings: AuditFinding[];
  counts: BookCounts;
  /** The log of changes: how long it is, and the hash of its end. Whoever keeps that can prove the log later. */
  changes: { entries: number; head: string };
}

export interface AuditOptions {
  nowMs: number;
  holdLeaseMs: number;
  findingsMax: number;
}

/** Of one moment: what is booked meanwhile does not disturb it. */
export async function audit(db: Db, { nowMs, holdLeaseMs, findingsMax }: AuditOptions): Promise<AuditReport> {
  return snapshot(db, async (tx) => {
    const rowsSinceMs = await readUsageRowsRemovedBefore(tx);
    const findings: AuditFinding[] = [];
    const add = (check: string, found: readonly Contradiction[]) => {
      for (const one of found) findings.push({ check, ...one });
    };
    add("balance", await wrongBalances(tx, findingsMax));
    add("held", await wrongHeld(tx, findingsMax));
    add("available", await overspent(tx, findingsMax));
    add("row_entry", await rowsWithoutEntry(tx, findingsMax));
    add("entry_row", await entriesWithoutRow(tx, rowsSinceMs, findingsMax));
    add("shared_charge", await wrongSharedCharges(tx, rowsSinceMs, findingsMax));
    add("refund", await refundedTooMuch(tx, rowsSinceMs, findingsMax));
    add("roll_up", await wrongRollUps(tx, rowsSinceMs, findingsMax));
    add("days", await wrongDays(tx, nowMs, findingsMax));
    add("hold_lease", await oldHolds(tx, nowMs - holdLeaseMs, findingsMax));
    const windows = await wrongWindows(tx, findingsMax);
    add(
      "window",
      windows.map(({ subscriptionId, per, startsAtMs, is, ought }) => ({
        subject: `${subscriptionId} ${per} ${startsAtMs}`,
        is: `used ${is.usedNano} held ${is.heldNano}`,
        ought: `used ${ought.usedNano} held ${ought.heldNano}`,
      })),
    );
    const chain = await verifyAudit(tx, findingsMax);
    add("changes", chain.broken.map(contradictionOf));
    return {
      findings,
      counts: await countBooks(tx),
      changes: { entries: chain.rows, head: chain.head },
    };
  });
}

function contradictionOf({ seq, kind }: AuditBreak): Contradiction {
  return { subject: `entry ${seq}`, is: kind, ought: "as it was written" };
}

const LOGGED_MAX = 20;

export function logAudit(log: Log, { findings, counts, changes }: AuditReport): void {
  // The end of the chain stands in the log too, where whoever changes the store does not reach it.
  if (findings.length === 0) {
    log.info("audit_passed", { ...counts, changes: changes.entries, changes_head: changes.head });
  }
  for (const { check, subject, is, ought } of findings.slice(0, LOGGED_MAX)) {
    log.error("audit_failed", { check, subject, is, ought, findings: findings.length });
  }
}
