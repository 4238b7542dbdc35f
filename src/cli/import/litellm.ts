/**
 * Reads LiteLLM. Teams become groups. A key, team or user with a restriction that has no counterpart is reported, and
 * the keys are not created.
 */

import { type Addressed, chooseAddress, SHARED_ADDRESS, separateAddresses } from "./addresses.ts";
import { buildWindow } from "./budget-window.ts";
import {
  cleanName,
  combineLimits,
  createImported,
  type Imported,
  type ImportedLimits,
  type ImportOptions,
  readNetworks,
  type SourceFormerSecret,
} from "./imported.ts";
import { type AccessGroups, readDeployments, readMember } from "./litellm-deployments.ts";
import {
  BUDGETS,
  DAILY_SPENDING,
  FORMER_SECRETS,
  KEYS,
  MEMBERSHIPS,
  ORGANIZATIONS,
  REQUEST_LOG,
  TEAM_ALIASES,
  TEAMS,
  USERS,
} from "./litellm-tables.ts";
import type { SourceDatabase } from "./source-database.ts";
import type { SourceRow } from "./source-row.ts";
import { TableReader } from "./table-reader.ts";

/** A team, user, organization or budget: what it limits, or why its keys cannot be imported. */
interface Scope {
  readonly limits: ImportedLimits;
  readonly models: readonly string[];
  /** A restriction without a counterpart; null if there is none. */
  readonly obstacle: string | null;
}

/** Names of models, and the models that requests with these names get instead. */
type Aliases = Readonly<Record<string, unknown>>;

interface AddressedUser extends Addressed {
  readonly id: string;
  /** For reports. */
  readonly subject: string;
  readonly scope: Scope;
}

const NO_SCOPE: Scope = { limits: {}, models: [], obstacle: null };
/** Of a row that is missing or not as expected: what it limits is unknown. */
const UNREADABLE: Scope = { ...NO_SCOPE, obstacle: "limits of the source cannot be read" };

export async function readLitellm(source: SourceDatabase, options: ImportOptions): Promise<Imported> {
  const imported = createImported();
  const reader = new TableReader(source, imported.findings);
  const accessGroups = await readDeployments(reader, imported, options);
  return new LitellmReader(reader, imported, options, accessGroups).read();
}

class LitellmReader {
  readonly #reader: TableReader;
  readonly #imported: Imported;
  readonly #options: ImportOptions;
  readonly #accessGroups: AccessGroups;
  readonly #budgets = new Map<string, Scope>();
  readonly #organizations = new Map<string, Scope>();
  readonly #teams = new Map<string, Scope & { name: string }>();
  readonly #teamAliases = new Map<string, Aliases>();
  readonly #groupNames: Set<string>;
  readonly #networks: readonly string[] | null;
  readonly #users = new Map<string, Scope & { email: string | null }>();
  /** Budgets of one person in one team. */
  readonly #members = new Set<string>();
  /** By the hash of the secret that replaced them. */
  readonly #formerSecrets = new Map<string, SourceFormerSecret[]>();

  constructor(reader: TableReader, imported: Imported, options: ImportOptions, accessGroups: AccessGroups) {
    this.#reader = reader;
    this.#imported = imported;
    this.#options = options;
    this.#accessGroups = accessGroups;
    this.#groupNames = new Set([options.group]);
    this.#networks = readNetworks(readAllowedAddresses(options.litellm.config));
  }

