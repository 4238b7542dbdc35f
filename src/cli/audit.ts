/** `model-gateway audit`: reconciles ledger, wallets, usage rows and roll-ups, and verifies the audit log. */

import { type ReconciliationFinding, reconcileLedger } from "../billing/maintenance/reconciliation.ts";
import { limits } from "../config/limits/product-limits.ts";
import { type CommandDefinition, DATA_OPTION, JSON_OPTION } from "./command.ts";
import { shortInstant } from "./instants.ts";
import { formatUsd } from "./money-input.ts";
import { withInstallation } from "./store-access.ts";
import { count } from "./terminal.ts";

const FINDINGS_MAX = 100;

export const auditLedger: CommandDefinition = {
  changes: "nothing",
  about:
    "Compares balances, holds, ledger entries, usage rows and roll-ups, and verifies the hash chain of the audit log.\nLists every inconsistency and exits with 1, or with 0 if there is none. Does not change any data.",
  options: { data: DATA_OPTION, json: JSON_OPTION },
  run: (input) =>
    withInstallation(input, async ({ db, clock }) => {
      const { print, printNote: remark, paint } = input.terminal;
      const report = await reconcileLedger(db, {
        nowMs: clock.nowMs(),
        holdAgeMaxMs: limits.holdAgeMaxMs,
        findingsMax: FINDINGS_MAX,
      });
      const { findings, notes, counts, changes } = report;
      const exitCode = findings.length === 0 ? 0 : 1;
      if (input.flag("json")) {
        print(JSON.stringify(report));
        return exitCode;
      }
      for (const note of notes) remark(`! ${note}`);
      if (findings.length === 0) {
        const compared = [
          count(counts.wallets, "wallet"),
          `${counts.entries.toLocaleString("en")} ${counts.entries === 1 ? "entry" : "entries"}`,
          count(counts.holds, "open hold"),
          count(counts.rows, "request"),
        ];
        print(`${paint.green("✓")} Ledger check passed: ${compared.join(", ")}.`);
        const log = `${changes.entries.toLocaleString("en")} ${changes.entries === 1 ? "entry" : "entries"}`;
        print(`${paint.green("✓")} Audit log check passed: ${log}.`);
        if (changes.head !== "") print(paint.dim(`  Last hash: ${changes.head}`));
        return exitCode;
      }
      for (const finding of findings) print(`${paint.red("✗")} ${findingText(finding)}`);
      remark(
        `\n${findings.length} ${findings.length === 1 ? "inconsistency" : "inconsistencies"} found. No data was changed. Back up the database before you repair it.`,
      );
      return exitCode;
    }),
};

export function findingText({ check, subject, is, ought }: ReconciliationFinding): string {
  const usd = (nano: string) => formatUsd(BigInt(nano));
  switch (check) {
    case "balance":
      return `${subject} has a balance of ${usd(is)}, but its ledger entries add up to ${usd(ought)}.`;
    case "held":
      return `${subject} has ${usd(is)} held, but its open holds add up to ${usd(ought)}.`;
    case "available":
      return `${subject} has a balance of ${usd(is)}, but ${usd(ought)} is held.`;
    case "entry":
      return `${subject} is posted from ${is}, which is invalid for an entry of kind ${ought}.`;
    case "code":
      return ought === "0"
        ? `${subject} credits ${usd(is)}, but no code was redeemed for it.`
        : `${subject} is a code that was redeemed for ${usd(ought)}, but ${is === "0" ? "no entry credits" : `its entry of ${usd(is)} does not credit`} this amount to the user who redeemed it.`;
    case "row_charge":
      return `${subject} was charged ${usd(is)}, but should be charged ${usd(ought)}.`;
    case "row_entry":
      return `${subject} has a charge of ${usd(ought)}, but ${is === "0" ? "no ledger entry" : `its ledger entry has ${usd(is)}`}.`;
    case "entry_row":
      return `${subject} charges ${usd(ought)}, but no single request has this charge.`;
    case "correction":
      return `${subject} corrects the charge of its request to ${usd(ought)}, but the request has ${usd(is)}.`;
    case "unpaid":
      return `${subject} cost ${usd(ought)}, but was not charged: no payer was found.`;
    case "shared_charge":
      return `${subject} charges ${usd(is)}, but its requests add up to ${usd(ought)}.`;
    case "refund":
      return `${subject} was refunded ${usd(is)}, but only ${usd(ought)} was charged.`;
    case "hold_lease":
      return `${subject} has been open since ${shortInstant(Number(is))} UTC, longer than any request can take.`;
    case "set_aside":
      return `${subject} could not be settled, and ${usd(is)} stays held: ${ought}. Resolve it: wallet charge-hold or wallet release-hold.`;
    case "log_entry":
      return `${subject} differs between the audit log and the ledger.\n    audit log  ${ought}\n    ledger     ${is}`;
    case "entry_log":
      return `${subject}, kind ${ought}, amount ${usd(is)}, is missing from the audit log.`;
    case "changes":
      return is === "cut"
        ? `The audit log ends with ${subject}, but later entries existed.`
        : is === "missing"
          ? `The audit log has a gap before ${subject}.`
          : `${subject} of the audit log was modified after it was written.`;
    case "roll_up":
      return `The hourly roll-up ${subject} differs from the sum of its requests.\n    roll-up   ${is}\n    requests  ${ought}`;
    case "days":
      return `The daily roll-up ${subject} differs from the sum of its hours.\n    roll-up  ${is}\n    hours    ${ought}`;
    default:
      return `${check}: ${subject} is ${is}, but should be ${ought}.`;
  }
}
