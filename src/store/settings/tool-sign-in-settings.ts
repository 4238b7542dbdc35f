/** Sign-in of tools. One setting of the whole installation. */

import { z } from "zod";
import type { ToolSignInRecord } from "../../records/tool-sign-in.ts";
import type { Db } from "../engine/db.ts";
import { readJsonSetting, writeSetting } from "./settings.ts";

const toolSignIn: z.ZodType<ToolSignInRecord> = z.object({
  enabled: z.boolean(),
  accessTokenMs: z.number(),
  idleEndMs: z.number(),
  groups: z.array(z.string()),
  managedSettings: z.record(z.string(), z.object({ path: z.string(), text: z.string() })),
});

const SETTING = "tool_sign_in";

/** Null if it was never configured. */
export function readToolSignIn(db: Db): Promise<ToolSignInRecord | null> {
  return readJsonSetting(db, SETTING, toolSignIn);
}

export async function writeToolSignIn(db: Db, record: ToolSignInRecord): Promise<void> {
  await writeSetting(db, SETTING, JSON.stringify(record));
}
