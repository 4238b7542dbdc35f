/** Alert rules and webhooks: one setting of the whole installation. */

import { z } from "zod";
import type { Db } from "../engine/db.ts";
import { readJsonSetting, writeSetting } from "./settings.ts";
import { type AlertsRecord, DEFAULT_ALERTS, webhookRecord } from "./settings-records.ts";

const SETTING = "alerts";

const enabled = z.boolean();
const rate = z.object({ enabled, percent: z.int(), overMs: z.int(), requestsMin: z.int() });
const alertsSchema: z.ZodType<AlertsRecord> = z.object({
  webhooks: z.array(webhookRecord),
  accountParked: z.object({ enabled }),
  poolEmpty: z.object({ enabled, forMs: z.int() }),
  spend: z.object({ enabled, usdPerDay: z.string() }),
  errorRate: rate,
  // Settings saved before these rules existed lack them.
  fallbackRate: rate.default(() => DEFAULT_ALERTS.fallbackRate),
  overruns: z.object({ enabled, count: z.int(), overMs: z.int() }).default(() => DEFAULT_ALERTS.overruns),
});

export async function readAlertSettings(db: Db): Promise<AlertsRecord> {
  return (await readJsonSetting(db, SETTING, alertsSchema)) ?? DEFAULT_ALERTS;
}

export async function writeAlertSettings(db: Db, alerts: AlertsRecord): Promise<void> {
  await writeSetting(db, SETTING, JSON.stringify(alerts));
}
