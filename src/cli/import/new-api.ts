/**
 * Reads new-api and one-api, which share their tables. Users' quotas become balances, tokens become keys, channels
 * become accounts, and the group of a user or token is a group that charges the balance.
 */

import { lowest } from "../../base/lowest.ts";
import { type Addressed, chooseAddress, SHARED_ADDRESS, separateAddresses } from "./addresses.ts";
import { ENABLED, readChannels, splitList } from "./channels.ts";
import { type GroupRules, readGroupRules } from "./group-rules.ts";
import { cleanName, createImported, type Imported, type ImportOptions, readNetworks } from "./imported.ts";
import { type QuotaOptions, readQuotaOptions } from "./quota-options.ts";
import type { SourceDatabase } from "./source-database.ts";
import { SourceOptions } from "./source-options.ts";
import type { SourceRow } from "./source-row.ts";
import type { SourceTable, SpendingTable } from "./source-table.ts";
import { TableReader } from "./table-reader.ts";
import { type ChannelUpstream, NEW_API_CHANNELS, ONE_API_CHANNELS } from "./upstreams.ts";

const USERS: SourceTable = {
  name: "users",
  key: "id",
  required: ["username", "status", "quota", "group"],
  optional: ["email", "deleted_at"],
  ignored: [
    "password",
    "display_name",
    "role",
    "github_id",
    "discord_id",
    "oidc_id",
    "wechat_id",
    "telegram_id",
    "lark_id",
    "linux_do_id",
    "access_token",
    "used_quota",
    "request_count",
    "aff_code",
    "aff_count",
    "aff_quota",
    "aff_history",
    "inviter_id",
    "setting",
    "remark",
    "stripe_customer",
    "created_at",
    "created_time",
    "last_login_at",
    "last_login_time",
    "normalized_email",
  ],
};

const TOKENS: SourceTable = {
  name: "tokens",
  key: "id",
  required: ["user_id", "key", "status", "name", "expired_time", "remain_quota", "unlimited_quota"],
  optional: ["model_limits_enabled", "model_limits", "allow_ips", "group", "deleted_at", "models", "subnet"],
  ignored: ["created_time", "accessed_time", "used_quota", "cross_group_retry"],
};

/** Rows of this type are the costs of requests. */
const CONSUMPTION = 2;
const LOG: SpendingTable = {
  name: "logs",
  time: "created_at",
  isTimeInSeconds: true,
  amount: "quota",
  only: ["type", CONSUMPTION],
};

export function readNewApi(source: SourceDatabase, options: ImportOptions): Promise<Imported> {
  return readTokens(source, options, NEW_API_CHANNELS);
}

export function readOneApi(source: SourceDatabase, options: ImportOptions): Promise<Imported> {
  return readTokens(source, options, ONE_API_CHANNELS);
}

async function readTokens(
  source: SourceDatabase,
  options: ImportOptions,
  upstreams: Readonly<Record<number, ChannelUpstream>>,
): Promise<Imported> {
  const imported = createImported();
  const reader = new TableReader(source, imported.findings);
  const sourceOptions = await SourceOptions.read(reader, imported.findings);
  const quota = readQuotaOptions(sourceOptions);
  await readChannels(reader, imported, { upstreams, quota });
  const rules = readGroupRules(sourceOptions);
  return new TokenReader(reader, imported, { ...options, quota, rules }).read();
}

interface TokenOptions extends ImportOptions {
  readonly quota: QuotaOptions;
  readonly rules: GroupRules;
}

interface Owner extends Addressed {
  readonly id: string;
  /** For reports. */
  readonly subject: string;
  readonly group: string;
  readonly quotaUnits: bigint;
  /** The rate limit counts all requests of a user, and the strictest group that the user's keys are in decides. */
  rpm: number | null;
}

class TokenReader {
  readonly #reader: TableReader;
  readonly #imported: Imported;
  readonly #options: TokenOptions;
  readonly #owners = new Map<string, Owner>();

  constructor(reader: TableReader, imported: Imported, options: TokenOptions) {
    this.#reader = reader;
    this.#imported = imported;
    this.#options = options;
  }

