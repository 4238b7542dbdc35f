import { usdText } from "../money/nano.ts";
import {
  ACCOUNT_KINDS,
  type AccountKind,
  type AccountRecord,
  type GroupRecord,
  type KeyRecord,
  type ModelRecord,
  NO_BILLING,
  type Price,
  type UserRecord,
} from "../records.ts";
import { accountCredentialBinding, seal, unseal } from "../secrets/seal.ts";
import { deleteAccount, putAccount } from "../store/accounts.ts";
import type { Db } from "../store/db.ts";
import { deleteGroup, putGroup } from "../store/groups.ts";
import { revokeKey } from "../store/keys.ts";
import { deleteModel, putModel } from "../store/models.ts";
import { deleteUser, putUser } from "../store/users.ts";
import { chargingProblems } from "./check-charging.ts";
import {
  created,
  differences,
  secretChange,
  secretSet,
  shownAccount,
  shownGroup,
  shownModel,
  shownUser,
} from "./difference.ts";
import { openingField, openingOf, postOpening } from "./opening-balance.ts";
import { planGrants } from "./plan-grants.ts";
import { activeKeys, type KeyPlan, keyTitle, planKeys } from "./plan-keys.ts";
import { planRetention } from "./retention.ts";
import type { FileAccount, FileGroup, FileModel, FileUser, GatewayFile } from "./schema.ts";
import { known, type Secrets, type State, type Step, stepOf } from "./step.ts";
import { callerLimitsOf, queueOf, rateLimitsOf } from "./usage-limits.ts";

/** State and file → the steps that bring the one to the other. Nothing is written here. */

/**
 * Steps stand in an order that respects references: what is referred to comes first, and goes last. Problems are
 * what the file asks for and the present state forbids.
 */
export type Plan = KeyPlan;

export interface PlanOptions {
  /** Remove what the file does not name. */
  prune: boolean;
}

export async function planSteps(
  state: State,
  file: GatewayFile,
  secrets: Secrets,
  options: PlanOptions,
): Promise<Plan> {
  const models = file.models.map((wanted) => planModel(state, wanted, secrets));
  const accounts = file.accounts.map((wanted) => planAccount(state, wanted, secrets));
  const byEmail = new Map(state.users.map((user) => [user.email.toLowerCase(), user]));
  const users = await Promise.all(
    file.users.map((wanted) => planUser(byEmail.get(wanted.email), wanted, secrets)),
  );

  const accountsAfter = new Map(state.accounts.map(({ name, id }) => [name, id]));
  for (const { record } of accounts) accountsAfter.set(record.name, record.id);
  const groups = file.groups.map((wanted) => planGroup(state, wanted, accountsAfter, secrets));

  const groupsAfter = new Map(state.groups.map(({ name, id }) => [name, id]));
  for (const { record } of groups) groupsAfter.set(record.name, record.id);
  const usersAfter = new Map(state.users.map(({ email, id }) => [email.toLowerCase(), id]));
  for (const { record } of users) usersAfter.set(record.email, record.id);
  const keys = planKeys(state, file.keys, { groups: groupsAfter, users: usersAfter }, secrets);

  const after = stateAfter(state, {
    models: models.map(({ record }) => record),
    accounts: accounts.map(({ record }) => record),
    groups: groups.map(({ record }) => record),
  });
  const grants = planGrants(state, file, usersAfter, secrets);

  const removals = options.prune ? [...planRemovals(state, file, secrets), ...grants.removals] : [];
  return {
    steps: [
      ...grants.plans,
      ...planRetention(state, file),
      ...[...models, ...accounts, ...users, ...groups].flatMap(({ step }) => step ?? []),
      ...grants.subscriptions,
      ...keys.steps,
      ...removals,
    ],
    shown: keys.shown,
    problems: [...keys.problems, ...chargingProblems(file, after, options)],
  };
}

/** What stands when the plan is done; what pruning removes nobody refers to. */
function stateAfter(state: State, planned: Pick<State, "models" | "accounts" | "groups">): State {
  const replaced = <One extends { id: string }>(before: readonly One[], after: readonly One[]): One[] => [
    ...new Map([...before, ...after].map((one) => [one.id, one])).values(),
  ];
  return {
    ...state,
    models: replaced(state.models, planned.models),
    accounts: replaced(state.accounts, planned.accounts),
    groups: replaced(state.groups, planned.groups),
  };
}

