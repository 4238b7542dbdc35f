/**
 * Reads sub2api. Groups have a platform instead of a model list: they get the models of the price list for it, or those
 * that their accounts name. Only accounts with an API key are imported.
 */

import { durationMs } from "../../config/schema/usage-limits.ts";
import { type Nano, usdText } from "../../money/nano.ts";
import { BUNDLED_PRICES } from "../../money/price-list.ts";
import { type Addressed, chooseAddress, SHARED_ADDRESS, separateAddresses } from "./addresses.ts";
import {
  cleanName,
  cleanText,
  createImported,
  type Imported,
  type ImportedAccount,
  type ImportedLimits,
  type ImportOptions,
  readNetworks,
} from "./imported.ts";
import type { SourceDatabase } from "./source-database.ts";
import type { SourceRow } from "./source-row.ts";
import {
  ACCOUNT_GROUPS,
  ACCOUNTS,
  GROUPS,
  KEYS,
  OWN_RATES,
  QUOTAS,
  REQUEST_LOG,
  USERS,
} from "./sub2api-tables.ts";
import { TableReader } from "./table-reader.ts";
import { buildAddress, PLATFORMS } from "./upstreams.ts";

const ACTIVE = "active";
/** Limits of a key in USD. */
const WINDOWS = ["5h", "1d", "7d"] as const;

export async function readSub2api(source: SourceDatabase, options: ImportOptions): Promise<Imported> {
  const imported = createImported();
  return new Sub2apiReader(new TableReader(source, imported.findings), imported, options).read();
}

interface SourceGroup {
  readonly name: string;
  readonly platform: string;
  readonly multiplier: string;
  readonly mayDraw: boolean;
  /** Why keys of the group are not created; null if they are. */
  readonly obstacle: string | null;
}

interface SourceUser extends Addressed {
  readonly id: string;
  /** For reports. */
  readonly subject: string;
  readonly limits: ImportedLimits;
  readonly balanceNano: Nano;
  readonly frozenNano: Nano;
}

class Sub2apiReader {
  readonly #reader: TableReader;
  readonly #imported: Imported;
  readonly #options: ImportOptions;
  readonly #groups = new Map<string, SourceGroup>();
  readonly #accounts = new Map<string, ImportedAccount>();
  readonly #members = new Map<string, ImportedAccount[]>();
  readonly #users = new Map<string, string>();
  /** Users and pairs of user and group with terms of their own. */
  readonly #special = new Set<string>();

  constructor(reader: TableReader, imported: Imported, options: ImportOptions) {
    this.#reader = reader;
    this.#imported = imported;
    this.#options = options;
  }

