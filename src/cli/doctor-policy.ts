/**
 * The checks of `doctor` that need only the records: credentials that cannot be unsealed, and models without a
 * route.
 */

import {
  type CheckedPublication,
  isHidden,
  openPublicationChecks,
  type Shortcoming,
} from "../policy/publication.ts";
import { compileSnapshot, type PolicyAccount } from "../policy/snapshot.ts";
import type { AccountRecord, GroupRecord, PolicyRecords, Registration } from "../records.ts";
import type { Keyring } from "../secrets/keyring.ts";
import { accountCredentialBinding, unseal } from "../secrets/seal.ts";
import type { Finding } from "./finding.ts";

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
      findings.push({ what, state: "good", says: "is disabled and was not asked", todo: null });
    } else if (record.kind === "simulator") {
      findings.push({ what, state: "good", says: "is the built-in simulator", todo: null });
    } else {
      try {
        accounts.push(...compiled(record, keyring));
      } catch {
        const todo =
          "Restore the master key it was sealed with, or put the credential into the file again and apply it.";
        findings.push({ what, state: "broken", says: "has a credential that does not open", todo });
      }
    }
  }
  return { accounts, findings };
}

function compiled(record: AccountRecord, keyring: Keyring): Iterable<PolicyAccount> {
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
      const todo = "Give the group an account in the file, or enable one of its own.";
      return [{ what, state: "broken", says: "publishes models but has no enabled account", todo }];
    }
    const findings = checkPublications(group).flatMap((publication) =>
      publication.shortcomings.map((shortcoming) => ({
        what,
        state: isHidden(shortcoming) ? ("broken" as const) : ("doubtful" as const),
        ...inWords(shortcoming, group, publication, pool),
      })),
    );
    if (findings.length > 0) return findings;
    return [{ what, state: "good", says: "every published model has an account", todo: null }];
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
    .map(({ name }) => ({
      what: `group ${name}`,
      state: "doubtful",
      says: "charges nothing and is open to everyone, and so is registration",
      todo: "Write access: members, let it charge a balance or a subscription, or close registration.",
    }));
}

function inWords(
  shortcoming: Shortcoming,
  group: GroupRecord,
  { model, mapping }: CheckedPublication,
  pool: readonly AccountRecord[],
): Pick<Finding, "says" | "todo"> {
  const names = (accounts: readonly AccountRecord[]) => accounts.map(({ name }) => name).join(" or ");
  switch (shortcoming.kind) {
    case "no_account":
    case "unmapped":
      return {
        says: `publishes ${model.id}, which no account of its pool maps`,
        todo: `Add "${model.id}" to the models of ${names(pool)}, or take it from the group.`,
      };
    case "no_shared_interface":
      return {
        says: `publishes ${model.id}, but shares no interface with it`,
        todo: `The group allows ${group.interfaces.join(", ")}; the model has ${model.interfaces.join(", ")}.`,
      };
    case "unspoken": {
      const unspoken = shortcoming.interfaces.join(", ");
      return {
        says: `publishes ${model.id}, but no account that maps it speaks ${unspoken}`,
        todo: `Add ${unspoken} to the interfaces of ${names(mapping)}, or take it from the model.`,
      };
    }
    case "no_price": {
      const reason =
        group.billing.charge === "none" ? "has a window in usd" : `charges a ${group.billing.charge}`;
      return {
        says: `does not publish ${model.id}: it has no price, and the group ${reason}`,
        todo: `Give ${model.id} a price in the file, or in a list: npx model-gateway prices update --from FILE`,
      };
    }
  }
}
