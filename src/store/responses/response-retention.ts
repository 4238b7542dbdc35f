/** The retention of stored responses, one setting of the whole installation. */

import type { Db } from "../engine/db.ts";
import { deleteSetting, readSetting, writeSetting } from "../settings/settings.ts";

const KEPT_SETTING = "responses_kept_ms";
/** As OpenAI keeps them. */
export const RESPONSES_KEPT_MS = 30 * 86_400_000;

/** 0: responses are not written to the database. */
export async function readResponsesKept(db: Db): Promise<number> {
  const value = await readSetting(db, KEPT_SETTING);
  return value === null || !/^\d{1,15}$/.test(value) ? RESPONSES_KEPT_MS : Number(value);
}

export async function writeResponsesKept(db: Db, keptMs: number): Promise<void> {
  if (keptMs === RESPONSES_KEPT_MS) await deleteSetting(db, KEPT_SETTING);
  else await writeSetting(db, KEPT_SETTING, String(keptMs));
}
