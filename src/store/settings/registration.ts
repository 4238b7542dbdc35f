/** The setting that controls who may register. */

import { REGISTRATIONS, type Registration } from "../../records/settings.ts";
import type { Db } from "../engine/db.ts";
import { readSetting, writeSetting } from "./settings.ts";

const SETTING = "registration";

/** Closed by default. */
export async function readRegistration(db: Db): Promise<Registration> {
  const stored = await readSetting(db, SETTING);
  return REGISTRATIONS.find((one) => one === stored) ?? "closed";
}

export async function writeRegistration(db: Db, registration: Registration): Promise<void> {
  await writeSetting(db, SETTING, registration);
}
