import {
  ACCOUNT_KINDS,
  type AccountKind,
  type AccountRecord,
  type GroupRecord,
  type KeyRecord,
  type ModelRecord,
  type Price,
  type UserRecord,
} from "../records.ts";
import { hasValidChecksum, mintApiKey, publicIdOf } from "../secrets/api-key.ts";
import { accountCredentialBinding, seal, unseal } from "../secrets/seal.ts";
import { deleteAccount, putAccount } from "../store/accounts.ts";
import type { Db } from "../store/db.ts";
import { deleteGroup, putGroup } from "../store/groups.ts";
import { insertKey, revokeKey, setKeyGroup } from "../store/keys.ts";
import { deleteModel, putModel } from "../store/models.ts";
import { deleteUser, putUser } from "../store/users.ts";
import {
  created,
  differences,
  type FieldChange,
  secretChange,
  secretSet,
  shownAccount,
  shownGroup,
  shownInstant,
  shownModel,
} from "./difference.ts";
import type { Installation } from "./installation.ts";
import type { FieldProblem } from "./problem.ts";
import type { FileAccount, FileKey, FileModel, FileUser, GatewayFile } from "./schema.ts";

/** State and file → the steps that bring the one to the other. Nothing is written here. */

export interface State {
  models: ModelRecord[];
  accounts: AccountRecord[];
  groups: GroupRecord[];
  users: UserRecord[];
  keys: KeyRecord[];
}

export interface Change {
  kind: "create" | "change" | "remove";
  /** `account openai-1` */
  what: string;
  fields: FieldChange[];
}

export interface Step extends Change {
  write(tx: Db): Promise<unknown>;
}

/** A key made by this plan: its secret exists nowhere else. */
export interface ShownKey {
  name: string;
  user: string | null;
  group: string;
  publicId: string;
  secret: string;
}

export interface Plan {
  /** In an order that respects references: what is referred to comes first, and goes last. */
  steps: Step[];
  shown: ShownKey[];
  /** What the file asks for and the present state forbids. */
  problems: FieldProblem[];
}

export interface PlanOptions {
  /** Remove what the file does not name. */
  prune: boolean;
}

export type Secrets = Omit<Installation, "db">;

export async function planSteps(state: State, file: GatewayFile, secrets: Secrets, options: PlanOptions): Promise<Plan> {
  const models = file.models.map((wanted) => planModel(state, wanted, secrets));
  const accounts = file.accounts.map((wanted) => planAccount(state, wanted, secrets));
  const users = await Promise.all(file.users.map((wanted) => planUser(state, wanted, secrets)));

  const accountsAfter = new Map(state.accounts.map(({ name, id }) => [name, id]));
  for (const { record } of accounts) accountsAfter.set(record.name, record.id);
  const groups = file.groups.map((wanted) => planGroup(state, wanted, accountsAfter, secrets));

  const groupsAfter = new Map(state.groups.map(({ name, id }) => [name, id]));
  for (const { record } of groups) groupsAfter.set(record.name, record.id);
  const usersAfter = new Map(state.users.map(({ email, id }) => [email.toLowerCase(), id]));
  for (const { record } of users) usersAfter.set(record.email, record.id);
  const keys = planKeys(state, file.keys, { groups: groupsAfter, users: usersAfter }, secrets);

  const removals = options.prune ? planRemovals(state, file, secrets) : [];
  return {
    steps: [...[...models, ...accounts, ...users, ...groups].flatMap(({ step }) => step ?? []), ...keys.steps, ...removals],
    shown: keys.shown,
    problems: keys.problems,
  };
}

interface Planned<Record> {
  record: Record;
  /** Null when nothing changes. */
  step: Step | null;
}

function stepOf(what: string, isNew: boolean, fields: FieldChange[], write: Step["write"]): Step | null {
  if (!isNew && fields.length === 0) return null;
  return { kind: isNew ? "create" : "change", what, fields, write };
}

function planModel(state: State, wanted: FileModel, { clock }: Secrets): Planned<ModelRecord> {
  const present = state.models.find(({ id }) => id === wanted.id);
  const record: ModelRecord = {
    id: wanted.id,
    interfaces: wanted.interfaces,
    price: priceOf(wanted.price),
    createdAtMs: present?.createdAtMs ?? clock.nowMs(),
  };
  const fields = present ? differences(shownModel(present), shownModel(record)) : created(shownModel(record));
  return { record, step: stepOf(`model ${record.id}`, !present, fields, (tx) => putModel(tx, record)) };
}

function priceOf(price: FileModel["price"]): Price | null {
  const given = Object.entries(price ?? {}).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return given.length === 0 ? null : Object.fromEntries(given);
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
  const same = credential === undefined || (sealed !== null && unseal(secrets.keyring, binding, sealed) === credential);
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
    enabled: wanted.enabled,
    createdAtMs: present?.createdAtMs ?? secrets.clock.nowMs(),
  };
  const fields = present ? differences(shownAccount(present), shownAccount(record)) : created(shownAccount(record));
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
  wanted: GatewayFile["groups"][number],
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
    onDisconnect: wanted.on_disconnect,
    createdAtMs: present?.createdAtMs ?? clock.nowMs(),
  };
  const names = new Map([...accounts].map(([name, id]) => [id, name]));
  const shown = (group: GroupRecord) => shownGroup(group, (id) => names.get(id) ?? id);
  const fields = present ? differences(shown(present), shown(record)) : created(shown(record));
  return { record, step: stepOf(`group ${record.name}`, !present, fields, (tx) => putGroup(tx, record)) };
}