  async read(): Promise<Imported> {
    const reader = this.#reader;
    await reader.each(GROUPS, (row) => this.#readGroup(row));
    await reader.each(ACCOUNTS, (row) => this.#readAccount(row));
    await reader.eachIfPresent(ACCOUNT_GROUPS, (row) => this.#readMember(row));
    this.#addGroups();
    const users: SourceUser[] = [];
    await reader.each(USERS, (row) => users.push(...this.#readUser(row)));
    this.#addUsers(users);
    await reader.eachIfPresent(QUOTAS, (row) => {
      const limits = ["daily_limit_usd", "weekly_limit_usd", "monthly_limit_usd"];
      // A limit of 0 denies the platform.
      if (row.text("deleted_at") === null && limits.some((column) => row.text(column) !== null))
        this.#special.add(row.requireText("user_id"));
    });
    await reader.eachIfPresent(OWN_RATES, (row) =>
      this.#special.add(`${row.requireText("user_id")} ${row.requireText("group_id")}`),
    );
    await reader.each(KEYS, (row) => this.#readKey(row));
    this.#imported.spending.push(
      ...(await reader.readSpending(REQUEST_LOG, (row) => row.decimal("amount", 9) ?? 0n)),
    );
    return this.#imported;
  }

  #readGroup(row: SourceRow): void {
    if (row.text("deleted_at") !== null) return;
    this.#groups.set(row.id, {
      name: cleanName(row.text("name"), `group ${row.shownId}`),
      platform: row.requireText("platform"),
      multiplier: readMultiplier(row),
      mayDraw: row.flag("allow_image_generation"),
      obstacle: findGroupObstacle(row),
    });
  }

  #readAccount(row: SourceRow): void {
    if (row.text("deleted_at") !== null) return;
    const subject = `account ${row.shownId} "${cleanName(row.text("name"), "")}"`;
    const upstream = PLATFORMS[row.requireText("platform")];
    const { api_key: credential, base_url: base, model_mapping: mapping } = row.object("credentials");
    if (!/^api_?key$/.test(row.requireText("type")) || typeof credential !== "string") {
      this.#report(subject, "has no API key: subscriptions and cookies are not imported.");
      return;
    }
    if (upstream === undefined) {
      this.#report(subject, `its platform ${cleanText(row.requireText("platform"))} has no counterpart.`);
      return;
    }
    if (row.text("status") !== ACTIVE) {
      this.#report(subject, "is not active: not imported.");
      return;
    }
    const concurrency = row.integer("concurrency") ?? 0;
    const account: ImportedAccount = {
      name: cleanName(`${cleanName(row.text("name"), "account").slice(0, 50)} ${row.shownId}`, "account"),
      ...buildAddress(upstream, typeof base === "string" && base !== "" ? base : null),
      credential,
      enabled: row.text("schedulable") === null || row.flag("schedulable"),
      priority: Math.min(Math.max(row.integer("priority") ?? 1, 0), 1_000),
      ...(concurrency > 0 ? { limits: { concurrency } } : {}),
      models: readMapping(mapping) ?? { "*": "*" },
    };
    this.#accounts.set(row.id, account);
    this.#imported.accounts.push(account);
  }

  #readMember(row: SourceRow): void {
    const account = this.#accounts.get(row.requireText("account_id"));
    const groupId = row.requireText("group_id");
    if (account !== undefined) this.#members.set(groupId, [...(this.#members.get(groupId) ?? []), account]);
  }

