/** Account records: credentials at upstreams, with their models and limits. */

import { z } from "zod";
import { ACCOUNT_KINDS, type AccountRecord } from "../../records/account.ts";
import { enumerate, orDuplicate, StoreConflict } from "../engine/conflict.ts";
import { type Db, type Row, transaction } from "../engine/db.ts";
import { bumpPolicyRevision } from "../engine/revisions.ts";
import { flag, integer, interfaces, oneOf, text, textMap, textOrNull } from "../engine/row.ts";
import { rateLimits, rateLimitsText } from "./limits-column.ts";

export async function listAccounts(db: Db): Promise<AccountRecord[]> {
  const rows = await db.sql`
    SELECT id, name, kind, vendor, profile, base_url, sealed_credential, interfaces, websocket, api_version,
      region, project, propagate_trace, private_network, priority, weight, models, limits, enabled, created_at_ms
    FROM account ORDER BY created_at_ms, id`;
  return rows.map(toAccount);
}

/** Whether the account exists, enabled or not. */
export async function hasAccount(db: Db, id: string): Promise<boolean> {
  return (await db.sql`SELECT id FROM account WHERE id = ${id}`).length > 0;
}

export async function putAccount(db: Db, account: AccountRecord): Promise<void> {
  await transaction(db, async (tx) => {
    await bumpPolicyRevision(tx);
    await orDuplicate(
      `Another account is already named "${account.name}".`,
      tx.sql`
        INSERT INTO account (id, name, kind, vendor, profile, base_url, sealed_credential, interfaces, websocket,
          api_version, region, project, propagate_trace, private_network, priority, weight, models, limits, enabled, created_at_ms)
        VALUES (${account.id}, ${account.name}, ${account.kind}, ${account.vendor ?? null}, ${profileText(account)},
          ${account.baseUrl}, ${account.sealedCredential},
          ${JSON.stringify(account.interfaces)}, ${Number(account.websocket)}, ${account.apiVersion},
          ${account.region ?? null}, ${account.project ?? null},
          ${Number(account.propagateTrace)}, ${Number(account.privateNetwork)}, ${account.priority}, ${account.weight},
          ${JSON.stringify(account.models)}, ${rateLimitsText(account.limits)}, ${Number(account.enabled)}, ${account.createdAtMs})
        ON CONFLICT (id) DO UPDATE SET name = excluded.name, kind = excluded.kind, vendor = excluded.vendor,
          profile = excluded.profile, base_url = excluded.base_url,
          sealed_credential = excluded.sealed_credential, interfaces = excluded.interfaces,
          websocket = excluded.websocket, api_version = excluded.api_version,
          region = excluded.region, project = excluded.project,
          propagate_trace = excluded.propagate_trace, private_network = excluded.private_network,
          priority = excluded.priority, weight = excluded.weight, models = excluded.models,
          limits = excluded.limits, enabled = excluded.enabled, created_at_ms = excluded.created_at_ms`,
    );
  });
}

/** Returns false if the account did not exist. */
export async function deleteAccount(db: Db, id: string): Promise<boolean> {
  return transaction(db, async (tx) => {
    await bumpPolicyRevision(tx);
    const groups = await tx.sql`
      SELECT grp.name AS name FROM pool JOIN grp ON grp.id = pool.group_id
      WHERE pool.account_id = ${id} ORDER BY grp.name`;
    if (groups.length > 0) {
      const names = groups.map((row) => text(row, "name"));
      throw new StoreConflict(
        "referenced",
        `The account "${id}" is still used by ${enumerate("group", names)}.`,
      );
    }
    const deleted = await tx.sql`DELETE FROM account WHERE id = ${id} RETURNING id`;
    return deleted.length > 0;
  });
}

function profileText({ profile }: AccountRecord): string | null {
  return profile == null || Object.keys(profile).length === 0 ? null : JSON.stringify(profile);
}

const profileSchema = z.record(z.string(), z.union([z.string(), z.boolean()]));

function readProfile(json: string): NonNullable<AccountRecord["profile"]> {
  return profileSchema.parse(JSON.parse(json));
}

function toAccount(row: Row): AccountRecord {
  const vendor = textOrNull(row, "vendor");
  const profile = textOrNull(row, "profile");
  const region = textOrNull(row, "region");
  const project = textOrNull(row, "project");
  return {
    id: text(row, "id"),
    name: text(row, "name"),
    kind: oneOf(row, "kind", ACCOUNT_KINDS),
    ...(vendor === null ? {} : { vendor }),
    ...(profile === null ? {} : { profile: readProfile(profile) }),
    baseUrl: text(row, "base_url"),
    sealedCredential: textOrNull(row, "sealed_credential"),
    interfaces: interfaces(row, "interfaces"),
    websocket: flag(row, "websocket"),
    apiVersion: textOrNull(row, "api_version"),
    ...(region === null ? {} : { region }),
    ...(project === null ? {} : { project }),
    propagateTrace: flag(row, "propagate_trace"),
    privateNetwork: flag(row, "private_network"),
    priority: integer(row, "priority"),
    weight: integer(row, "weight"),
    models: textMap(row, "models"),
    limits: rateLimits(row, "limits"),
    enabled: flag(row, "enabled"),
    createdAtMs: integer(row, "created_at_ms"),
  };
}
