/**
 * What an import adds to an installation. Entries that exist here are never changed, so a second import changes
 * nothing, and a key is not created where it could do more than in the source.
 */

import { limits } from "../../config/limits/product-limits.ts";
import { type ImportedSecret, importIdentity } from "../../config/plan/plan-keys.ts";
import { INSTANT_MS_MAX } from "../../config/schema/basic-values.ts";
import type { ConfigState } from "../../config/state/step.ts";
import { findListed } from "../../money/price-list.ts";
import { DIALECTS, type Interface } from "../../records/interfaces.ts";
import type { FormerSecret, KeyRecord } from "../../records/key.ts";
import {
  deriveImportedPublicId,
  hasKeyPrefix,
  hasValidChecksum,
  importedDigest,
  readPublicId,
} from "../../secrets/api-key.ts";
import { findWiderGroup, hasMoneyWindow, isLooser } from "./compare-rights.ts";
import {
  cleanName,
  combineLimits,
  type Imported,
  type ImportedGroup,
  type ImportedKey,
  type ImportedLimits,
  type ImportedUser,
  type ImportFinding,
  type SourceSecret,
} from "./imported.ts";
import { buildKeyPolicy, type ImportedPolicy, isSamePolicy } from "./key-policies.ts";

/** Sections of a document. Every entry is new here. */
export interface ImportDocument {
  models: object[];
  accounts: object[];
  request_policies: ImportedPolicy[];
  groups: (ImportedGroup & { access: "members" })[];
  users: object[];
  keys: {
    name: string;
    user?: string;
    group: string;
    request_policy?: string;
    expires?: string;
    limits?: object;
  }[];
}

export interface ImportChanges {
  readonly document: ImportDocument;
  readonly importedSecrets: ReadonlyMap<string, ImportedSecret>;
  readonly findings: readonly ImportFinding[];
}

interface BuildOptions {
  digest(secret: string): string;
  /** Stands before the names of imported groups and accounts. */
  prefix: string;
}

export function buildChanges(imported: Imported, state: ConfigState, options: BuildOptions): ImportChanges {
  return new ChangeBuilder(imported, state, options).build();
}