  async read(): Promise<Imported> {
    const users: Owner[] = [];
    await this.#reader.each(USERS, (row) => users.push(...this.#readUser(row)));
    this.#addOwners(users);
    await this.#reader.each(TOKENS, (row) => this.#readToken(row));
    for (const owner of this.#owners.values()) this.#addUser(owner);
    const toNano = (row: SourceRow) => this.#options.quota.toNano(row.bigInteger("amount") ?? 0n).amountNano;
    this.#imported.spending.push(...(await this.#reader.readSpending(LOG, toNano)));
    return this.#imported;
  }

  /** None if the user is not imported. */
  #readUser(row: SourceRow): Owner[] {
    if (row.text("deleted_at") !== null) return [];
    const name = row.text("username");
    const subject = `user ${row.shownId} "${cleanName(name, "")}"`;
    const address = chooseAddress({
      id: row.id,
      email: row.text("email"),
      name,
      domain: this.#options.addressDomain,
    });
    if (row.integer("status") !== ENABLED) {
      this.#report(subject, "is disabled: not imported, nor are the keys and the balance.");
      return [];
    }
    if (address === null) {
      this.#report(
        subject,
        "has no e-mail address: not imported, nor are the keys and the balance. --address-domain makes an address.",
      );
      return [];
    }
    const group = cleanName(row.text("group"), "default");
    const rpm = this.#options.rules.findRpm(group);
    const quotaUnits = row.bigInteger("quota") ?? 0n;
    return [{ ...address, id: row.id, subject, group, quotaUnits, rpm }];
  }

  #addOwners(users: readonly Owner[]): void {
    const { separate, shared } = separateAddresses(users);
    for (const { subject } of shared) this.#report(subject, SHARED_ADDRESS);
    for (const owner of separate) {
      const { id, email, quotaUnits } = owner;
      this.#owners.set(id, owner);
      const { amountNano, isExact } = this.#options.quota.toNano(quotaUnits);
      if (!isExact) this.#report(`balance of ${email}`, "was rounded down to a billionth of a dollar.");
      this.#imported.balances.push({ sourceId: id, email, amountNano });
    }
  }

  #addUser({ email, group, rpm }: Owner): void {
    this.#imported.users.push({
      email,
      groups: this.#hasGroup(group) && rpm !== 0 ? [group] : [],
      ...(rpm === null ? {} : { limits: { rpm: Math.max(rpm, 1) } }),
    });
  }

  #readToken(row: SourceRow): void {
    if (row.text("deleted_at") !== null) return;
    const name = row.text("name");
    const title = `key ${row.shownId} "${cleanName(name, "")}"`;
    const owner = this.#owners.get(row.requireText("user_id"));
    const reason = this.#findReason(row, owner);
    if (reason !== null || owner === undefined) {
      this.#report(title, `not created: ${reason}.`);
      return;
    }
    const group = cleanName(row.text("group"), owner.group);
    owner.rpm = lowest(owner.rpm, this.#options.rules.findRpm(group));
    const expiresAtSeconds = row.integer("expired_time");
    const secret = row.requireText("key").trim();
    this.#imported.keys.push({
      title,
      name: cleanName(name, `key ${row.shownId}`),
      user: owner.email,
      group,
      models: readModelList(row),
      networks: readNetworks([...splitLines(row.text("allow_ips")), ...splitSubnets(row.text("subnet"))]),
      secret: { plain: secret.startsWith("sk-") ? secret : `sk-${secret}` },
      expiresAtMs: expiresAtSeconds === null || expiresAtSeconds === -1 ? null : expiresAtSeconds * 1_000,
    });
  }

  /** Why a key is not created; null if it is. */
  #findReason(row: SourceRow, owner: Owner | undefined): string | null {
    if (owner === undefined) return "its user was not imported";
    if (row.integer("status") !== ENABLED) return "it is disabled, expired or used up";
    // The source reads an empty time as 0.
    const expiresAtSeconds = row.integer("expired_time") ?? 0;
    if (expiresAtSeconds !== -1 && expiresAtSeconds * 1_000 <= this.#options.nowMs) return "it has expired";
    if (!row.flag("unlimited_quota")) return "a quota of one key has no counterpart";
    return this.#findGroupObstacle(row.text("group"), owner.group);
  }

  #findGroupObstacle(named: string | null, userGroup: string): string | null {
    const { rules } = this.#options;
    const group = cleanName(named, userGroup);
    if (!this.#hasGroup(group)) return `no enabled channel serves its group "${group}"`;
    const obstacle = named === null ? null : rules.findTokenObstacle(userGroup, group);
    if (obstacle !== null) return obstacle;
    if (rules.paysMore(userGroup, group)) return `its user pays more than the ratio of the group "${group}"`;
    return rules.findRpm(group) === 0 ? "less than one request per minute has no counterpart" : null;
  }

  #hasGroup(name: string): boolean {
    return this.#imported.groups.some((group) => group.name === name);
  }

  #report(subject: string, message: string): void {
    this.#imported.findings.push({ subject, message });
  }
}

/** Null if the token may use all models of its group. */
function readModelList(row: SourceRow): string[] | null {
  const list = row.flag("model_limits_enabled") ? (row.text("model_limits") ?? "") : row.text("models");
  return list === null ? null : splitList(list);
}

/** new-api has an address in each line, and ignores spaces, commas at the end, and empty lines. */
function splitLines(addresses: string | null): string[] {
  return (addresses ?? "")
    .split("\n")
    .map((line) => line.replaceAll(" ", "").trim().replace(/,+$/, ""))
    .filter((line) => line !== "");
}

/** one-api rejects all requests if an entry is empty, so it is kept: a key with it is not created. */
function splitSubnets(subnets: string | null): string[] {
  return subnets === null ? [] : subnets.split(",").map((subnet) => subnet.trim());
}
