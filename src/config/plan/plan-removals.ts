/** Plans removals: of everything that the file does not name (pruning), or of entries that are named one by one. */

import { type Nano, usdText } from "../../money/nano.ts";
import { type KeyRecord, keyTitle } from "../../records/key.ts";
import { deleteUser } from "../../store/identity/users.ts";
import { deletePlan } from "../../store/money/plans.ts";
import { deleteAccount } from "../../store/policy/accounts.ts";
import { deleteGroup } from "../../store/policy/groups.ts";
import { revokeKey } from "../../store/policy/keys.ts";
import { deleteModel } from "../../store/policy/models.ts";
import { deleteRequestPolicy } from "../../store/policy/request-policies.ts";
import type { GatewayDocument, GatewayFile } from "../schema/schema.ts";
import type { FieldProblem } from "../state/problem.ts";
import type { ConfigState, PlanStep, Secrets } from "../state/step.ts";
import { groupToFile, nameRecords } from "../state/to-file-shape.ts";
import { activeKeys } from "./plan-keys.ts";
import { removeServiceAccounts } from "./plan-service-accounts.ts";

/** Identifiers as in the file: e-mail addresses of users, ids of models. */
export interface Removals {
  readonly request_policies?: readonly string[];
  readonly groups?: readonly string[];
  readonly accounts?: readonly string[];
  readonly models?: readonly string[];
  readonly users?: readonly string[];
  readonly plans?: readonly string[];
  readonly service_accounts?: readonly string[];
}

const NOUNS: Readonly<Record<keyof Removals, string>> = {
  request_policies: "request policy",
  groups: "group",
  accounts: "account",
  models: "model",
  users: "user",
  plans: "plan",
  service_accounts: "service account",
};

/** A debt is kept as well: a user who is removed and created again would no longer owe it. */
function describeBalance(nano: Nano): string {
  return nano < 0n ? `a debt of $${usdText(-nano)}` : `a balance of $${usdText(nano)}`;
}

/** Notes for users that pruning keeps because of their wallet. */
export function usersWithMoney(state: ConfigState, file: GatewayFile): string[] {
  const named = new Set(file.users.map(({ email }) => email));
  return state.users.flatMap(({ id, email }) => {
    const nano = state.funds.get(id);
    if (nano === undefined || named.has(email.toLowerCase())) return [];
    return `user ${email}: not removed, because the wallet has ${describeBalance(nano)}. Remove it with \`wallet adjust\` first.`;
  });
}

export function pruneSteps(state: ConfigState, file: GatewayFile, { clock }: Secrets): PlanStep[] {
  const named = (list: readonly { name: string }[]) => new Set(list.map(({ name }) => name));

  const namedUsers = new Set(file.users.map(({ email }) => email));
  const namedKeys = new Set(file.keys.map((key) => JSON.stringify([key.user ?? null, key.name])));
  // A file without an administrator must not lock all administrators out.
  const keepsAdmins = !file.users.some(({ role }) => role === "admin");
  const keptKeys = new Set([...activeKeys(state).values()].map(({ id }) => id));
  const keyEmail = openEmails(state);
  const namedGroups = named(file.groups);
  const removedGroups = new Set(
    state.groups.filter(({ name }) => !namedGroups.has(name)).map(({ id }) => id),
  );
  // People of a provider, and their keys, are not part of a file. Neither are keys of tools.
  const external = new Set(
    state.users.filter(({ directory }) => directory !== undefined).map(({ id }) => id),
  );
  const keys = state.keys.filter((key) => {
    if (state.toolKeys.has(key.id)) return key.status === "active" && removedGroups.has(key.groupId);
    if (key.userId !== null && external.has(key.userId)) return false;
    const isNamed = namedKeys.has(JSON.stringify([keyEmail(key)?.toLowerCase() ?? null, key.name]));
    return key.status === "active" && !(isNamed && keptKeys.has(key.id));
  });
  const users = state.users.filter(
    ({ id, email, role }) =>
      !namedUsers.has(email.toLowerCase()) &&
      !external.has(id) &&
      !(keepsAdmins && role === "admin") &&
      !state.funds.has(id),
  );
  const namedAccounts = named(file.accounts);
  const namedPolicies = named(file.request_policies);
  const namedModels = new Set(file.models.map(({ id }) => id));

  const removed: Removed = {
    keys,
    users,
    groups: state.groups.filter(({ name }) => !namedGroups.has(name)),
    requestPolicies: state.requestPolicies.filter(({ name }) => !namedPolicies.has(name)),
    accounts: state.accounts.filter(({ name }) => !namedAccounts.has(name)),
    models: state.models.filter(({ id }) => !namedModels.has(id)),
  };
  return removeAll(removed, keyEmail, clock.nowMs());
}

type Removed = Pick<ConfigState, "keys" | "users" | "groups" | "requestPolicies" | "accounts" | "models">;
type FindEmail = (key: KeyRecord) => string | null;

