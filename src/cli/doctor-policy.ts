import { mapModel } from "../policy/model-map.ts";
import { needsPrices, openPricing, type TermsOf } from "../policy/pricing.ts";
import { type Account, compileSnapshot } from "../policy/snapshot.ts";
import type { AccountRecord, GroupRecord, ModelRecord, PolicyRecords } from "../records.ts";
import type { Keyring } from "../secrets/keyring.ts";
import { accountCredentialBinding, unseal } from "../secrets/seal.ts";
import type { Finding } from "./finding.ts";

/** What `doctor` reads from the records alone: credentials that do not open, models that nobody can serve. */

/** Enabled accounts with their credentials; those whose credential does not open are findings instead. */
export function openAccounts(
  records: PolicyRecords,
  keyring: Keyring,
): { accounts: Account[]; findings: Finding[] } {
  const findings: Finding[] = [];
  const accounts: Account[] = [];
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

function compiled(record: AccountRecord, keyring: Keyring): Iterable<Account> {
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

export function checkPublications(records: PolicyRecords): Finding[] {
  const models = new Map(records.models.map((model) => [model.id, model]));
  const accounts = new Map(records.accounts.map((account) => [account.id, account]));
  const termsFor = openPricing(records);
  return records.groups.flatMap((group) => {
    const pool = group.accounts.flatMap((id) => accounts.get(id) ?? []).filter(({ enabled }) => enabled);
    const what = `group ${group.name}`;
    if (group.models.length > 0 && pool.length === 0) {
      const todo = "Give the group an account in the file, or enable one of its own.";
      return [{ what, state: "broken", says: "publishes models but has no enabled account", todo } as const];
    }
    const findings = group.models
      .flatMap((id) => models.get(id) ?? [])
      .flatMap((model) => [
        ...checkPublication(group, model, pool),
        ...checkPrice(group, model, termsFor(group)),
      ]);
    if (findings.length > 0 || group.models.length === 0) return findings;
    return [{ what, state: "good", says: "every published model has an account", todo: null } as const];
  });
}

function checkPrice(group: GroupRecord, model: ModelRecord, termsOf: TermsOf): Finding[] {
  if (!needsPrices(group) || termsOf(model).price !== null) return [];
  const reason =
    group.billing.charge === "none" ? "has a window in usd" : `charges a ${group.billing.charge}`;
  return [
    {
      what: `group ${group.name}`,
      state: "broken",
      says: `does not publish ${model.id}: it has no price, and the group ${reason}`,
      todo: `Give ${model.id} a price in the file, or in a list: model-gateway prices update --from FILE`,
    },
  ];
}

function checkPublication(group: GroupRecord, model: ModelRecord, pool: readonly AccountRecord[]): Finding[] {
  const what = `group ${group.name}`;
  const mapping = pool.filter(({ models }) => mapModel(models, model.id) !== null);
  if (mapping.length === 0) {
    return [
      {
        what,
        state: "broken",
        says: `publishes ${model.id}, which no account of its pool maps`,
        todo: `Add "${model.id}" to the models of ${pool.map(({ name }) => name).join(" or ")}, or take it from the group.`,
      },
    ];
  }
  const offered = model.interfaces.filter((name) => group.interfaces.includes(name));
  if (offered.length === 0) {
    const todo = `The group allows ${group.interfaces.join(", ")}; the model has ${model.interfaces.join(", ")}.`;
    return [{ what, state: "broken", says: `publishes ${model.id}, but shares no interface with it`, todo }];
  }
  const unserved = offered.filter((name) => !mapping.some(({ interfaces }) => interfaces.includes(name)));
  if (unserved.length === 0) return [];
  return [
    {
      what,
      state: unserved.length === offered.length ? "broken" : "doubtful",
      says: `publishes ${model.id}, but no account that maps it speaks ${unserved.join(", ")}`,
      todo: `Add ${unserved.join(", ")} to the interfaces of ${mapping.map(({ name }) => name).join(" or ")}, or take it from the model.`,
    },
  ];
}
