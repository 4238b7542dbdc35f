/** The input and output of a plan: the state of the configuration, and the steps that change it. */

import type { Nano } from "../../money/nano.ts";
import type { AccountRecord } from "../../records/account.ts";
import type { GroupRecord } from "../../records/group.ts";
import type { KeyRecord } from "../../records/key.ts";
import type { ModelRecord } from "../../records/model.ts";
import type { PlanRecord, SubscriptionRecord } from "../../records/plan.ts";
import type { PriceList } from "../../records/price.ts";
import type { RequestPolicyRecord } from "../../records/request-policy.ts";
import type { ServiceAccountRecord } from "../../records/service-account.ts";
import type {
  AlertsRecord,
  Registration,
  ScimRecord,
  SmtpRecord,
  UsageExportRecord,
} from "../../records/settings.ts";
import type { SignInRecord } from "../../records/sign-in.ts";
import type { ToolSignInRecord } from "../../records/tool-sign-in.ts";
import type { UserRecord } from "../../records/user.ts";
import { type Db, snapshot } from "../../store/engine/db.ts";
import { listServiceAccounts } from "../../store/identity/service-accounts.ts";
import { listUsers } from "../../store/identity/users.ts";
import { listPlans } from "../../store/money/plans.ts";
import { listCodePlanIds } from "../../store/money/redeem-codes.ts";
import { listSubscriptions } from "../../store/money/subscriptions.ts";
import { readFunds } from "../../store/money/wallets.ts";
import { listKeys, readFormerDigests } from "../../store/policy/keys.ts";
import { readPolicy } from "../../store/policy/policy.ts";
import { readSuspendedKeys } from "../../store/policy/suspended-keys.ts";
import { readToolKeyIds } from "../../store/policy/tool-keys.ts";
import { readResponsesKept } from "../../store/responses/response-retention.ts";
import { readRegistration } from "../../store/settings/registration.ts";
import { readAlertSettings, readScim, readSignIn, readSmtp } from "../../store/settings/sections.ts";
import { readUsageExport } from "../../store/settings/usage-export-settings.ts";
import { readUsageRowsKept } from "../../store/usage/usage-removal.ts";
import type { Installation } from "../installation/installation.ts";
import type { FieldChange } from "./difference.ts";

export interface ConfigState {
  models: ModelRecord[];
  accounts: AccountRecord[];
  requestPolicies: RequestPolicyRecord[];
  groups: GroupRecord[];
  users: UserRecord[];
  keys: KeyRecord[];
  /** Ids of revoked keys that return with their owner or its group. */
  suspendedKeys: ReadonlySet<string>;
  /** Ids of the keys of signed-in tools, which no file names. */
  toolKeys: ReadonlySet<string>;
  /** Digests of secrets that were replaced by a rotation. */
  formerDigests: ReadonlySet<string>;
  priceList?: PriceList | null;
  plans: PlanRecord[];
  subscriptions: SubscriptionRecord[];
  /** Ids of the plans that redeem codes were made for. */
  plansOfCodes: ReadonlySet<string>;
  /** Balances of users other than zero. Users with money, or with a debt, are not removed. */
  funds: ReadonlyMap<string, Nano>;
  /** Retention of usage rows; null: forever. */
  usageRowsKeptMs: number | null;
  /** Retention of stored responses; 0: they are not written to the database. */
  responsesKeptMs: number;
  registration: Registration;
  signIn: SignInRecord;
  /** Null: SCIM is off. */
  scim: ScimRecord | null;
  /** Null if it was never configured. */
  toolSignIn: ToolSignInRecord | null;
  smtp: SmtpRecord | null;
  alerts: AlertsRecord;
  usageExport: UsageExportRecord;
  serviceAccounts: ServiceAccountRecord[];
}

export async function readState(db: Db): Promise<ConfigState> {
  return snapshot(db, async (tx) => ({
    ...(await readPolicy(tx)),
    ...(await readSettingsState(tx)),
    users: await listUsers(tx),
    keys: await listKeys(tx),
    suspendedKeys: await readSuspendedKeys(tx),
    toolKeys: await readToolKeyIds(tx),
    formerDigests: await readFormerDigests(tx),
    subscriptions: await listSubscriptions(tx),
    funds: await readFunds(tx),
  }));
}

/** Settings, which have one record or a few. */
export async function readSettingsState(tx: Db) {
  return {
    plans: await listPlans(tx),
    plansOfCodes: await listCodePlanIds(tx),
    usageRowsKeptMs: await readUsageRowsKept(tx),
    responsesKeptMs: await readResponsesKept(tx),
    registration: await readRegistration(tx),
    signIn: await readSignIn(tx),
    scim: await readScim(tx),
    smtp: await readSmtp(tx),
    alerts: await readAlertSettings(tx),
    usageExport: await readUsageExport(tx),
    serviceAccounts: await listServiceAccounts(tx),
  };
}

export interface Change {
  kind: "create" | "change" | "remove";
  /** For example `account openai-1`. */
  what: string;
  fields: FieldChange[];
}

export interface PlanStep extends Change {
  write(tx: Db): Promise<unknown>;
}

export type Secrets = Pick<Installation, "keyring" | "digest" | "clock" | "newId" | "randomBytes">;

/** Returns null if nothing changes. */
export function buildStep(
  what: string,
  isNew: boolean,
  fields: FieldChange[],
  write: PlanStep["write"],
): PlanStep | null {
  if (!isNew && fields.length === 0) return null;
  return { kind: isNew ? "create" : "change", what, fields, write };
}

/** The step of a section of settings; none if nothing changes. */
export function changeStep(what: string, fields: FieldChange[], write: PlanStep["write"]): PlanStep[] {
  return [buildStep(what, false, fields, write)].flatMap((step) => step ?? []);
}

/** Looks up an id. References were checked together with the file, so the name exists. */
export function requireId(ids: ReadonlyMap<string, string>, name: string): string {
  const id = ids.get(name);
  if (id === undefined)
    throw new Error("The file refers to an object that did not exist when the file was validated.");
  return id;
}