/** Pruning leaves users alone who still have money: it would be nobody's. */
export function keptForTheirMoney(state: State, file: GatewayFile): string[] {
  const named = new Set(file.users.map(({ email }) => email));
  return state.users.flatMap(({ id, email }) => {
    const nano = state.funds.get(id);
    if (nano === undefined || named.has(email.toLowerCase())) return [];
    return `user ${email}: not removed, for $${usdText(nano)} is left in the wallet. Take it out with \`wallet adjust\` first.`;
  });
}

interface Planned<Record> {
  record: Record;
  /** Null when nothing changes. */
  step: Step | null;
}

function planModel(state: State, wanted: FileModel, { clock }: Secrets): Planned<ModelRecord> {
  const present = state.models.find(({ id }) => id === wanted.id);
  const record: ModelRecord = {
    id: wanted.id,
    interfaces: wanted.interfaces,
    price: priceOf(wanted.price),
    contextTokens: wanted.context_tokens ?? null,
    outputTokensMax: wanted.max_output_tokens ?? null,
    createdAtMs: present?.createdAtMs ?? clock.nowMs(),
  };
  const fields = present ? differences(shownModel(present), shownModel(record)) : created(shownModel(record));
  return { record, step: stepOf(`model ${record.id}`, !present, fields, (tx) => putModel(tx, record)) };
}

function priceOf(price: FileModel["price"]): Price | null {
  return price === undefined || Object.keys(price).length === 0 ? null : price;
}

function planAccount(state: State, wanted: FileAccount, secrets: Secrets): Planned<AccountRecord> {
  const present = state.accounts.find(({ name }) => name === wanted.name);
  const id = present?.id ?? secrets.newId("acct");
  const binding = accountCredentialBinding(id);
  const sealed = present?.sealedCredential ?? null;
  const { credential } = wanted;
  const kind = builtKind(wanted.kind);
  // A credential left out is kept: that is how an exported file, which has none, can be applied again.
  // The simulator takes none, so one left over from another kind goes.
  const kept = kind === "simulator" ? null : sealed;
  const same =
    credential === undefined || (sealed !== null && unseal(secrets.keyring, binding, sealed) === credential);
  const record: AccountRecord = {
    id,
    name: wanted.name,
    kind,
    baseUrl: wanted.base_url ?? "",
    sealedCredential: same ? kept : seal(secrets.keyring, binding, credential, secrets.randomBytes),
    interfaces: wanted.interfaces,
    apiVersion: wanted.api_version ?? null,
    privateNetwork: wanted.private_network,
    priority: wanted.priority,
    weight: wanted.weight,
    models: wanted.models,
    limits: rateLimitsOf(wanted.limits),
    enabled: wanted.enabled,
    createdAtMs: present?.createdAtMs ?? secrets.clock.nowMs(),
  };
  const fields = present
    ? differences(shownAccount(present), shownAccount(record))
    : created(shownAccount(record));
  if (record.sealedCredential !== sealed) {
    fields.push(sealed === null ? secretSet("credential") : secretChange("credential"));
  }
  return { record, step: stepOf(`account ${record.name}`, !present, fields, (tx) => putAccount(tx, record)) };
}

/** Kinds that are not built are refused before a plan is made. */
function builtKind(kind: FileAccount["kind"]): AccountKind {
  const built = ACCOUNT_KINDS.find((candidate) => candidate === kind);
  if (built === undefined) throw new Error(`No account of kind ${kind} can be planned.`);
  return built;
}

function planGroup(
  state: State,
  wanted: FileGroup,
  accounts: ReadonlyMap<string, string>,
  { clock, newId }: Secrets,
): Planned<GroupRecord> {
  const present = state.groups.find(({ name }) => name === wanted.name);
  const record: GroupRecord = {
    id: present?.id ?? newId("grp"),
    name: wanted.name,
    interfaces: wanted.interfaces,
    models: wanted.models,
    accounts: wanted.accounts.map((name) => known(accounts, name)),
    billing: {
      charge: wanted.billing?.charge ?? NO_BILLING.charge,
      plans: wanted.billing?.plans ?? null,
      multiplier: wanted.billing?.multiplier ?? NO_BILLING.multiplier,
      modelMultipliers: wanted.billing?.model_multipliers ?? {},
      modelPrices: wanted.billing?.model_prices ?? {},
    },
    onDisconnect: wanted.on_disconnect,
    limits: callerLimitsOf(wanted.limits),
    groupLimits: callerLimitsOf(wanted.group_limits),
    queue: queueOf(wanted.queue),
    createdAtMs: present?.createdAtMs ?? clock.nowMs(),
  };
  const names = new Map([...accounts].map(([name, id]) => [id, name]));
  const shown = (group: GroupRecord) => shownGroup(group, (id) => names.get(id) ?? id);
  const fields = present ? differences(shown(present), shown(record)) : created(shown(record));
  return { record, step: stepOf(`group ${record.name}`, !present, fields, (tx) => putGroup(tx, record)) };
}

