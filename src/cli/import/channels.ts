/** The channels of new-api and one-api as accounts, models and groups. */

import { cleanName, type Imported, type ImportedAccount } from "./imported.ts";
import type { QuotaOptions } from "./quota-options.ts";
import type { SourceRow } from "./source-row.ts";
import type { SourceTable } from "./source-table.ts";
import type { TableReader } from "./table-reader.ts";
import { AZURE, buildAddress, type ChannelUpstream, isLocal } from "./upstreams.ts";

const CHANNELS: SourceTable = {
  name: "channels",
  key: "id",
  required: ["type", "key", "status", "name", "models", "group"],
  optional: ["base_url", "other", "model_mapping", "priority", "weight"],
  ignored: [
    "openai_organization",
    "test_model",
    "created_time",
    "test_time",
    "response_time",
    "balance",
    "balance_updated_time",
    "used_quota",
    "status_code_mapping",
    "auto_ban",
    "other_info",
    "tag",
    "setting",
    "settings",
    "param_override",
    "header_override",
    "remark",
    "channel_info",
    "config",
    "system_prompt",
  ],
};

/** The status of channels, users and tokens that work. */
export const ENABLED = 1;
const PRIORITY_MAX = 1_000;
const WEIGHT_MAX = 1_000;

interface Channel {
  readonly groups: readonly string[];
  readonly models: readonly string[];
  readonly accounts: readonly Omit<ImportedAccount, "priority">[];
  /** The highest is used first. */
  readonly priority: number;
}

export async function readChannels(
  reader: TableReader,
  imported: Imported,
  { upstreams, quota }: { upstreams: Readonly<Record<number, ChannelUpstream>>; quota: QuotaOptions },
): Promise<void> {
  const channels: Channel[] = [];
  await reader.each(CHANNELS, (row) => {
    const upstream = upstreams[row.integer("type") ?? 0];
    const subject = `channel ${row.shownId} "${cleanName(row.text("name"), "")}"`;
    if (row.integer("status") !== ENABLED)
      imported.findings.push({ subject, message: "is disabled: not imported." });
    else if (upstream === undefined)
      imported.findings.push({
        subject,
        message: `its type ${row.text("type")} has no counterpart: not imported.`,
      });
    else channels.push(readChannel(row, upstream));
  });
  // The lowest number is used first here.
  const ranks = [...new Set(channels.map(({ priority }) => priority))].sort((a, b) => b - a);
  for (const { accounts, priority } of channels) {
    const rank = Math.min(ranks.indexOf(priority) + 1, PRIORITY_MAX);
    imported.accounts.push(...accounts.map((account) => ({ ...account, priority: rank })));
  }
  for (const model of new Set(channels.flatMap(({ models }) => models))) {
    const price = quota.findPrice(model);
    imported.models.push(price === undefined ? { id: model } : { id: model, price });
  }
  for (const name of new Set(channels.flatMap(({ groups }) => groups))) {
    const members = channels.filter(({ groups }) => groups.includes(name));
    imported.groups.push({
      name: cleanName(name, "default"),
      models: [...new Set(members.flatMap(({ models }) => models))],
      accounts: members.flatMap(({ accounts }) => accounts.map((account) => account.name)),
      billing: { charge: "balance", multiplier: quota.multipliers.get(name) ?? "1" },
    });
  }
}

function readChannel(row: SourceRow, upstream: ChannelUpstream): Channel {
  const models = splitList(row.text("models") ?? "");
  const mapping = row.object("model_mapping");
  const address = buildAddress(upstream, row.text("base_url"));
  const version = upstream === AZURE ? row.text("other") : null;
  const secrets = (row.text("key") ?? "")
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
  const credentials = secrets.length === 0 || isLocal(upstream.vendor) ? [undefined] : secrets;
  return {
    groups: splitList(row.text("group") ?? "default"),
    models,
    priority: row.integer("priority") ?? 0,
    accounts: credentials.map((credential, i) => ({
      // The id makes the name unique, so that a second import finds the account.
      name: cleanName(
        `${cleanName(row.text("name"), "channel").slice(0, 48)} ${row.shownId}${i === 0 ? "" : `-${i + 1}`}`,
        "channel",
      ),
      ...address,
      ...(version === null ? {} : { api_version: version }),
      ...(credential === undefined ? {} : { credential }),
      enabled: credential !== undefined || isLocal(upstream.vendor),
      weight: Math.min(Math.max(row.integer("weight") ?? 1, 1), WEIGHT_MAX),
      models: Object.fromEntries(models.map((model) => [model, readUpstreamName(mapping[model], model)])),
    })),
  };
}

function readUpstreamName(mapped: unknown, model: string): string {
  return typeof mapped === "string" && mapped !== "" ? mapped : model;
}

export function splitList(text: string): string[] {
  return [...new Set(text.split(/[,\n]/).map((part) => part.trim()))].filter((part) => part !== "");
}
