/** Books the balances of another gateway, each once: the user's id there is the order of the top-up. */

import { AMOUNT_NANO_MAX, topUp } from "../../billing/operations/operations.ts";
import { entryIdForKey } from "../../billing/operations/order-key.ts";
import type { Installation } from "../../config/installation/installation.ts";
import { type Nano, usdText } from "../../money/nano.ts";
import { appendChange } from "../../store/audit-log/audit-log.ts";
import { loggedEntryFields } from "../../store/checks/entries-in-audit-log.ts";
import { type Db, transaction } from "../../store/engine/db.ts";
import { findUsers } from "../../store/identity/users.ts";
import { findEntry } from "../../store/money/ledger.ts";
import { cliActor } from "../money-input.ts";
import { operator } from "../operator.ts";
import type { ImportedBalance, ImportFinding, SourceName } from "./imported.ts";

/** Bounds the time for which one transaction locks wallets. */
const BATCH = 200;

export interface PlannedTopUp {
  readonly email: string;
  readonly amountNano: Nano;
  readonly order: string;
}

interface TopUpPlan {
  readonly topUps: readonly PlannedTopUp[];
  readonly findings: readonly ImportFinding[];
}

/** `users` are the addresses that exist once the plan of the import is applied. */
export async function planTopUps(
  db: Db,
  balances: readonly ImportedBalance[],
  { source, users }: { source: SourceName; users: ReadonlySet<string> },
): Promise<TopUpPlan> {
  const topUps: PlannedTopUp[] = [];
  const findings: ImportFinding[] = [];
  const report = (email: string, message: string) =>
    findings.push({ subject: `balance of ${email}`, message });
  for (const { sourceId, email, amountNano } of balances) {
    const order = `import-${source}:${sourceId}`;
    if (amountNano === 0n || !users.has(email)) continue;
    const booked = await findEntry(db, entryIdForKey(order));
    if (booked !== null) {
      const [owner] = await findUsers(db, { emails: [email] });
      if (booked.userId !== owner?.id)
        report(email, `not booked: the order ${order} belongs to another user here.`);
    } else if (amountNano < 0n) report(email, `is negative ($${usdText(amountNano)}): nothing is booked.`);
    else if (amountNano > AMOUNT_NANO_MAX)
      report(email, `is above the maximum of a top-up ($${usdText(amountNano)}): nothing is booked.`);
    else topUps.push({ email, amountNano, order });
  }
  return { topUps, findings };
}

export async function bookTopUps(
  installation: Installation,
  source: SourceName,
  topUps: readonly PlannedTopUp[],
): Promise<void> {
  const actor = cliActor();
  const author = { actor: operator(), address: null };
  for (let at = 0; at < topUps.length; at += BATCH) {
    await transaction(installation.db, async (tx) => {
      for (const { email, amountNano, order } of topUps.slice(at, at + BATCH)) {
        const [user] = await findUsers(tx, { emails: [email] });
        if (user === undefined) continue;
        const { entry, repeated } = await topUp(
          { ...installation, db: tx },
          {
            userId: user.id,
            amountNano,
            provider: `import-${source}`,
            actor,
            reason: `balance in ${source}`,
            idempotencyKey: order,
          },
        );
        if (repeated) continue;
        const change = {
          action: "wallet.top_up",
          target: `user ${email}`,
          changes: loggedEntryFields(entry),
        };
        await appendChange(tx, { ...author, ...change, atMs: installation.clock.nowMs() });
      }
    });
  }
}
