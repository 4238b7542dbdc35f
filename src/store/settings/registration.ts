import { REGISTRATIONS, type Registration } from "../../records.ts";
import type { Db } from "../engine/db.ts";
import { readSetting, writeSetting } from "./settings.ts";

const SETTING = "registration";

/** Closed until somebody has said otherwise. */
export async function readRegistration(db: Db): Promise<Registration> {
  const written = await readSetting(db, SETTING);
  return REGISTRATIONS.find((one) => one === written) ?? "closed";
}

export async function writeRegistration(db: Db, registration: Registration): Promise<void> {
  await writeSetting(db, SETTING, registration);
}
