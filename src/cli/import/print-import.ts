/** Prints what an import changes and what it does not carry over. */

import { usdText } from "../../money/nano.ts";
import type { Input } from "../command.ts";
import { formatUsd } from "../money-input.ts";
import { count } from "../terminal.ts";
import { cleanText } from "./imported.ts";
import type { ImportPlan } from "./plan-import.ts";

/** Longer lists are cut on a terminal; `--json` has all. */
const SHOWN_MAX = 40;

export function printImport(plan: ImportPlan, { flag, terminal }: Input): void {
  const isDry = flag("dry-run");
  if (flag("json")) {
    terminal.print(JSON.stringify(toJson(plan, isDry), null, 2));
    return;
  }
  const { print, paint } = terminal;
  const printAll = (lines: readonly string[]) => {
    for (const line of lines.slice(0, SHOWN_MAX)) print(`  ${line}`);
    if (lines.length > SHOWN_MAX)
      print(paint.dim(`  … and ${(lines.length - SHOWN_MAX).toLocaleString("en")} more: --json lists all`));
  };
  const kinds = Map.groupBy(plan.plan.changes, ({ what }) => what.split(" ", 1)[0] ?? "");
  for (const [kind, changes] of kinds) {
    print(paint.bold(`${count(changes.length, kind.replace("_", " "))} to create`));
    printAll(
      changes.map(({ what, fields }) => {
        const details = fields.filter(({ to }) => to !== null).map(({ field, to }) => `${field}: ${to}`);
        return `${paint.green(`+ ${what.slice(kind.length + 1)}`)}  ${paint.dim(details.join(", "))}`;
      }),
    );
  }
  if (plan.topUps.length > 0) {
    const totalNano = plan.topUps.reduce((sum, { amountNano }) => sum + amountNano, 0n);
    print(paint.bold(`${count(plan.topUps.length, "balance")} to top up, ${formatUsd(totalNano)} together`));
    printAll(
      plan.topUps.map(({ email, amountNano }) => `${paint.green(`+ ${email}`)}  ${formatUsd(amountNano)}`),
    );
  }
  if (plan.spending.length > 0) {
    print(paint.bold("Spent in the source by month, not imported"));
    printAll(plan.spending.map(({ month, amountNano }) => `${month}  ${formatUsd(amountNano)}`));
  }
  if (plan.isEmpty) print("No changes: everything that can be imported is here.");
  for (const note of plan.plan.notes) print(`${paint.dim("note:")} ${note}`);
  if (plan.findings.length > 0) {
    print(paint.bold("\nNot carried over, or not as it was"));
    printAll(
      plan.findings.map(
        ({ subject, message }) => `${paint.yellow(cleanText(subject))}  ${cleanText(message)}`,
      ),
    );
  }
  if (isDry) print("\nDry run: no changes were written.");
}

function toJson({ plan, topUps, spending, findings }: ImportPlan, isDry: boolean) {
  return {
    applied: !isDry,
    changes: plan.changes.map(({ kind, what, fields }) => ({ kind, what, fields })),
    top_ups: topUps.map(({ email, amountNano, order }) => ({ email, usd: usdText(amountNano), order })),
    spent_by_month: spending.map(({ month, amountNano }) => ({ month, usd: usdText(amountNano) })),
    not_carried_over: findings,
    notes: plan.notes,
  };
}
