/** The checks of `doctor` that need only the records: unusable credentials, models without a route. */

import type { PolicyAccount } from "../accounts/account.ts";
import { isBuiltIn } from "../accounts/kinds/table.ts";
import {
  type CheckedPublication,
  isHidden,
  openPublicationChecks,
  type Shortcoming,
} from "../policy/publication.ts";
import { compileSnapshot } from "../policy/snapshot.ts";
import type { AccountRecord } from "../records/account.ts";
import type { GroupRecord } from "../records/group.ts";
import type { PolicyRecords } from "../records/policy.ts";
import type { Registration } from "../records/settings.ts";
import type { Keyring } from "../secrets/keyring.ts";
import { accountCredentialBinding, unseal } from "../secrets/seal.ts";
import { type Finding, failed, passed, warned } from "./finding.ts";
import { PROGRAM } from "./program-name.ts";

/** Enabled accounts with their credentials. An account whose credential cannot be unsealed becomes a finding. */
export function openAccounts(
  records: PolicyRecords,
  keyring: Keyring,
): { accounts: PolicyAccount[]; findings: Finding[] } {
  const findings: Finding[] = [];
  const accounts: PolicyAccount[] = [];
  for (const record of records.accounts) {
    const what = `account ${record.name}`;
    if (!record.enabled) {
      findings.push(passed(what, "is disabled and was not checked"));
    } else if (isBuiltIn(record.kind)) {
      findings.push(passed(what, "is the built-in simulator"));
    } else {
      try {
        accounts.push(...compileAccount(record, keyring));
      } catch {
        const todo =
          "Restore the master key that encrypted it, or set the credential in the configuration file and apply it.";
        findings.push(failed(what, "has a credential that cannot be decrypted", todo));
      }
    }
  }
  return { accounts, findings };
}

function compileAccount(record: AccountRecord, keyring: Keyring): Iterable<PolicyAccount> {
  const { accounts } = compileSnapshot(
    { models: [], accounts: [record], groups: [] },
    {
      simulatorUrl: null,
      unseal: ({ id, sealedCredential }) =>
        sealedCredential === null ? null : unseal(keyring, accountCredentialBinding(id), sealedCredential),
    },
  );
  return accounts.values();
}

export function checkGroups(records: PolicyRecords): Finding[] {
  const accounts = new Map(records.accounts.map((account) => [account.id, account]));
  const checkPublications = openPublicationChecks(records);
  return records.groups.flatMap((group): Finding[] => {
    if (group.models.length === 0) return [];
    const what = `group ${group.name}`;
    const pool = group.accounts.flatMap((id) => accounts.get(id) ?? []).filter(({ enabled }) => enabled);
    if (pool.length === 0) {
      const todo = "Add an account to the group in the configuration file, or enable one of its accounts.";
      return [failed(what, "publishes models but has no enabled account", todo)];
    }
    const findings = checkPublications(group).flatMap((publication) =>
      publication.shortcomings.map((shortcoming) => ({
        what,
        state: isHidden(shortcoming) ? ("broken" as const) : ("doubtful" as const),
        ...describeShortcoming(shortcoming, group, publication, pool),
      })),
    );
    return findings.length > 0 ? findings : [passed(what, "every published model has an account")];
  });
}

/** Anyone who finds the address could register, create a key, and use the upstreams at the operator's expense. */
export function checkOpenAccess(
  groups: readonly Pick<GroupRecord, "name" | "access" | "billing" | "models">[],
  registration: Registration,
): Finding[] {
  if (registration !== "open") return [];
  return groups
    .filter(
      ({ access, billing, models }) =>
        access === "everyone" && billing.charge === "none" && models.length > 0,
    )
    .map(({ name }) =>
      warned(
        `group ${name}`,
        "is free and open to everyone, and registration is open",
        "Set access: members, charge a balance or a subscription, or close registration.",
      ),
    );
}

/** The address of a client behind a proxy is known only if the public URL is https. */
export function checkNetworks({ requestPolicies = [] }: PolicyRecords, publicUrl: string): Finding[] {
  if (publicUrl.startsWith("https:")) return [];
  return requestPolicies
    .filter(({ rules }) => rules?.networks !== undefined)
    .map(({ name }) =>
      warned(
        `request policy ${name}`,
        "restricts networks, and server.public_url is not https: requests through a proxy are rejected",
        "Set server.public_url to the https address of the proxy, unless clients connect directly.",
      ),
    );
}

function describeShortcoming(
  shortcoming: Shortcoming,
  group: GroupRecord,
  { model, mapping }: CheckedPublication,
  pool: readonly AccountRecord[],
): Pick<Finding, "message" | "todo"> {
  const names = (accounts: readonly AccountRecord[]) => accounts.map(({ name }) => name).join(" or ");
  switch (shortcoming.kind) {
    case "no_account":
    case "unmapped":
      return {
        message: `publishes ${model.id}, but no account of the group maps it`,
        todo: `Add "${model.id}" to the models of ${names(pool)}, or remove it from the group.`,
      };
    case "no_shared_interface":
      return {
        message: `publishes ${model.id}, but shares no interface with it`,
        todo: `The group allows ${group.interfaces.join(", ")}; the model has ${model.interfaces.join(", ")}.`,
      };
    case "unsupported_interface": {
      const unsupported = shortcoming.interfaces.join(", ");
      return {
        message: `publishes ${model.id}, but no account that maps it supports ${unsupported}`,
        todo: `Add ${unsupported} to the interfaces of ${names(mapping)}, or remove it from the model.`,
      };
    }
    case "no_price": {
      const reason =
        group.billing.charge === "none" ? "has a window in usd" : `charges a ${group.billing.charge}`;
      return {
        message: `does not publish ${model.id}: it has no price, and the group ${reason}`,
        todo: `Set a price for ${model.id} in the configuration file or in a price list: ${PROGRAM} prices update --from FILE`,
      };
    }
  }
}