async function planUser(state: State, wanted: FileUser, { clock, newId }: Secrets): Promise<Planned<UserRecord>> {
  const present = state.users.find(({ email }) => email.toLowerCase() === wanted.email);
  const hash = present?.passwordHash ?? null;
  const { password } = wanted;
  const same = password === undefined || (hash !== null && (await Bun.password.verify(password, hash)));
  const record: UserRecord = {
    id: present?.id ?? newId("user"),
    // Case makes no difference to the store, so the way it was first written stays.
    email: present?.email ?? wanted.email,
    role: wanted.role,
    passwordHash: same ? hash : await Bun.password.hash(password, "argon2id"),
    createdAtMs: present?.createdAtMs ?? clock.nowMs(),
  };
  const fields = differences(present ? { role: present.role } : {}, { role: record.role });
  if (!same) fields.push(hash === null ? secretSet("password") : secretChange("password"));
  return {
    record: { ...record, email: wanted.email },
    step: stepOf(`user ${record.email}`, !present, fields, (tx) => putUser(tx, record)),
  };
}

interface KeyTargets {
  groups: ReadonlyMap<string, string>;
  users: ReadonlyMap<string, string>;
}

function planKeys(state: State, wanted: FileKey[], targets: KeyTargets, secrets: Secrets) {
  const plan: Plan = { steps: [], shown: [], problems: [] };
  const active = activeKeys(state);
  const byDigest = new Map(state.keys.map((key) => [key.digest, key]));
  const groupNames = new Map([...targets.groups].map(([name, id]) => [id, name]));

  wanted.forEach((want, i) => {
    const userId = want.user === undefined ? null : known(targets.users, want.user);
    const groupId = known(targets.groups, want.group);
    const expiresAtMs = want.expires ?? null;
    const present = active.get(identity(userId, want.name));
    const digest = want.secret === undefined ? undefined : secrets.digest(want.secret);
    const what = keyTitle(want.name, want.user ?? null);
    const after = { group: want.group, expires: shownInstant(expiresAtMs) };

    const owner = digest === undefined ? undefined : byDigest.get(digest);
    if (owner !== undefined && owner.id !== present?.id) {
      // Bringing a revoked secret back would undo what somebody did for a reason.
      const message =
        owner.status === "revoked"
          ? "this secret was revoked and stays so. Use a new one, or remove the key from the file."
          : `this secret is already in use by the key "${owner.name}". Each key needs its own.`;
      plan.problems.push({ path: ["keys", i, "secret"], message });
      return;
    }
    if (present !== undefined && (digest === undefined || digest === present.digest)) {
      const before = {
        group: groupNames.get(present.groupId) ?? present.groupId,
        expires: shownInstant(present.expiresAtMs),
      };
      if (before.expires !== after.expires) {
        const message =
          "the expiry of a key that exists cannot be changed. Revoke the key and apply again, which makes a new one.";
        plan.problems.push({ path: ["keys", i, "expires"], message });
        return;
      }
      const step = stepOf(what, false, differences(before, after), (tx) => setKeyGroup(tx, present.id, groupId));
      if (step !== null) plan.steps.push(step);
      return;
    }

    const { record, secret } = newKey({ name: want.name, userId, groupId, expiresAtMs, secret: want.secret }, secrets);
    if (want.secret === undefined) {
      plan.shown.push({ name: want.name, user: want.user ?? null, group: want.group, publicId: record.publicId, secret });
    }
    const replaced = present;
    plan.steps.push({
      kind: replaced === undefined ? "create" : "change",
      what,
      fields: replaced === undefined ? [...created(after), secretSet("secret")] : [secretChange("secret")],
      write: async (tx) => {
        if (replaced !== undefined) await revokeKey(tx, replaced.id, record.createdAtMs);
        await insertKey(tx, record);
      },
    });
  });
  return plan;
}

export interface NewKey {
  name: string;
  userId: string | null;
  groupId: string;
  expiresAtMs: number | null;
  /** Left out: one is made. */
  secret?: string | undefined;
}

export function newKey(wanted: NewKey, secrets: Secrets): { record: KeyRecord; secret: string } {
  const secret = wanted.secret ?? mintApiKey(secrets.randomBytes).secret;
  const digest = secrets.digest(secret);
  const record: KeyRecord = {
    id: secrets.newId("key"),
    name: wanted.name,
    userId: wanted.userId,
    groupId: wanted.groupId,
    digest,
    publicId: publicIdOf(secret, digest),
    // No part of a secret of somebody else's making is kept.
    last4: hasValidChecksum(secret) ? secret.slice(-4) : "",
    status: "active",
    expiresAtMs: wanted.expiresAtMs,
    createdAtMs: secrets.clock.nowMs(),
    revokedAtMs: null,
  };
  return { record, secret };
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
    ({ email, role }) => !namedUsers.has(email.toLowerCase()) && !(keepsAdmins && role === "admin"),
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

/** By (user, name): a key's identity. Of two with the same, the newest counts. */
function activeKeys(state: State): Map<string, KeyRecord> {
  const active = new Map<string, KeyRecord>();
  for (const key of state.keys) {
    if (key.status === "active") active.set(identity(key.userId, key.name), key);
  }
  return active;
}

function identity(userId: string | null, name: string): string {
  return JSON.stringify([userId, name]);
}

export function keyTitle(name: string, email: string | null): string {
  return email === null ? `key ${name}` : `key ${name} of ${email}`;
}

/** References were checked with the file. */
function known(ids: ReadonlyMap<string, string>, name: string): string {
  const id = ids.get(name);
  if (id === undefined) throw new Error("The file refers to something that was not there when it was checked.");
  return id;
}
