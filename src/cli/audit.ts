/** `model-gateway audit`: reconciles ledger, wallets, usage rows and roll-ups, and verifies the change log. */

import { type AuditFinding, reconcileLedger } from "../billing/maintenance/reconciliation.ts";
import { limits } from "../config/product-limits.ts";
import { type Command, DATA_OPTION, JSON_OPTION } from "./command.ts";
import { shortInstant } from "./instants.ts";
import { dollars } from "./money-input.ts";
import { withInstallation } from "./store-access.ts";
import { count } from "./terminal.ts";

const FINDINGS_MAX = 100;

export const auditLedger: Command = {
  words: "audit",
  summary:
    "Prove that balances, holds, entries, usage and roll-ups agree, and that the log of changes is whole",
  about:
    "Names every row that contradicts another and ends with 1; with 0 when there is none. Changes nothing.",
  options: { data: DATA_OPTION, json: JSON_OPTION },
  run: (input) =>
    withInstallation(input, async ({ db, clock }) => {
      const { print, remark, paint } = input.terminal;
      const report = await reconcileLedger(db, {
        nowMs: clock.nowMs(),
        holdLeaseMs: limits.holdLeaseMs,
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
        print(`${paint.green("✓")} The books agree: ${compared.join(", ")}.`);
        const log = `${changes.entries.toLocaleString("en")} ${changes.entries === 1 ? "entry" : "entries"}`;
        print(`${paint.green("✓")} The log of changes is whole: ${log}.`);
        if (changes.head !== "") print(paint.dim(`  It ends with ${changes.head}`));
        return exitCode;
      }
      for (const finding of findings) print(`${paint.red("✗")} ${findingText(finding)}`);
      remark(
        `\n${count(findings.length, "contradiction")}. Nothing was changed; keep a copy of the store before you mend anything.`,
      );
      return exitCode;
    }),
};

/** Formats a finding in the terms of its check. */
export function findingText({ check, subject, is, ought }: AuditFinding): string {
  const usd = (nano: string) => dollars(BigInt(nano));
  switch (check) {
    case "balance":
      return `${subject} has a balance of ${usd(is)}, and its entries come to ${usd(ought)}.`;
    case "held":
      return `${subject} has ${usd(is)} held, and its open holds come to ${usd(ought)}.`;
    case "available":
      return `${subject} has a balance of ${usd(is)}, of which ${usd(ought)} is held.`;
    case "entry":
      return `${subject} goes from ${is}, as no ${ought} of its user does.`;
    case "code":
      return ought === "0"
        ? `${subject} gave ${usd(is)}, and no code was redeemed for it.`
        : `${subject} is a code that was redeemed for ${usd(ought)}, and ${is === "0" ? "no entry gives" : `its entry, of ${usd(is)}, does not give`} it to whoever redeemed it then.`;
    case "row_charge":
      return `${subject} was charged ${usd(is)}, and ought to be charged ${usd(ought)}.`;
    case "row_entry":
      return `${subject} says that ${usd(ought)} was charged, and ${is === "0" ? "no entry does" : `its entry says ${usd(is)}`}.`;
    case "entry_row":
      return `${subject} moved ${usd(ought)}, and no row of a request says that it was charged so, once and by itself.`;
    case "correction":
      return `${subject} changes the charge of its request to ${usd(ought)}, and its row says ${usd(is)}.`;
    case "unpaid":
      return `${subject} cost ${usd(ought)}, and no payer was found for it: nothing was charged.`;
    case "shared_charge":
      return `${subject} moved ${usd(is)}, and its requests come to ${usd(ought)}.`;
    case "refund":
      return `${subject} was refunded ${usd(is)}, and ${usd(ought)} was charged for it.`;
    case "hold_lease":
      return `${subject} holds money since ${shortInstant(Number(is))} UTC, longer than any request takes.`;
    case "log_entry":
      return `The log of changes tells of ${subject}, and the ledger has something else.\n    log     ${ought}\n    ledger  ${is}`;
    case "entry_log":
      return `${subject} is a ${ought} of ${usd(is)} of which the log of changes tells nothing.`;
    case "changes":
      return is === "cut"
        ? `The log of changes ends with ${subject}, and there were later ones.`
        : is === "missing"
          ? `The log of changes lacks what stood before ${subject}.`
          : `The log of changes has ${subject}, which is not what was written.`;
    case "roll_up":
      return `The hour ${subject} does not add up to its requests.\n    sums      ${is}\n    requests  ${ought}`;
    case "days":
      return `The sums of ${subject} are not those of its hours.\n    sums   ${is}\n    hours  ${ought}`;
    default:
      return `${check}: ${subject} is ${is}, and should be ${ought}.`;
  }
}
