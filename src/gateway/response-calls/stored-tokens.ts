/** The length of a conversation that an upstream stores: input and output of its last response. */

import type { BillingEngine } from "../../billing/engine/billing-engine.ts";
import type { Db } from "../../store/engine/db.ts";
import { findUsage } from "../../store/usage/usage.ts";
import type { ResponseRoute } from "../stored-responses/response-routes.ts";

/** Returns null if the response is unknown, or if the upstream did not report it. */
export async function lookUpStoredTokens(
  { db, billingEngine }: { db: Db; billingEngine: Pick<BillingEngine, "findUnbookedRow"> },
  origin: Pick<ResponseRoute, "requestId"> | null,
): Promise<number | null> {
  const row =
    origin === null
      ? null
      : (billingEngine.findUnbookedRow(origin.requestId) ?? (await findUsage(db, origin.requestId)));
  // The gateway's own counts do not include the earlier conversation that the upstream stores.
  if (row === null || row.usageSource !== "upstream") return null;
  const tokens = row.inputTokens + row.outputTokens;
  return tokens > 0 ? tokens : null;
}
