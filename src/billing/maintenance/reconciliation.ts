/** Reconciliation: verifies that ledger, wallets, usage rows and roll-ups agree, or reports each contradiction. */

import type { Log } from "../../observe/log.ts";
import { type AuditLogBreak, verifyAuditLog } from "../../store/audit-log/audit-log.ts";
import { findWrongDays } from "../../store/checks/daily-rollups.ts";
import { findUnloggedEntries, findWrongLoggedEntries } from "../../store/checks/entries-in-audit-log.ts";
import { findWrongRollUps } from "../../store/checks/hourly-rollups.ts";
import {
  type Contradiction,
  countLedger,
  LEDGER_CHECKS,
  type LedgerCounts,
  runCheck,
} from "../../store/checks/ledger.ts";
import { type Db, snapshot } from "../../store/engine/db.ts";
import { listBillingFaults } from "../../store/money/billing-faults.ts";
import { SET_ASIDE_FAULT } from "../../store/money/set-aside-holds.ts";
import { findWrongWindows, type WrongWindow } from "../../store/money/subscription-windows.ts";
import { readUsageRowsRemovedBefore } from "../../store/usage/usage-removal.ts";

export interface ReconciliationFinding extends Contradiction {
  /** The check that failed, such as `balance`. */
  check: string;
}

export interface ReconciliationReport {
  /** At most `findingsMax` per check. */
  findings: ReconciliationFinding[];
  /** Faults outside of the database that contradict nothing in it, as text. */
  notes: string[];
  counts: LedgerCounts;
  /** Length of the audit log and hash of its last entry, which can prove later that it is unchanged. */
  changes: { entries: number; head: string };
}

interface ReconciliationOptions {
  nowMs: number;
  holdAgeMaxMs: number;
  findingsMax: number;
}

/**
 * Money is compared in one snapshot, so concurrent bookings do not disturb it. Usage sums, of which there are many,
 * are compared piece by piece.
 */
export async function reconcileLedger(
  db: Db,
  { nowMs, holdAgeMaxMs, findingsMax: max }: ReconciliationOptions,
): Promise<ReconciliationReport> {
  const findings: ReconciliationFinding[] = [];
  const add = (check: string, contradictions: readonly Contradiction[]) => {
    for (const contradiction of contradictions) findings.push({ check, ...contradiction });
  };
  const { counts, chain } = await snapshot(db, async (tx) => {
    const rowsSinceMs = await readUsageRowsRemovedBefore(tx);
    const options = { rowsSinceMs, holdsBeforeMs: nowMs - holdAgeMaxMs, limit: max };
    for (const check of LEDGER_CHECKS) add(check, await runCheck(tx, check, options));
    add("window", (await findWrongWindows(tx, max)).map(describeWrongWindow));
    const chain = await verifyAuditLog(tx, max);
    add("changes", chain.broken.map(describeBrokenChain));
    if (chain.broken.length === 0) {
      add("log_entry", await findWrongLoggedEntries(tx, max));
      add("entry_log", await findUnloggedEntries(tx, max));
    }
    return { counts: await countLedger(tx), chain };
  });
  add("roll_up", await findWrongRollUps(db, max));
  add("days", await findWrongDays(db, nowMs, max));
  const faults = await listBillingFaults(db, max);
  const notes = faults.filter(({ kind }) => kind !== SET_ASIDE_FAULT).map(({ detail }) => detail);
  return { findings, notes, counts, changes: { entries: chain.rows, head: chain.head } };
}

function describeWrongWindow({ subscriptionId, per, startsAtMs, is, ought }: WrongWindow): Contradiction {
  return {
    subject: `${subscriptionId} ${per} ${startsAtMs}`,
    is: `used ${is.usedNano} held ${is.heldNano}`,
    ought: `used ${ought.usedNano} held ${ought.heldNano}`,
  };
}

function describeBrokenChain({ seq, kind }: AuditLogBreak): Contradiction {
  return { subject: `entry ${seq}`, is: kind, ought: "unmodified" };
}

const LOGGED_MAX = 20;

export function logReconciliation(
  log: Log,
  { findings, notes, counts, changes }: ReconciliationReport,
): void {
  for (const note of notes.slice(0, LOGGED_MAX)) log.warn("audit_note", { note });
  // The hash of the last entry is also logged, where someone who changes the database cannot reach it.
  if (findings.length === 0) {
    log.info("audit_passed", { ...counts, changes: changes.entries, changes_head: changes.head });
  }
  for (const { check, subject, is, ought } of findings.slice(0, LOGGED_MAX)) {
    log.error("audit_failed", { check, subject, is, ought, findings: findings.length });
  }
}
