/** SMTP configuration: one setting of the whole installation. */

import { z } from "zod";
import type { Db } from "../engine/db.ts";
import { deleteSetting, readJsonSetting, writeSetting } from "./settings.ts";
import { SMTP_SECURITY, type SmtpRecord } from "./settings-records.ts";

const SETTING = "smtp";

const smtpSchema: z.ZodType<SmtpRecord> = z.object({
  host: z.string(),
  port: z.int(),
  security: z.enum(SMTP_SECURITY),
  user: z.string().nullable(),
  sealedPassword: z.string().nullable(),
  from: z.string(),
  privateNetwork: z.boolean(),
});

/** Null if no mail is sent. */
export async function readSmtp(db: Db): Promise<SmtpRecord | null> {
  return readJsonSetting(db, SETTING, smtpSchema);
}

export async function writeSmtp(db: Db, smtp: SmtpRecord | null): Promise<void> {
  if (smtp === null) await deleteSetting(db, SETTING);
  else await writeSetting(db, SETTING, JSON.stringify(smtp));
}