  #addGroups(): void {
    const models = new Set<string>();
    for (const [id, { name, platform, multiplier, mayDraw, obstacle }] of this.#groups) {
      if (obstacle !== null) this.#report(`group ${name}`, `${obstacle}, so its keys are not created.`);
      const accounts = this.#members.get(id) ?? [];
      const offered = listModels(platform, accounts).filter((model) => mayDraw || !/image/i.test(model));
      for (const model of offered) models.add(model);
      this.#imported.groups.push({
        name,
        models: offered,
        accounts: accounts.map((account) => account.name),
        billing: { charge: "balance", multiplier },
      });
    }
    this.#imported.models.push(...[...models].map((id) => ({ id })));
  }

  /** None if the user is not imported. */
  #readUser(row: SourceRow): SourceUser[] {
    if (row.text("deleted_at") !== null) return [];
    const email = row.text("email");
    const address = chooseAddress({ id: row.id, email, name: email, domain: this.#options.addressDomain });
    const subject = `user ${row.shownId}`;
    if (address === null) {
      this.#report(subject, "has no e-mail address: not imported, nor are the keys and the balance.");
      return [];
    }
    if (row.text("status") !== ACTIVE) {
      this.#report(subject, "is not active: not imported, nor are the keys and the balance.");
      return [];
    }
    const limits: ImportedLimits = {};
    const [concurrency, rpm] = [row.integer("concurrency") ?? 0, row.integer("rpm_limit") ?? 0];
    if (concurrency > 0) limits.concurrency = concurrency;
    if (rpm > 0) limits.rpm = rpm;
    const balanceNano = row.decimal("balance", 9) ?? 0n;
    const frozenNano = row.decimal("frozen_balance", 9) ?? 0n;
    return [{ ...address, id: row.id, subject, limits, balanceNano, frozenNano }];
  }

  #addUsers(users: readonly SourceUser[]): void {
    const { separate, shared } = separateAddresses(users);
    for (const { subject } of shared) this.#report(subject, SHARED_ADDRESS);
    for (const { id, email, limits, balanceNano, frozenNano } of separate) {
      this.#users.set(id, email);
      this.#imported.users.push({ email, groups: [], ...(Object.keys(limits).length > 0 ? { limits } : {}) });
      this.#imported.balances.push({ sourceId: id, email, amountNano: balanceNano });
      if (frozenNano > 0n)
        this.#report(`balance of ${email}`, `the frozen $${usdText(frozenNano)} are not booked.`);
    }
  }

  #readKey(row: SourceRow): void {
    if (row.text("deleted_at") !== null) return;
    const title = `key ${row.shownId} "${cleanName(row.text("name"), "")}"`;
    const user = this.#users.get(row.requireText("user_id"));
    const group = this.#groups.get(row.text("group_id") ?? "");
    const reason = this.#findReason(row);
    if (user === undefined || group === undefined || reason !== null) {
      this.#report(title, `not created: ${reason ?? "its user or its group was not imported"}.`);
      return;
    }
    const windows = WINDOWS.flatMap((per) => {
      const nano = row.decimal(`rate_limit_${per}`, 9) ?? 0n;
      return nano > 0n ? [{ per, usd: usdText(nano) }] : [];
    });
    this.#imported.keys.push({
      title,
      name: cleanName(row.text("name"), `key ${row.shownId}`),
      user,
      group: group.name,
      models: null,
      networks: readNetworks(row.list("ip_whitelist")),
      secret: { plain: row.requireText("key") },
      expiresAtMs: row.instantMs("expires_at"),
      ...(windows.length > 0 ? { limits: { windows } } : {}),
    });
  }

  #findReason(row: SourceRow): string | null {
    if (row.text("status") !== ACTIVE) return "it is not active";
    const expiresAtMs = row.instantMs("expires_at");
    if (expiresAtMs !== null && expiresAtMs <= this.#options.nowMs) return "it has expired";
    if (row.hasEntries("ip_blacklist")) return "its list of denied IP addresses has no counterpart";
    if (WINDOWS.some((per) => this.#isUsedUp(row, per))) return "one of its limits in USD is used up";
    if ((row.decimal("quota", 9) ?? 0n) > 0n) return "a quota of one key has no counterpart";
    const [userId, groupId] = [row.requireText("user_id"), row.text("group_id") ?? ""];
    if (this.#special.has(userId)) return "a quota of its user for a platform has no counterpart";
    if (this.#special.has(`${userId} ${groupId}`)) return "a rate of one user in a group has no counterpart";
    return this.#groups.get(groupId)?.obstacle ?? null;
  }

  #isUsedUp(row: SourceRow, per: (typeof WINDOWS)[number]): boolean {
    const limitNano = row.decimal(`rate_limit_${per}`, 9) ?? 0n;
    if (limitNano === 0n || (row.decimal(`usage_${per}`, 9) ?? 0n) < limitNano) return false;
    const endMs = (row.instantMs(`window_${per}_start`) ?? 0) + (durationMs(per) ?? 0);
    return endMs > this.#options.nowMs;
  }

  #report(subject: string, message: string): void {
    this.#imported.findings.push({ subject, message });
  }
}

function findGroupObstacle(row: SourceRow): string | null {
  if (row.text("status") !== ACTIVE) return "is not active";
  if ((row.text("subscription_type") ?? "standard") !== "standard") return "is paid by subscriptions";
  if (row.flag("claude_code_only")) return "accepts only Claude Code";
  return (row.integer("rpm_limit") ?? 0) > 0
    ? "has a rate limit for each user, which has no counterpart"
    : null;
}

/** Six decimals, as a multiplier of this gateway. The column has four. */
function readMultiplier(row: SourceRow): string {
  const millionths = row.decimal("rate_multiplier", 6) ?? 1_000_000n;
  return usdText(millionths * 1_000n);
}

/** A mapping is also the list of models that the account serves. */
function readMapping(mapping: unknown): Record<string, string> | null {
  if (typeof mapping !== "object" || mapping === null) return null;
  const entries = Object.entries(mapping).filter(
    (entry): entry is [string, string] => typeof entry[1] === "string",
  );
  return entries.length === 0 ? null : Object.fromEntries(entries);
}

function listModels(platform: string, accounts: readonly ImportedAccount[]): string[] {
  const named = accounts.flatMap(({ models }) => Object.keys(models)).filter((name) => !name.includes("*"));
  const isOpen = accounts.some(({ models }) => Object.keys(models).some((name) => name.includes("*")));
  const pattern = PLATFORMS[platform]?.models;
  const listed = Object.keys(BUNDLED_PRICES.models).filter((name) => isOpen && pattern?.test(name));
  return [...new Set([...named, ...listed])];
}
