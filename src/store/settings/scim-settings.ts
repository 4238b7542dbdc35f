/** The provider whose directory pushes people and groups by SCIM. One setting of the whole installation. */

import { z } from "zod";
import type { Db } from "../engine/db.ts";
import { deleteSetting, readJsonSetting, writeSetting } from "./settings.ts";
import { type ProviderRecord, readSignIn } from "./sign-in-settings.ts";

/** Where roles and groups of pushed people come from: pushed groups, or the claims of their sign-ins. */
export const GROUP_SOURCES = ["pushed", "claims"] as const;

const scim = z.object({
  /** The name of a provider of `sign_in`. */
  provider: z.string(),
  /** In lower case. A local user with an address of these domains becomes the pushed person. */
  adoptDomains: z.array(z.string()),
  groups: z.enum(GROUP_SOURCES),
});
export type ScimRecord = z.output<typeof scim>;

const SETTING = "scim";

/** Null: SCIM is off. */
export async function readScim(db: Db): Promise<ScimRecord | null> {
  return readJsonSetting(db, SETTING, scim);
}

export async function writeScim(db: Db, record: ScimRecord | null): Promise<void> {
  if (record === null) await deleteSetting(db, SETTING);
  else await writeSetting(db, SETTING, JSON.stringify(record));
}

export interface ScimProvider {
  readonly settings: ScimRecord;
  readonly provider: ProviderRecord;
}

/** Null if SCIM is off. */
export async function readScimProvider(db: Db): Promise<ScimProvider | null> {
  const settings = await readScim(db);
  if (settings === null) return null;
  const { providers } = await readSignIn(db);
  const provider = providers.find(({ name }) => name === settings.provider);
  return provider === undefined ? null : { settings, provider };
}
