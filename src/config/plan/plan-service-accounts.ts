/** Plans service accounts. Their tokens are not part of a file. */

import { instantText } from "../../base/time.ts";
import { parseUsd, usdText } from "../../money/nano.ts";
import { SERVICE_SCOPES, type ServiceAccountRecord } from "../../records/service-account.ts";
import {
  deleteServiceAccount,
  putServiceAccount,
  SERVICE_ID_PREFIX,
} from "../../store/identity/service-accounts.ts";
import type { FileServiceAccount } from "../schema/schema.ts";
import { type FormattedFields, formatList, recordChanges } from "../state/difference.ts";
import { buildStep, type ConfigState, type PlanStep, type Secrets } from "../state/step.ts";

export function planServiceAccounts(
  { serviceAccounts }: Pick<ConfigState, "serviceAccounts">,
  wanted: readonly FileServiceAccount[],
  secrets: Secrets,
): PlanStep[] {
  return wanted.flatMap((one) => {
    const present = serviceAccounts.find(({ name }) => name === one.name);
    const record = buildRecord(present, one, secrets);
    const fields = recordChanges(present, record, formatServiceAccount);
    const write: PlanStep["write"] = (tx) => putServiceAccount(tx, record);
    return buildStep(serviceAccountTitle(record.name), present === undefined, fields, write) ?? [];
  });
}

/** Removes those that the file does not name. */
export function pruneServiceAccounts(
  { serviceAccounts }: Pick<ConfigState, "serviceAccounts">,
  wanted: readonly FileServiceAccount[],
): PlanStep[] {
  const named = new Set(wanted.map(({ name }) => name));
  return removeServiceAccounts(serviceAccounts.filter(({ name }) => !named.has(name)));
}

export function removeServiceAccounts(removed: readonly ServiceAccountRecord[]): PlanStep[] {
  return removed.map(({ id, name }) => ({
    kind: "remove",
    what: serviceAccountTitle(name),
    fields: [],
    write: (tx) => deleteServiceAccount(tx, id),
  }));
}

/** As target in the audit log. Its first word is the kind of the change. */
export function serviceAccountTitle(name: string): string {
  return `service_account ${name}`;
}

function buildRecord(
  present: ServiceAccountRecord | undefined,
  { name, scopes, bounds, expires }: FileServiceAccount,
  { clock, newId }: Secrets,
): ServiceAccountRecord {
  return {
    id: present?.id ?? newId(SERVICE_ID_PREFIX),
    name,
    scopes: SERVICE_SCOPES.filter((scope) => scopes.includes(scope)),
    bounds:
      bounds === undefined
        ? null
        : { callNano: parseUsd(bounds.usd_per_call), dayNano: parseUsd(bounds.usd_per_day) },
    expiresAtMs: expires ?? null,
    createdAtMs: present?.createdAtMs ?? clock.nowMs(),
  };
}

function formatServiceAccount({ scopes, bounds, expiresAtMs }: ServiceAccountRecord): FormattedFields {
  return {
    scopes: formatList(scopes),
    "bounds.usd_per_call": bounds === null ? null : usdText(bounds.callNano),
    "bounds.usd_per_day": bounds === null ? null : usdText(bounds.dayNano),
    expires: instantText(expiresAtMs),
  };
}

export function serviceAccountToFile({ name, scopes, bounds, expiresAtMs }: ServiceAccountRecord) {
  return {
    name,
    scopes: [...scopes],
    ...(bounds === null
      ? {}
      : { bounds: { usd_per_call: usdText(bounds.callNano), usd_per_day: usdText(bounds.dayNano) } }),
    ...(expiresAtMs === null ? {} : { expires: new Date(expiresAtMs).toISOString() }),
  };
}
