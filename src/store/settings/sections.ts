/** Sections of settings, each stored as JSON for the whole installation. */

import { z } from "zod";
import {
  ALERTS_FIELDS,
  DEFAULT_ALERTS,
  SCIM_FIELDS,
  type ScimRecord,
  SMTP_FIELDS,
} from "../../records/settings.ts";
import {
  DEFAULT_SIGN_IN,
  PASSWORD_SIGN_IN,
  PROVIDER_FIELDS,
  type ProviderRecord,
  type SignInRecord,
} from "../../records/sign-in.ts";
import { TOOL_SIGN_IN_FIELDS } from "../../records/tool-sign-in.ts";
import type { Db } from "../engine/db.ts";
import { jsonSetting } from "./settings.ts";
import { storedForm } from "./stored-form.ts";

/** Null if no mail is sent. */
export const { read: readSmtp, write: writeSmtp } = jsonSetting("smtp", storedForm(SMTP_FIELDS), null);

/** Null: SCIM is off. */
export const { read: readScim, write: writeScim } = jsonSetting("scim", storedForm(SCIM_FIELDS), null);

/** Null if it was never configured. */
export const { read: readToolSignIn, write: writeToolSignIn } = jsonSetting(
  "tool_sign_in",
  storedForm(TOOL_SIGN_IN_FIELDS),
  null,
);

export const { read: readAlertSettings, write: writeAlertSettings } = jsonSetting(
  "alerts",
  storedForm(ALERTS_FIELDS),
  DEFAULT_ALERTS,
);

/** Nodes of an earlier version reject `scim`: for them such a provider admits invited people. */
const byScim = z.looseObject({ createsByScim: z.literal(true) });
const storedProvider = z.preprocess(
  (stored) =>
    byScim.safeParse(stored).success ? Object.assign({}, stored, { createUsers: "scim" }) : stored,
  storedForm(PROVIDER_FIELDS),
);
const signIn = jsonSetting(
  "sign_in",
  z.object({ password: z.enum(PASSWORD_SIGN_IN), providers: z.array(storedProvider) }),
  DEFAULT_SIGN_IN,
);
export const readSignIn = signIn.read;

export async function writeSignIn(db: Db, { password, providers }: SignInRecord): Promise<void> {
  const isDefault = password === DEFAULT_SIGN_IN.password && providers.length === 0;
  await signIn.write(db, isDefault ? DEFAULT_SIGN_IN : { password, providers: providers.map(toStored) });
}

function toStored(record: ProviderRecord): ProviderRecord & { createsByScim?: true } {
  return record.createUsers === "scim" ? { ...record, createUsers: "invited", createsByScim: true } : record;
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
