/** Compares the state with the file and computes the steps that lead from one to the other. Writes nothing. */

import { KINDS } from "../../accounts/kinds/table.ts";
import type { AccountRecord } from "../../records/account.ts";
import type { GroupRecord } from "../../records/group.ts";
import type { ModelRecord } from "../../records/model.ts";
import type { RequestPolicyRecord } from "../../records/request-policy.ts";
import type { UserRecord } from "../../records/user.ts";
import { accountCredentialBinding, seal, unseal } from "../../secrets/seal.ts";
import type { Db } from "../../store/engine/db.ts";
import { putUser } from "../../store/identity/users.ts";
import { putAccount } from "../../store/policy/accounts.ts";
import { putGroup } from "../../store/policy/groups.ts";
import { putModel } from "../../store/policy/models.ts";
import { putRequestPolicy } from "../../store/policy/request-policies.ts";
import { defaultBaseUrl, defaultInterfaces, defaultRegion } from "../account-defaults.ts";
import { chargingProblems } from "../parse/check-charging.ts";
import { destinationProblems } from "../parse/check-destinations.ts";
import { fallbackProblems } from "../parse/check-fallback.ts";
import { requestPolicyProblems } from "../parse/check-request-policies.ts";
import type {
  FileAccount,
  FileGroup,
  FileModel,
  FileRequestPolicy,
  FileUser,
  GatewayFile,
} from "../schema/schema.ts";
import { parseCallerLimits } from "../schema/usage-limits.ts";
import { formatUser, recordChanges, secretChange, secretSet } from "../state/difference.ts";
import { ACCOUNT_SHAPE, GROUP_SHAPE, MODEL_SHAPE } from "../state/file-shape.ts";
import { buildStep, type ConfigState, type PlanStep, requireId, type Secrets } from "../state/step.ts";
import { formatGroup, formatRequestPolicy, type RecordNames } from "../state/to-file-shape.ts";
import { openingField, postOpening, readOpeningBalance } from "./opening-balance.ts";
import { planGrants } from "./plan-grants.ts";
import { type ImportedSecrets, type KeyPlan, planKeys } from "./plan-keys.ts";
import { pruneSteps, type Removals, removalSteps } from "./plan-removals.ts";
import { isPermitted, type PlanPermit } from "./plan-scope.ts";
import { planServiceAccounts, pruneServiceAccounts } from "./plan-service-accounts.ts";
import { mailProblems, planSettings, settingsFileOnlyProblems } from "./plan-settings.ts";
import { signInProblems } from "./plan-sign-in.ts";
import { planToolSignIn, type ReadFile } from "./plan-tool-sign-in.ts";

/**
 * Steps are in an order that respects references: an entry is created before and removed after the entries that
 * refer to it. Problems are changes that the current state does not allow.
 */
interface Plan extends KeyPlan {
  /** The state after the plan is applied. It may still contain removed entries, to which nothing refers any more. */
  after: ConfigState;
}

export interface PlanOptions {
  /** Remove entries that the file does not name. */
  prune: boolean;
  /** Remove these entries, which the file does not name. */
  removals?: Removals;
  /** The plan comes from a browser: see config/parse/check-reach.ts. */
  fromConsole?: boolean;
  /** Secrets of keys of the document that come from another gateway. */
  importedSecrets?: ImportedSecrets;
  /** Reads files that the configuration names. Omitted: the plan may not change their content. */
  readFile?: ReadFile | undefined;
  /** The plan is for a service account. Pruning removes only what it may change. */
  permit?: PlanPermit;
}

/** All records of a plan are created at one time, so that their order does not depend on how long planning takes. */
function atOneTime(secrets: Secrets): Secrets {
  const { clock } = secrets;
  const nowMs = clock.nowMs();
  return { ...secrets, clock: { nowMs: () => nowMs, monotonicMs: () => clock.monotonicMs() } };
}