  async read(): Promise<Imported> {
    const reader = this.#reader;
    await reader.eachIfPresent(BUDGETS, (row) => {
      // A row that is skipped must not become a budget without limits.
      this.#budgets.set(row.id, UNREADABLE);
      this.#budgets.set(row.id, this.#readOwnScope(row));
    });
    await reader.eachIfPresent(ORGANIZATIONS, (row) => this.#organizations.set(row.id, this.#readScope(row)));
    await reader.eachIfPresent(TEAM_ALIASES, (row) => this.#teamAliases.set(row.id, row.object("aliases")));
    await reader.each(TEAMS, (row) => this.#readTeam(row));
    const users: AddressedUser[] = [];
    await reader.each(USERS, (row) => users.push(...this.#readUser(row)));
    this.#addUsers(users);
    await reader.eachIfPresent(MEMBERSHIPS, (row) => this.#readMembership(row));
    this.#addGroup(this.#options.group, NO_SCOPE);
    await reader.eachIfPresent(FORMER_SECRETS, (row) => this.#readFormerSecret(row));
    await reader.each(KEYS, (row) => this.#readKey(row));
    await this.#readSpending();
    if (this.#imported.models.length === 0)
      this.#report(
        "models",
        "The source has no models that can be read. Pass LiteLLM's config.yaml with --config.",
      );
    return this.#imported;
  }

  #readTeam(row: SourceRow): void {
    const name = cleanName(row.text("team_alias"), row.id);
    const scope = this.#readScope(row);
    const unique = this.#groupNames.has(name) ? cleanName(`${name.slice(0, 24)} ${row.id}`, row.id) : name;
    this.#teams.set(row.id, { ...scope, name: unique });
    this.#addGroup(unique, scope);
    if (scope.obstacle !== null)
      this.#report(`team ${name}`, `${scope.obstacle}, so the keys of the team are not created.`);
  }

  /** A model list limits the group; without one it offers all models that are imported. */
  #addGroup(name: string, scope: Scope): void {
    this.#groupNames.add(name);
    const models = this.#expand(scope.models) ?? this.#imported.models.map(({ id: model }) => model);
    this.#imported.groups.push({
      name,
      models,
      accounts: this.#imported.accounts.map((account) => account.name),
      ...(hasLimits(scope.limits) ? { group_limits: scope.limits } : {}),
    });
  }

  /** None if the user has no address. */
  #readUser(row: SourceRow): AddressedUser[] {
    this.#users.set(row.id, { ...UNREADABLE, email: null });
    const scope = this.#readScope(row);
    const subject = `user ${row.shownId}`;
    // An administrator chose the id, which may be an address.
    const address = chooseAddress({
      id: row.id,
      email: row.text("user_email") ?? row.id,
      name: row.id,
      domain: this.#options.addressDomain,
    });
    this.#users.set(row.id, { ...scope, email: address?.email ?? null });
    if (address !== null) return [{ ...address, id: row.id, subject, scope }];
    const remedy = "--address-domain makes an address";
    this.#report(subject, `has no e-mail address: not imported, nor are the keys. ${remedy}.`);
    return [];
  }

  #addUsers(users: readonly AddressedUser[]): void {
    const { separate, shared } = separateAddresses(users);
    for (const { id, subject, scope } of shared) {
      this.#users.set(id, { ...scope, email: null, obstacle: "its address belongs to another user" });
      this.#report(subject, SHARED_ADDRESS);
    }
    for (const { email, subject, scope } of separate) {
      if (scope.obstacle !== null)
        this.#report(subject, `${scope.obstacle}, so the keys of the user are not created.`);
      this.#imported.users.push({
        email,
        groups: [],
        ...(hasLimits(scope.limits) ? { limits: scope.limits } : {}),
      });
    }
  }

