/** Reports the cost of a response to its caller: in headers of a whole response, in a comment before the end of a stream. */

import type { Deadlines } from "../../base/deadlines.ts";
import { type Part, wholeBytesPart } from "../../base/parts.ts";
import type { BillingEngine } from "../../billing/engine/billing-engine.ts";
import { type Nano, usdText } from "../../money/nano.ts";
import type { HeaderLines } from "../../net/wire/http-message.ts";
import type { Db } from "../../store/engine/db.ts";
import { readWallet } from "../../store/money/wallets.ts";
import type { AuthenticatedRequest } from "../request-context.ts";
import { waitWithin } from "../wait-within.ts";

export interface CostReport {
  readonly costNano: Nano;
  /** Null if the group does not charge the balance, or the database did not respond in time. */
  readonly balanceNano: Nano | null;
}

interface CostServices {
  readonly db: Db;
  readonly billingEngine: Pick<BillingEngine, "flushUser">;
  readonly dispatcher: { readonly deadlines: Deadlines };
}

/** A response must not wait for a slow database. */
const BALANCE_MS_MAX = 500;

/** Call it after the settlement. Returns null if the group does not report costs, or the request is settled later. */
export async function readCostReport(
  services: CostServices,
  { caller, settledCostNano }: AuthenticatedRequest,
): Promise<CostReport | null> {
  const { key, group } = caller;
  if (!group.costHeaders || settledCostNano === null) return null;
  const payerId = group.billing.charge === "balance" ? key.userId : null;
  const balanceNano = payerId === null ? null : await readBalance(services, payerId);
  return { costNano: settledCostNano, balanceNano };
}

async function readBalance(
  { db, billingEngine, dispatcher }: CostServices,
  userId: string,
): Promise<Nano | null> {
  let balanceNano: Nano | null = null;
  const reading = billingEngine
    .flushUser(userId)
    .then(() => readWallet(db, userId))
    .then((wallet) => {
      balanceNano = wallet.balanceNano;
    })
    .catch(() => {});
  await waitWithin(reading, BALANCE_MS_MAX, dispatcher.deadlines);
  return balanceNano;
}

export function costHeaderLines({ costNano, balanceNano }: CostReport): HeaderLines {
  const cost = `x-gateway-cost: ${usdText(costNano)}\r\n`;
  return balanceNano === null ? cost : `${cost}x-gateway-balance: ${usdText(balanceNano)}\r\n`;
}

/** The last events of a stream, preceded by the cost as a comment. Clients ignore comments. */
export function withCostComment(last: readonly Part[], report: CostReport): readonly Part[] {
  const lines = costHeaderLines(report)
    .replaceAll("\r\n", "\n")
    .replaceAll(/^(?=.)/gm, ": ");
  // A comment alone needs the blank line of an event.
  const comment = wholeBytesPart(Buffer.from(last.length === 0 ? `${lines}\n` : lines));
  return [comment, ...last];
}