export async function planSteps(
  state: ConfigState,
  file: GatewayFile,
  given: Secrets,
  options: PlanOptions,
): Promise<Plan> {
  const secrets = atOneTime(given);
  const models = file.models.map((wanted) => planModel(state, wanted, secrets));
  const accounts = file.accounts.map((wanted) => planAccount(state, wanted, secrets));
  const policies = file.request_policies.map((wanted) => planRequestPolicy(state, wanted, secrets));

  const accountsAfter = new Map(state.accounts.map(({ name, id }) => [name, id]));
  for (const { record } of accounts) accountsAfter.set(record.name, record.id);
  const groupsAfter = assignGroupIds(state, file, secrets);
  const ids = { accounts: accountsAfter, groups: groupsAfter };
  const groups = file.groups.map((wanted) => planGroup(state, wanted, ids, secrets));

  const byEmail = new Map(state.users.map((user) => [user.email.toLowerCase(), user]));
  const groupNames = { ids: groupsAfter, names: invert(groupsAfter) };
  const users = await Promise.all(
    file.users.map((wanted) => planUser(byEmail.get(wanted.email), wanted, groupNames, secrets)),
  );
  const usersAfter = new Map(state.users.map(({ email, id }) => [email.toLowerCase(), id]));
  for (const { record } of users) usersAfter.set(record.email, record.id);
  const targets = { groups: groupsAfter, users: usersAfter, imported: options.importedSecrets };
  const keys = planKeys(state, file.keys, targets, secrets);

  const after = stateAfter(state, {
    models: models.map(({ record }) => record),
    accounts: accounts.map(({ record }) => record),
    requestPolicies: policies.map(({ record }) => record),
    groups: groups.map(({ record }) => record),
  });
  const toolSignIn = planToolSignIn(state, file, options.readFile);
  const grants = planGrants(state, file, usersAfter, secrets);

  const pruned = options.prune
    ? pruneAll({ state, file, secrets }, grants.removals).filter((step) => isPermitted(step, options.permit))
    : [];
  const removed = removalSteps(state, options.removals ?? {}, secrets);
  return {
    steps: [
      ...grants.plans,
      ...planSettings(state, file, secrets),
      ...toolSignIn.steps,
      ...[...models, ...accounts, ...policies, ...groups, ...users].flatMap(({ step }) => step ?? []),
      ...grants.subscriptions,
      ...keys.steps,
      ...planServiceAccounts(state, file.service_accounts, secrets),
      ...pruned,
      ...removed.steps,
    ],
    shown: keys.shown,
    after,
    problems: [
      ...keys.problems,
      ...chargingProblems(file, after, options),
      ...requestPolicyProblems(file, after, options),
      ...fallbackProblems(file, after, options),
      ...mailProblems(file, state),
      ...signInProblems(file, state),
      ...toolSignIn.problems,
      ...(options.fromConsole
        ? [...destinationProblems(file, state), ...settingsFileOnlyProblems(file, state)]
        : []),
      ...removed.problems,
    ],
  };
}

function pruneAll({ state, file, secrets }: PruneInput, grantRemovals: PlanStep[]): PlanStep[] {
  return [
    ...pruneSteps(state, file, secrets),
    ...grantRemovals,
    ...pruneServiceAccounts(state, file.service_accounts),
  ];
}

interface PruneInput {
  readonly state: ConfigState;
  readonly file: GatewayFile;
  readonly secrets: Secrets;
}

/** The ids of all groups by name, before any group is planned: one may fall back to a later one. */
function assignGroupIds(state: ConfigState, file: GatewayFile, { newId }: Secrets): Map<string, string> {
  const ids = new Map(state.groups.map(({ name, id }) => [name, id]));
  for (const { name } of file.groups) ids.set(name, ids.get(name) ?? newId("grp"));
  return ids;
}

/** The state after the plan is applied. Nothing refers to entries that pruning removes. */
function stateAfter(
  state: ConfigState,
  planned: Pick<ConfigState, "models" | "accounts" | "requestPolicies" | "groups">,
): ConfigState {
  const replace = <One extends { id: string } | { name: string }>(before: One[], after: One[]): One[] => [
    ...new Map([...before, ...after].map((one) => ["id" in one ? one.id : one.name, one])).values(),
  ];
  return {
    ...state,
    models: replace(state.models, planned.models),
    accounts: replace(state.accounts, planned.accounts),
    requestPolicies: replace(state.requestPolicies, planned.requestPolicies),
    groups: replace(state.groups, planned.groups),
  };
}

interface PlannedRecord<Record> {
  record: Record;
  /** Null if nothing changes. */
  step: PlanStep | null;
}

function planModel(state: ConfigState, wanted: FileModel, { clock }: Secrets): PlannedRecord<ModelRecord> {
  const present = state.models.find(({ id }) => id === wanted.id);
  const createdAtMs = present?.createdAtMs ?? clock.nowMs();
  const record: ModelRecord = { ...MODEL_SHAPE.parse(wanted), createdAtMs };
  const fields = recordChanges(present, record, (model) => MODEL_SHAPE.format(model));
  return { record, step: buildStep(`model ${record.id}`, !present, fields, (tx) => putModel(tx, record)) };
}