async function planUser(
  present: UserRecord | undefined,
  wanted: FileUser,
  { clock, newId }: Secrets,
): Promise<Planned<UserRecord>> {
  // Before the first wait: hashing takes its time, and rows made together must keep the file's order.
  const id = present?.id ?? newId("user");
  const createdAtMs = present?.createdAtMs ?? clock.nowMs();
  const hash = present?.passwordHash ?? null;
  const { password } = wanted;
  const same = password === undefined || (hash !== null && (await Bun.password.verify(password, hash)));
  const record: UserRecord = {
    id,
    // Case makes no difference to the store, so the way it was first written stays.
    email: present?.email ?? wanted.email,
    role: wanted.role,
    passwordHash: same ? hash : await Bun.password.hash(password, "argon2id"),
    limits: callerLimitsOf(wanted.limits),
    createdAtMs,
  };
  const fields = present ? differences(shownUser(present), shownUser(record)) : created(shownUser(record));
  if (!same) fields.push(hash === null ? secretSet("password") : secretChange("password"));
  const opening = present === undefined ? openingOf(wanted) : null;
  if (opening !== null) fields.push(openingField(opening));
  const write = async (tx: Db) => {
    await putUser(tx, record);
    if (opening !== null) await postOpening(tx, record, opening);
  };
  return {
    record: { ...record, email: wanted.email },
    step: stepOf(`user ${record.email}`, !present, fields, write),
  };
}

function planRemovals(state: State, file: GatewayFile, { clock }: Secrets): Step[] {
  const emails = new Map(state.users.map(({ id, email }) => [id, email]));
  const nowMs = clock.nowMs();
  const remove = (what: string, write: Step["write"]): Step => ({ kind: "remove", what, fields: [], write });

  const namedUsers = new Set(file.users.map(({ email }) => email));
  const namedKeys = new Set(file.keys.map((key) => JSON.stringify([key.user ?? null, key.name])));
  // A file without an administrator must not lock everybody out.
  const keepsAdmins = !file.users.some(({ role }) => role === "admin");
  const keptKeys = new Set([...activeKeys(state).values()].map(({ id }) => id));
  const keyEmail = (key: KeyRecord) => (key.userId === null ? null : (emails.get(key.userId) ?? key.userId));
  const keys = state.keys.filter((key) => {
    const named = namedKeys.has(JSON.stringify([keyEmail(key)?.toLowerCase() ?? null, key.name]));
    return key.status === "active" && !(named && keptKeys.has(key.id));
  });
  const users = state.users.filter(
    ({ id, email, role }) =>
      !namedUsers.has(email.toLowerCase()) && !(keepsAdmins && role === "admin") && !state.funds.has(id),
  );
  const named = (list: readonly { name: string }[]) => new Set(list.map(({ name }) => name));
  const namedGroups = named(file.groups);
  const namedAccounts = named(file.accounts);
  const namedModels = new Set(file.models.map(({ id }) => id));

  return [
    ...keys.map((key) => remove(keyTitle(key.name, keyEmail(key)), (tx) => revokeKey(tx, key.id, nowMs))),
    ...users.map(({ id, email }) => remove(`user ${email}`, (tx) => deleteUser(tx, id))),
    ...state.groups
      .filter(({ name }) => !namedGroups.has(name))
      .map(({ id, name }) => remove(`group ${name}`, (tx) => deleteGroup(tx, id))),
    ...state.accounts
      .filter(({ name }) => !namedAccounts.has(name))
      .map(({ id, name }) => remove(`account ${name}`, (tx) => deleteAccount(tx, id))),
    ...state.models
      .filter(({ id }) => !namedModels.has(id))
      .map(({ id }) => remove(`model ${id}`, (tx) => deleteModel(tx, id))),
  ];
}