/** In an order that respects references. */
function removeAll(removed: Removed, findEmail: FindEmail, nowMs: number): PlanStep[] {
  const { keys, users, groups, requestPolicies, accounts, models } = removed;
  return [
    ...keys.map((key) => remove(keyTitle(key.name, findEmail(key)), (tx) => revokeKey(tx, key.id, nowMs))),
    ...users.map(({ id, email }) => remove(`user ${email}`, (tx) => deleteUser(tx, id))),
    ...groups.map(({ id, name }) => remove(`group ${name}`, (tx) => deleteGroup(tx, id))),
    ...requestPolicies.map(({ name }) =>
      remove(`request_policy ${name}`, (tx) => deleteRequestPolicy(tx, name)),
    ),
    ...accounts.map(({ id, name }) => remove(`account ${name}`, (tx) => deleteAccount(tx, id))),
    ...models.map(({ id }) => remove(`model ${id}`, (tx) => deleteModel(tx, id))),
  ];
}

/** The owner of a key; null without one. */
function openEmails({ users }: Pick<ConfigState, "users">): FindEmail {
  const emails = new Map(users.map(({ id, email }) => [id, email]));
  return ({ userId }) => (userId === null ? null : (emails.get(userId) ?? userId));
}

function remove(what: string, write: PlanStep["write"]): PlanStep {
  return { kind: "remove", what, fields: [], write };
}

/**
 * Keys are removed with their group or user. Removed models and accounts are taken out of their groups.
 */
export function removalSteps(
  state: ConfigState,
  removals: Removals,
  { clock }: Secrets,
): { steps: PlanStep[]; problems: FieldProblem[] } {
  const problems: FieldProblem[] = [];
  const findNamed = <One>(
    section: keyof Removals,
    all: readonly One[],
    getName: (one: One) => string,
  ): One[] => {
    const byName = new Map(all.map((one) => [getName(one), one]));
    return (removals[section] ?? []).flatMap((name, i) => {
      const one = byName.get(section === "users" ? name.toLowerCase() : name);
      if (one !== undefined) return [one];
      problems.push({ path: [section, i], message: `the ${NOUNS[section]} "${name}" does not exist.` });
      return [];
    });
  };
  const groups = findNamed("groups", state.groups, ({ name }) => name);
  const accounts = findNamed("accounts", state.accounts, ({ name }) => name);
  const models = findNamed("models", state.models, ({ id }) => id);
  const users = findNamed("users", state.users, ({ email }) => email.toLowerCase());
  const requestPolicies = findNamed("request_policies", state.requestPolicies, ({ name }) => name);
  const plans = findNamed("plans", state.plans, ({ name }) => name);
  const serviceAccounts = findNamed("service_accounts", state.serviceAccounts, ({ name }) => name);
  for (const { id, email } of users) {
    const nano = state.funds.get(id);
    if (nano === undefined) continue;
    const message = `${email} still has ${describeBalance(nano)}. Adjust the balance to zero first.`;
    problems.push({ path: ["users"], message });
  }

  const groupIds = new Set(groups.map(({ id }) => id));
  const userIds = new Set(users.map(({ id }) => id));
  const keys = state.keys.filter(
    ({ status, groupId, userId }) =>
      status === "active" && (groupIds.has(groupId) || (userId !== null && userIds.has(userId))),
  );
  const removed: Removed = { keys, users, groups, requestPolicies, accounts, models };
  return {
    steps: [
      ...removeAll(removed, openEmails(state), clock.nowMs()),
      ...plans.map(({ id, name }) => remove(`plan ${name}`, (tx) => deletePlan(tx, id))),
      ...removeServiceAccounts(serviceAccounts),
    ],
    problems,
  };
}

/** Adds every group that loses a model or an account to the document, unless the document names the group itself. */
export function withRemainingGroups(
  state: ConfigState,
  document: GatewayDocument,
  removals: Removals,
): GatewayDocument {
  const models = new Set(removals.models);
  const accounts = new Set(removals.accounts);
  const named = new Set([...(document.groups ?? []).map(readName), ...(removals.groups ?? [])]);
  const names = nameRecords(state);
  const changedGroups = state.groups.flatMap((group) => {
    const written = groupToFile(group, names);
    const isAffected =
      group.models.some((id) => models.has(id)) || written.accounts.some((name) => accounts.has(name));
    if (!isAffected || named.has(group.name)) return [];
    const { model_multipliers, model_prices, ...billing } = written.billing;
    return {
      ...written,
      models: group.models.filter((id) => !models.has(id)),
      accounts: written.accounts.filter((name) => !accounts.has(name)),
      billing: {
        ...billing,
        ...(model_multipliers && { model_multipliers: omitNames(model_multipliers, models) }),
        ...(model_prices && { model_prices: omitNames(model_prices, models) }),
      },
    };
  });
  return changedGroups.length === 0
    ? document
    : { ...document, groups: [...(document.groups ?? []), ...changedGroups] };
}

function omitNames<Value>(
  named: Readonly<Record<string, Value>>,
  removedNames: ReadonlySet<string>,
): Record<string, Value> {
  return Object.fromEntries(Object.entries(named).filter(([name]) => !removedNames.has(name)));
}

function readName(item: object): unknown {
  return "name" in item ? item.name : undefined;
}