function planAccount(
  state: ConfigState,
  wanted: FileAccount,
  secrets: Secrets,
): PlannedRecord<AccountRecord> {
  const present = state.accounts.find(({ name }) => name === wanted.name);
  const id = present?.id ?? secrets.newId("acct");
  const binding = accountCredentialBinding(id);
  const sealed = present?.sealedCredential ?? null;
  const { credential, kind } = wanted;
  // An omitted credential is kept, so that an exported file, which contains none, can be applied again. The
  // simulator has no credential, so one that is left from another kind is removed.
  const keptCredential = KINDS[kind].credential === "none" ? null : sealed;
  const same =
    credential === undefined || (sealed !== null && unseal(secrets.keyring, binding, sealed) === credential);
  const complete = {
    ...wanted,
    base_url: wanted.base_url ?? defaultBaseUrl(wanted),
    interfaces: wanted.interfaces ?? [...defaultInterfaces(wanted)],
    region: defaultRegion(wanted) ?? undefined,
  };
  const record: AccountRecord = {
    ...ACCOUNT_SHAPE.parse(complete),
    id,
    sealedCredential: same ? keptCredential : seal(secrets.keyring, binding, credential, secrets.randomBytes),
    createdAtMs: present?.createdAtMs ?? secrets.clock.nowMs(),
  };
  const fields = recordChanges(present, record, (account) => ACCOUNT_SHAPE.format(account));
  if (record.sealedCredential !== sealed) {
    fields.push(sealed === null ? secretSet("credential") : secretChange("credential"));
  }
  return {
    record,
    step: buildStep(`account ${record.name}`, !present, fields, (tx) => putAccount(tx, record)),
  };
}

function planGroup(
  state: ConfigState,
  wanted: FileGroup,
  ids: RecordNames,
  { clock }: Secrets,
): PlannedRecord<GroupRecord> {
  const present = state.groups.find(({ name }) => name === wanted.name);
  const parsed = GROUP_SHAPE.parse(wanted);
  const record: GroupRecord = {
    ...parsed,
    id: requireId(ids.groups, wanted.name),
    accounts: wanted.accounts.map((name) => requireId(ids.accounts, name)),
    fallback: parsed.fallback.map((step) => ({
      ...step,
      group: step.group === null ? null : requireId(ids.groups, step.group),
    })),
    createdAtMs: present?.createdAtMs ?? clock.nowMs(),
  };
  const names = { accounts: invert(ids.accounts), groups: invert(ids.groups) };
  const fields = recordChanges(present, record, (group) => formatGroup(group, names));
  return { record, step: buildStep(`group ${record.name}`, !present, fields, (tx) => putGroup(tx, record)) };
}

function invert(idByName: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  return new Map([...idByName].map(([name, id]) => [id, name]));
}

function planRequestPolicy(
  state: ConfigState,
  { name, self_service: selfService, ...rules }: FileRequestPolicy,
  { clock }: Secrets,
): PlannedRecord<RequestPolicyRecord> {
  const present = state.requestPolicies.find((one) => one.name === name);
  const createdAtMs = present?.createdAtMs ?? clock.nowMs();
  const record: RequestPolicyRecord = { name, selfService, rules, createdAtMs };
  const fields = recordChanges(present, record, formatRequestPolicy);
  return {
    record,
    step: buildStep(`request_policy ${name}`, !present, fields, (tx) => putRequestPolicy(tx, record)),
  };
}

async function planUser(
  present: UserRecord | undefined,
  wanted: FileUser,
  groups: { ids: ReadonlyMap<string, string>; names: ReadonlyMap<string, string> },
  { clock, newId }: Secrets,
): Promise<PlannedRecord<UserRecord>> {
  // Before the first await: hashing takes time, and rows created together must keep the order of the file.
  const id = present?.id ?? newId("user");
  const createdAtMs = present?.createdAtMs ?? clock.nowMs();
  const hash = present?.passwordHash ?? null;
  const { password } = wanted;
  const same = password === undefined || (hash !== null && (await Bun.password.verify(password, hash)));
  const record: UserRecord = {
    id,
    // The database compares addresses case-insensitively, so the original spelling is kept.
    email: present?.email ?? wanted.email,
    role: wanted.role,
    // An omitted status is kept: applying an older file does not enable a disabled user again.
    status: wanted.status ?? present?.status ?? "active",
    passwordHash: same ? hash : await Bun.password.hash(password, "argon2id"),
    limits: parseCallerLimits(wanted.limits),
    groups: wanted.groups.map((name) => requireId(groups.ids, name)),
    createdAtMs,
  };
  const fields = recordChanges(present, record, (user) =>
    formatUser(user, (groupId) => groups.names.get(groupId) ?? groupId),
  );
  if (!same) fields.push(hash === null ? secretSet("password") : secretChange("password"));
  const opening = present === undefined ? readOpeningBalance(wanted) : null;
  if (opening !== null) fields.push(openingField(opening));
  const write = async (tx: Db) => {
    await putUser(tx, record);
    if (opening !== null) await postOpening(tx, record, opening);
  };
  return {
    record: { ...record, email: wanted.email },
    step: buildStep(`user ${record.email}`, !present, fields, write),
  };
}
