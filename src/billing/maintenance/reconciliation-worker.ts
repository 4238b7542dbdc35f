/** Worker thread that opens the database, reconciles it once and posts the result. See `hourly-reconciliation.ts`. */

import { systemClock } from "../../base/clock.ts";
import { openDb } from "../../store/engine/db.ts";
import type { ReconciliationCommand, ReconciliationReply } from "./hourly-reconciliation.ts";
import { reconcileLedger } from "./reconciliation.ts";

declare const self: Worker;

const FINDINGS_MAX = 20;

self.onmessage = async ({ data }: MessageEvent<ReconciliationCommand>) => {
  self.postMessage(await runOrder(data));
};

async function runOrder({ databaseUrl, holdAgeMaxMs }: ReconciliationCommand): Promise<ReconciliationReply> {
  try {
    const db = await openDb(databaseUrl, { workload: "maintenance" });
    try {
      return {
        ok: true,
        report: await reconcileLedger(db, {
          nowMs: systemClock.nowMs(),
          holdAgeMaxMs,
          findingsMax: FINDINGS_MAX,
        }),
      };
    } finally {
      await db.close();
    }
  } catch (error) {
    return { ok: false, reason: error instanceof Error ? error.message : "unknown" };
  }
}
