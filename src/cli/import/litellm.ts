/**
 * Reads LiteLLM. Teams become groups. A key, team or user with a restriction that has no counterpart is reported, and
 * the keys are not created.
 */

import { buildWindow } from "./budget-window.ts";
import {
  cleanName,
  combineLimits,
  createImported,
  type Imported,
  type ImportedLimits,
  type ImportOptions,
  makeAddress,
  type SourceFormerSecret,
} from "./imported.ts";
import { type AccessGroups, readDeployments } from "./litellm-deployments.ts";
import {
  BUDGETS,
  DAILY_SPENDING,
  FORMER_SECRETS,
  KEYS,
  MEMBERSHIPS,
  ORGANIZATIONS,
  REQUEST_LOG,
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

const NO_SCOPE: Scope = { limits: {}, models: [], obstacle: null };

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
  readonly #groupNames: Set<string>;
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
  }

  async read(): Promise<Imported> {
    const reader = this.#reader;
    await reader.eachIfPresent(BUDGETS, (row) => this.#budgets.set(row.id, this.#readScope(row)));
    await reader.eachIfPresent(ORGANIZATIONS, (row) => this.#organizations.set(row.id, this.#readScope(row)));
    await reader.each(TEAMS, (row) => this.#readTeam(row));
    await reader.each(USERS, (row) => this.#readUser(row));
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

  #readUser(row: SourceRow): void {
    const scope = this.#readScope(row);
    const email =
      makeAddress(row.text("user_email"), null) ?? makeAddress(row.id, this.#options.addressDomain);
    this.#users.set(row.id, { ...scope, email });
    if (email === null) {
      const remedy = "--address-domain makes an address";
      this.#report(
        `user ${row.shownId}`,
        `has no e-mail address: not imported, nor are the keys. ${remedy}.`,
      );
      return;
    }
    if (scope.obstacle !== null)
      this.#report(`user ${row.shownId}`, `${scope.obstacle}, so the keys of the user are not created.`);
    this.#imported.users.push({
      email,
      groups: [],
      ...(hasLimits(scope.limits) ? { limits: scope.limits } : {}),
    });
  }

  #readMembership(row: SourceRow): void {
    const budget = this.#budgets.get(row.text("budget_id") ?? "");
    if (budget === undefined || !isRestricted(budget)) return;
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
      networks: null,
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

  #readScope(row: SourceRow): Scope {
    const budget = this.#budgets.get(row.text("budget_id") ?? "") ?? NO_SCOPE;
    const own = readLimits(row);
    const organization = this.#organizations.get(row.text("organization_id") ?? "");
    const ofOrganization =
      organization !== undefined && isRestricted(organization)
        ? "limits of an organization have no counterpart"
        : null;
    return {
      limits: combineLimits(own.limits, budget.limits),
      models: [...row.list("models"), ...row.list("allowed_models")],
      obstacle: findObstacle(row) ?? own.obstacle ?? budget.obstacle ?? ofOrganization,
    };
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

function isSha256Hex(text: string): boolean {
  return /^[0-9a-f]{64}$/.test(text);
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
