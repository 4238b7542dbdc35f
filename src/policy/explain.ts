/** "Why can this key (not) call this model?", answered from the records, one step after the other. */

import type { AccountRecord, Interface, KeyRecord, PolicyRecords } from "../records.ts";
import { mapModel } from "./model-map.ts";
import { needsPrices, openPricing } from "./pricing.ts";

export interface Explanation {
  allowed: boolean;
  /** In the order in which a request would meet them; the first that is not ok decides. */
  steps: { ok: boolean; text: string }[];
  accounts: AccountExplanation[];
}

export interface AccountExplanation {
  name: string;
  upstreamModel: string | null;
  reason: "disabled" | "no_interface" | "no_model" | null;
  priority: number;
  weight: number;
}

export function explainAccess(
  records: PolicyRecords,
  key: KeyRecord,
  publicModel: string,
  iface: Interface,
  nowMs: number,
): Explanation {
  const group = records.groups.find(({ id }) => id === key.groupId);
  const model = records.models.find(({ id }) => id === publicModel);
  const pool = records.accounts.filter(({ id }) => group?.accounts.includes(id));
  const accounts = pool.map((account) => explainAccount(account, publicModel, iface));
  const serving = accounts.filter(({ reason }) => reason === null).length;
  const expired = key.expiresAtMs !== null && key.expiresAtMs <= nowMs;
  const steps = [
    step(
      key.status === "active" && !expired,
      "the key is active",
      expired ? "the key has expired" : "the key was revoked",
    ),
    step(group !== undefined, `its group is ${group?.name}`, "its group no longer exists"),
    step(
      group?.interfaces.includes(iface) === true,
      `the group includes ${iface}`,
      `the group does not include ${iface}`,
    ),
    step(
      group?.models.includes(publicModel) === true,
      `the group publishes ${publicModel}`,
      model === undefined ? `there is no model ${publicModel}` : `the group does not publish ${publicModel}`,
    ),
    step(
      model?.interfaces.includes(iface) === true,
      `the model serves ${iface}`,
      `the model does not serve ${iface}`,
    ),
    ...(group !== undefined && model !== undefined && needsPrices(group)
      ? [
          step(
            openPricing(records)(group)(model).price !== null,
            "it has a price",
            `nobody has said a price for ${publicModel}, which the group needs to charge it`,
          ),
        ]
      : []),
    step(
      serving > 0,
      `${serving} of ${accounts.length} accounts in the pool can serve it`,
      "no account in the pool maps the model and speaks the interface",
    ),
  ];
  return { allowed: steps.every(({ ok }) => ok), steps, accounts };
}

function step(ok: boolean, good: string, bad: string): { ok: boolean; text: string } {
  return { ok, text: ok ? good : bad };
}

function explainAccount(account: AccountRecord, publicModel: string, iface: Interface): AccountExplanation {
  const upstreamModel = mapModel(account.models, publicModel);
  const reason = !account.enabled
    ? "disabled"
    : !account.interfaces.includes(iface)
      ? "no_interface"
      : upstreamModel === null
        ? "no_model"
        : null;
  return { name: account.name, upstreamModel, reason, priority: account.priority, weight: account.weight };
}