class ChangeBuilder {
  readonly #imported: Imported;
  readonly #state: ConfigState;
  readonly #options: BuildOptions;
  readonly #groups: ReadonlyMap<string, ImportedGroup>;
  /** Names that several groups of the source would have here: a key would get the rights of another group. */
  readonly #ambiguousNames: ReadonlySet<string>;
  readonly #users: readonly ImportedUser[];
  readonly #policies = new Map<string, ImportedPolicy>();
  readonly #document: ImportDocument = {
    models: [],
    accounts: [],
    request_policies: [],
    groups: [],
    users: [],
    keys: [],
  };
  readonly #secrets = new Map<string, ImportedSecret>();
  readonly #findings: ImportFinding[] = [];
  readonly #presentUsers: ReadonlyMap<string, ConfigState["users"][number]>;
  readonly #presentPublicIds: ReadonlySet<string>;
  /** How many keys of the source have this public id, which follows from the secret. */
  readonly #publicIds: ReadonlyMap<string, number>;
  readonly #takenNames: Set<string>;
  readonly #takenFormerDigests = new Set<string>();
  /** Limits of imported users, by address. */
  readonly #userLimits: ReadonlyMap<string | null, ImportedLimits | undefined>;
  readonly #groupsWithBudgets = new Set<string>();

  constructor(imported: Imported, state: ConfigState, options: BuildOptions) {
    this.#imported = imported;
    this.#state = state;
    this.#options = options;
    this.#groups = new Map(imported.groups.map((group) => [group.name, this.#withPrefix(group)]));
    const named = Map.groupBy(imported.groups, ({ name }) => this.#prefixed(name));
    this.#ambiguousNames = new Set(
      [...named].filter(([, groups]) => groups.length > 1).map(([name]) => name),
    );
    this.#users = mergeUsers(imported.users);
    this.#userLimits = new Map(this.#users.map((user) => [user.email, user.limits]));
    this.#presentUsers = new Map(state.users.map((user) => [user.email.toLowerCase(), user]));
    this.#presentPublicIds = new Set(state.keys.map(({ publicId }) => publicId));
    this.#publicIds = countPublicIds(imported.keys, options.digest);
    const emails = new Map(state.users.map(({ id, email }) => [id, email]));
    const active = state.keys.filter(({ status }) => status === "active");
    this.#takenNames = new Set(active.map((key) => importIdentity(describeOwner(key, emails))));
  }

  build(): ImportChanges {
    const { models, accounts } = this.#imported;
    const presentModels = new Set(this.#state.models.map(({ id }) => id));
    const presentAccounts = new Set(this.#state.accounts.map(({ name }) => name));
    this.#document.models = models
      .filter(({ id }) => !presentModels.has(id))
      .map((model) => ({ ...model, interfaces: guessInterfaces(model.id) }));
    this.#document.accounts = accounts
      .map((account) => ({ ...account, name: this.#prefixed(account.name) }))
      .filter(({ name }) => !presentAccounts.has(name));
    this.#document.users = this.#users
      .filter(({ email }) => !this.#presentUsers.has(email))
      .map((user) => ({ ...user, groups: user.groups.map((name) => this.#prefixed(name)) }));
    for (const key of this.#imported.keys) this.#addKey(key);
    this.#document.request_policies = [...this.#policies.values()];
    this.#addGroups();
    return { document: this.#document, importedSecrets: this.#secrets, findings: this.#findings };
  }

  #addKey(key: ImportedKey): void {
    const problem = findSecretProblem(key.secret);
    const secret = problem === null ? storeSecret(key.secret, this.#options.digest) : null;
    if (secret !== null && this.#isKnown(secret)) return;
    const rights =
      problem ?? this.#findSameSecret(secret) ?? this.#findWiderOwner(key) ?? this.#chooseRights(key);
    if (typeof rights === "string" || secret === null) {
      this.#findings.push({ subject: key.title, message: `not created: ${rights}.` });
      return;
    }
    const { group, policy } = rights;
    if (policy !== null) this.#policies.set(policy.name, policy);
    if (this.#needsPrices(key)) this.#groupsWithBudgets.add(group.name);
    const entry = {
      name: this.#chooseName(key),
      ...(key.user === null ? {} : { user: key.user }),
      group: group.name,
      ...(policy === null ? {} : { request_policy: policy.name }),
      ...(key.expiresAtMs === null
        ? {}
        : { expires: new Date(Math.min(key.expiresAtMs, INSTANT_MS_MAX)).toISOString() }),
      ...(key.limits === undefined ? {} : { limits: key.limits }),
    };
    this.#takenNames.add(importIdentity(entry));
    this.#secrets.set(importIdentity(entry), { ...secret, former: this.#chooseFormerSecrets(key) });
    this.#document.keys.push(entry);
  }

  /** Also a key that was revoked, rotated or used here since its import. */
  #isKnown({ digest, publicId }: StoredSecret): boolean {
    return this.#presentPublicIds.has(publicId) || this.#state.formerDigests.has(digest);
  }

  /** Which of the keys the source finds for the secret is unknown, so none of them is created. */
  #findSameSecret(secret: StoredSecret | null): string | null {
    const count = this.#publicIds.get(secret?.publicId ?? "") ?? 0;
    return count > 1 ? "another key of the source has the same secret" : null;
  }

  /** Those that still work, latest expiry first, and that no key here has or had. */
  #chooseFormerSecrets({ title, formerSecrets = [] }: ImportedKey): FormerSecret[] {
    const unknown = formerSecrets
      .map(({ sha256Hex, worksUntilMs }) => ({
        ...storeSecret({ sha256Hex }, this.#options.digest),
        last4: "",
        worksUntilMs,
      }))
      .filter((secret) => !this.#isKnown(secret) && !this.#publicIds.has(secret.publicId))
      .filter(({ digest }) => !this.#takenFormerDigests.has(digest))
      .sort((a, b) => b.worksUntilMs - a.worksUntilMs);
    const left = unknown.length - limits.formerSecretsMax;
    if (left > 0)
      this.#findings.push({
        subject: title,
        message: `${left} of its replaced secrets are not imported: ${limits.formerSecretsMax} may work at a time.`,
      });
    const chosen = unknown.slice(0, limits.formerSecretsMax);
    for (const { digest } of chosen) this.#takenFormerDigests.add(digest);
    return chosen;
  }

  /** The group and the request policy of a key, or the reason why it is not created. */
  #chooseRights(key: ImportedKey): { group: ImportedGroup; policy: ImportedPolicy | null } | string {
    const group = this.#groups.get(key.group);
    if (group === undefined) return `its group "${key.group}" was not imported`;
    if (this.#ambiguousNames.has(group.name))
      return `several groups of the source would be named "${group.name}"`;
    const policy = buildKeyPolicy(key, group, this.#options.prefix);
    if (typeof policy === "string") return policy;
    const samePolicy = this.#state.requestPolicies.find(({ name }) => name === policy?.name);
    if (policy !== null && samePolicy !== undefined && !isSamePolicy(samePolicy, policy))
      return `the request policy "${policy.name}" of this gateway has other rules. Use --prefix`;
    const present = this.#state.groups.find(({ name }) => name === group.name);
    if (present === undefined) return { group, policy };
    const offered = present.models.filter((model) => policy?.models?.includes(model) ?? true);
    const wider = findWiderGroup({ ...present, models: offered }, group);
    if (wider !== null) return `the group "${group.name}" of this gateway ${wider}. Use --prefix`;
    if (this.#needsPrices(key) && offered.some((model) => !this.#isPriced(model, group)))
      return `it has a budget, and the group "${group.name}" has models without a price`;
    return { group, policy };
  }

  #findWiderOwner({ user }: ImportedKey): string | null {
    const present = user === null ? undefined : this.#presentUsers.get(user);
    const wanted = this.#userLimits.get(user);
    return present !== undefined && wanted !== undefined && isLooser(present.limits, wanted)
      ? `its user ${user} exists here with wider limits`
      : null;
  }

  #chooseName({ name, user }: ImportedKey): string {
    const isTaken = (wanted: string) =>
      this.#takenNames.has(importIdentity({ name: wanted, user: user ?? undefined }));
    let free = name;
    for (let number = 2; isTaken(free); number++) free = `${name.slice(0, 56)} ${number}`;
    return free;
  }

  /** Groups that charge, or whose keys have budgets, offer only models with a price: others would be free. */
  #addGroups(): void {
    const present = new Set(this.#state.groups.map(({ name }) => name));
    const unpriced = new Set<string>();
    for (const group of this.#groups.values()) {
      if (present.has(group.name) || this.#ambiguousNames.has(group.name)) continue;
      const needsPrices =
        group.billing !== undefined ||
        hasMoneyWindow(group.group_limits) ||
        this.#groupsWithBudgets.has(group.name);
      const models = group.models.filter((model) => !needsPrices || this.#isPriced(model, group));
      for (const model of group.models) if (!models.includes(model)) unpriced.add(model);
      this.#document.groups.push({ ...group, models, access: "members" });
    }
    for (const model of unpriced)
      this.#findings.push({
        subject: `model ${model}`,
        message:
          "has no price, so groups that charge or limit money do not offer it. Set a price and add it.",
      });
  }

  #needsPrices({ user, limits: own }: ImportedKey): boolean {
    return hasMoneyWindow(own) || hasMoneyWindow(this.#userLimits.get(user));
  }

  #isPriced(model: string, group: ImportedGroup): boolean {
    const present = this.#state.models.find(({ id }) => id === model);
    const own =
      present === undefined ? this.#imported.models.find(({ id }) => id === model)?.price : present.price;
    const isListed = (name: string) => findListed(name, this.#state.priceList ?? null) !== null;
    if ((own ?? null) !== null || isListed(model)) return true;
    const accounts = this.#document.accounts.filter((account) => {
      return "name" in account && group.accounts.includes(String(account.name));
    });
    const upstream = new Set(accounts.flatMap((account) => readMapping(account, model)));
    const [only] = upstream;
    return upstream.size === 1 && only !== undefined && isListed(only);
  }

  #withPrefix(group: ImportedGroup): ImportedGroup {
    const accounts = group.accounts.map((name) => this.#prefixed(name));
    return { ...group, name: this.#prefixed(group.name), accounts };
  }

  #prefixed(name: string): string {
    return cleanName(`${this.#options.prefix}${name}`, name);
  }
}

/** Several people of the source may share an address. They become one, with the stricter limits. */
function mergeUsers(users: readonly ImportedUser[]): ImportedUser[] {
  const merged = new Map<string, ImportedUser>();
  for (const user of users) {
    const { limits: others, groups = [] } = merged.get(user.email) ?? {};
    const strict = others && user.limits ? combineLimits(others, user.limits) : (others ?? user.limits);
    merged.set(user.email, {
      email: user.email,
      groups: [...new Set([...groups, ...user.groups])],
      ...(strict === undefined ? {} : { limits: strict }),
    });
  }
  return [...merged.values()];
}

function describeOwner({ userId, name }: KeyRecord, emails: ReadonlyMap<string, string>) {
  return { name, user: userId === null ? undefined : emails.get(userId) };
}

function findSecretProblem(secret: SourceSecret): string | null {
  if ("sha256Hex" in secret) return null;
  const { plain } = secret;
  if (plain.length < limits.importedSecretCharsMin)
    return `its secret has fewer than ${limits.importedSecretCharsMin} characters`;
  if (plain.length > limits.keySecretCharsMax || !/^[\x21-\x7e]+$/.test(plain))
    return "its secret is too long or has characters that no header can carry";
  return hasKeyPrefix(plain) && !hasValidChecksum(plain) ? "its secret begins with gwk_" : null;
}

function countPublicIds(
  keys: readonly ImportedKey[],
  digest: BuildOptions["digest"],
): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { secret } of keys) {
    if (findSecretProblem(secret) !== null) continue;
    const { publicId } = storeSecret(secret, digest);
    counts.set(publicId, (counts.get(publicId) ?? 0) + 1);
  }
  return counts;
}

type StoredSecret = Pick<ImportedSecret, "digest" | "publicId">;

function storeSecret(secret: SourceSecret, digest: BuildOptions["digest"]): StoredSecret {
  if ("plain" in secret) {
    const stored = digest(secret.plain);
    return { digest: stored, publicId: readPublicId(secret.plain, stored) };
  }
  const { sha256Hex } = secret;
  return { digest: importedDigest(sha256Hex), publicId: deriveImportedPublicId(sha256Hex, digest) };
}

function guessInterfaces(model: string): readonly Interface[] {
  if (/embed|^bge-|^text-similarity/i.test(model)) return ["embeddings"];
  return /dall-e|image|imagen|flux/i.test(model) ? ["images"] : DIALECTS;
}

function readMapping(account: object, model: string): string[] {
  const models: unknown = "models" in account ? account.models : null;
  if (typeof models !== "object" || models === null) return [];
  const name: unknown = Object.entries(models).find(([publicModel]) => publicModel === model)?.[1];
  return typeof name === "string" ? [name] : [];
}