  #readMembership(row: SourceRow): void {
    if (!isRestricted(findScope(this.#budgets, row.text("budget_id")))) return;
    this.#members.add(JSON.stringify([row.requireText("user_id"), row.requireText("team_id")]));
  }

  #readFormerSecret(row: SourceRow): void {
    const sha256Hex = row.requireText("token");
    const worksUntilMs = row.instantMs("revoke_at") ?? 0;
    if (worksUntilMs <= this.#options.nowMs || !isSha256Hex(sha256Hex)) return;
    const current = row.requireText("active_token_id");
    const known = this.#formerSecrets.get(current) ?? [];
    known.push({ sha256Hex, worksUntilMs });
    this.#formerSecrets.set(current, known);
  }

  #readKey(row: SourceRow): void {
    const alias = row.text("key_alias") ?? row.text("key_name");
    const title = `key ${row.shownId}${alias === null ? "" : ` "${cleanName(alias, "")}"`}`;
    const scope = this.#readScope(row);
    const reason = this.#findReason(row, scope);
    if (reason !== null) {
      this.#report(title, `not created: ${reason}.`);
      return;
    }
    const team = this.#teams.get(row.text("team_id") ?? "");
    const user = this.#users.get(row.text("user_id") ?? "");
    const models = this.#keyModels(scope.models, user, row.text("team_id") !== null);
    this.#imported.keys.push({
      title,
      name: cleanName(alias, `key ${row.shownId}`),
      user: user?.email ?? null,
      group: team?.name ?? this.#options.group,
      models,
      networks: this.#networks,
      secret: { sha256Hex: row.id },
      formerSecrets: this.#formerSecrets.get(row.id) ?? [],
      expiresAtMs: row.instantMs("expires"),
      ...(hasLimits(scope.limits) ? { limits: scope.limits } : {}),
    });
  }

  /** Why a key is not created; null if it is. */
  #findReason(row: SourceRow, scope: Scope): string | null {
    if (!isSha256Hex(row.id)) return "its secret is not stored as SHA-256";
    if (row.flag("blocked")) return "it is blocked";
    const expiresAtMs = row.instantMs("expires");
    if (expiresAtMs !== null && expiresAtMs <= this.#options.nowMs) return "it has expired";
    const routes = row.list("allowed_routes");
    if (routes.some((route) => route !== "llm_api_routes")) return "it is limited to some routes";
    if (scope.obstacle !== null) return scope.obstacle;
    const teamId = row.text("team_id");
    const team = teamId === null ? NO_SCOPE : this.#teams.get(teamId);
    if (team === undefined) return "its team does not exist";
    if (team.obstacle !== null) return `of its team: ${team.obstacle}`;
    const userId = row.text("user_id");
    const user = userId === null ? undefined : this.#users.get(userId);
    if (user?.obstacle) return `of its user: ${user.obstacle}`;
    if (user !== undefined && user.email === null) return "its user has no e-mail address";
    if (this.#members.has(JSON.stringify([userId, teamId])))
      return "a budget of one person in a team has no counterpart";
    return null;
  }

  /** The models of a key, as a part of those of its group; null for all. */
  #keyModels(own: readonly string[], user: Scope | undefined, hasTeam: boolean): readonly string[] | null {
    const ofKey = this.#expand(own);
    // The list of a user applies to keys without a team.
    const ofUser = hasTeam || user === undefined ? null : this.#expand(user.models);
    if (ofKey === null || ofUser === null) return ofKey ?? ofUser;
    return ofKey.filter((model) => ofUser.includes(model));
  }

  /** Names, patterns and access groups as names of imported models; null if the list allows all. */
  #expand(list: readonly string[]): string[] | null {
    const isOpen = (name: string) => ["all-proxy-models", "all-team-models", "*"].includes(name);
    if (list.length === 0 || list.some(isOpen)) return null;
    return this.#imported.models
      .map(({ id }) => id)
      .filter((id) =>
        list.some(
          (name) =>
            name === id ||
            (name.endsWith("*") && id.startsWith(name.slice(0, -1))) ||
            this.#accessGroups.get(name)?.has(id),
        ),
      );
  }

  /** With the budget and the organization that the row names. */
  #readScope(row: SourceRow): Scope {
    const own = this.#readOwnScope(row);
    const budget = findScope(this.#budgets, row.text("budget_id"));
    const organization = findScope(this.#organizations, row.text("organization_id"));
    const ofOrganization = isRestricted(organization)
      ? "limits of an organization have no counterpart"
      : null;
    return {
      limits: combineLimits(own.limits, budget.limits),
      models: own.models,
      obstacle: own.obstacle ?? budget.obstacle ?? ofOrganization,
    };
  }

  #readOwnScope(row: SourceRow): Scope {
    const { limits, obstacle } = readLimits(row);
    return {
      limits,
      models: [...row.list("models"), ...row.list("allowed_models")],
      obstacle: findObstacle(row) ?? this.#findHiddenModel(row) ?? obstacle,
    };
  }

  /** A model that an alias replaces by another one: without the alias the key could call it. */
  #findHiddenModel(row: SourceRow): string | null {
    const ofTeam = row.text("model_id");
    const teamAliases = ofTeam === null ? {} : this.#teamAliases.get(ofTeam);
    if (teamAliases === undefined) return "its model aliases cannot be read";
    const aliases = { ...teamAliases, ...row.object("aliases") };
    const hidden = this.#imported.models.find(({ id }) => Object.hasOwn(aliases, id) && aliases[id] !== id);
    return hidden === undefined ? null : `its alias for the model ${hidden.id} has no counterpart`;
  }

  async #readSpending(): Promise<void> {
    for (const table of [DAILY_SPENDING, REQUEST_LOG]) {
      const sums = await this.#reader.readSpending(table, (row) => row.decimal("amount", 9) ?? 0n);
      this.#imported.spending.push(...sums);
      if (sums.length > 0) return;
    }
  }

  #report(subject: string, message: string): void {
    this.#imported.findings.push({ subject, message });
  }
}

/** `general_settings.allowed_ips` of config.yaml, which applies to every request. */
function readAllowedAddresses(config: unknown): string[] {
  const list = readMember(readMember(config, "general_settings"), "allowed_ips");
  return Array.isArray(list) ? list.map(String) : [];
}

function isSha256Hex(text: string): boolean {
  return /^[0-9a-f]{64}$/.test(text);
}

function findScope(scopes: ReadonlyMap<string, Scope>, id: string | null): Scope {
  return id === null ? NO_SCOPE : (scopes.get(id) ?? UNREADABLE);
}

function hasLimits(limits: ImportedLimits): boolean {
  return Object.keys(limits).length > 0;
}

function isRestricted({ limits, models, obstacle }: Scope): boolean {
  return hasLimits(limits) || models.length > 0 || obstacle !== null;
}

/** Settings in `metadata` that restrict a key, a team or a user. */
const RESTRICTING = [
  "model_rpm_limit",
  "model_tpm_limit",
  "model_max_budget",
  "guardrails",
  "enforced_params",
];

function findObstacle(row: SourceRow): string | null {
  if (row.flag("blocked")) return "it is blocked";
  for (const column of ["model_max_budget", "budget_limits"])
    if (row.hasEntries(column)) return "budgets of single models have no counterpart";
  for (const column of ["policies", "access_group_ids"])
    if (row.hasEntries(column)) return `its ${column} have no counterpart`;
  for (const column of ["object_permission_id", "project_id", "agent_id"])
    if (row.text(column) !== null) return `its ${column} has no counterpart`;
  if (row.list("models").includes("no-default-models")) return "its model list is no-default-models";
  const metadata = row.object("metadata");
  const found = RESTRICTING.find((name) => {
    const value = metadata[name] ?? null;
    return typeof value === "object" ? value !== null && Object.keys(value).length > 0 : Boolean(value);
  });
  return found === undefined ? null : `metadata.${found} has no counterpart`;
}

function readLimits(row: SourceRow): { limits: ImportedLimits; obstacle: string | null } {
  const limits: ImportedLimits = {};
  for (const [column, kind] of [
    ["max_parallel_requests", "concurrency"],
    ["rpm_limit", "rpm"],
    ["tpm_limit", "tpm"],
  ] as const) {
    const value = row.integer(column);
    if (value !== null && value < 1) return { limits, obstacle: `${column} allows nothing` };
    if (value !== null) limits[kind] = value;
  }
  const budgetNano = row.decimal("max_budget", 9);
  if (budgetNano === null) return { limits, obstacle: null };
  if ((row.decimal("spend", 9) ?? 0n) >= budgetNano) return { limits, obstacle: "its budget is used up" };
  const window = buildWindow(row.text("budget_duration"), budgetNano);
  if (typeof window === "string") return { limits, obstacle: window };
  return { limits: { ...limits, windows: [window] }, obstacle: null };
}
