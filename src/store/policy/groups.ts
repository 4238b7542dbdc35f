/** Group records, with their publications and account pools. */

import { z } from "zod";
import { CAPTURE_MODES } from "../../records/capture.ts";
import {
  CHARGES,
  GROUP_ACCESS,
  type GroupBilling,
  type GroupRecord,
  ON_DISCONNECT,
  type OnDisconnect,
} from "../../records/group.ts";
import { enumerate, orDuplicate, StoreConflict } from "../engine/conflict.ts";
import { type Db, type Row, snapshot, transaction } from "../engine/db.ts";
import { insertRows } from "../engine/insert-rows.ts";
import { bumpPolicyRevision } from "../engine/revisions.ts";
import { flag, integer, interfaces, json, oneOf, text } from "../engine/row.ts";
import { callerLimits, callerLimitsText } from "./limits-column.ts";
import { priceForm } from "./price-column.ts";

/** Rows of earlier versions lack newer fields. */
const billingSchema: z.ZodType<GroupBilling> = z.object({
  charge: z.enum(CHARGES),
  plans: z.array(z.string()).nullable().default(null),
  multiplier: z.string(),
  modelMultipliers: z.record(z.string(), z.string()),
  modelPrices: z.record(z.string(), priceForm).default({}),
});
const queueSchema = z.object({ maxWaiting: z.int().nonnegative(), timeoutMs: z.int().positive() });
/** Stored if the group leaves the setting unset: the column is NOT NULL. */
const UNSET = "default";

export async function listGroups(db: Db): Promise<GroupRecord[]> {
  return snapshot(db, async (tx) => {
    const rows = await tx.sql`
      SELECT id, name, interfaces, access, billing, on_disconnect, websocket, cost_headers, capture, limits, group_limits,
        queue, created_at_ms
      FROM grp ORDER BY created_at_ms, id`;
    const models = groupMembers(
      await tx.sql`SELECT group_id, model_id AS member FROM publication ORDER BY group_id, position`,
    );
    const accounts = groupMembers(
      await tx.sql`SELECT group_id, account_id AS member FROM pool ORDER BY group_id, position`,
    );
    return rows.map((row) => toGroup(row, models, accounts));
  });
}

/** Also replaces the group's publications and pool. */
export async function putGroup(db: Db, group: GroupRecord): Promise<void> {
  await transaction(db, async (tx) => {
    await bumpPolicyRevision(tx);
    await rejectMissing(tx, group, "model", group.models);
    await rejectMissing(tx, group, "account", group.accounts);
    await orDuplicate(
      `Another group is already named "${group.name}".`,
      tx.sql`
        INSERT INTO grp (id, name, interfaces, access, billing, on_disconnect, websocket, cost_headers, capture, limits,
          group_limits, queue, created_at_ms)
        VALUES (${group.id}, ${group.name}, ${JSON.stringify(group.interfaces)}, ${group.access},
          ${JSON.stringify(group.billing)}, ${group.onDisconnect ?? UNSET}, ${Number(group.websocket)},
          ${Number(group.costHeaders)}, ${group.capture}, ${callerLimitsText(group.limits)},
          ${callerLimitsText(group.groupLimits)}, ${JSON.stringify(group.queue)}, ${group.createdAtMs})
        ON CONFLICT (id) DO UPDATE SET name = excluded.name, interfaces = excluded.interfaces,
          access = excluded.access, billing = excluded.billing, on_disconnect = excluded.on_disconnect,
          websocket = excluded.websocket, cost_headers = excluded.cost_headers, capture = excluded.capture, limits = excluded.limits,
          group_limits = excluded.group_limits, queue = excluded.queue, created_at_ms = excluded.created_at_ms`,
    );
    await deletePublicationsAndPool(tx, group.id);
    const twice = `The group "${group.name}" lists a model or an account twice.`;
    const publications = group.models.map((id, position) => [group.id, id, position]);
    await orDuplicate(
      twice,
      insertRows(tx, "publication", ["group_id", "model_id", "position"], publications),
    );
    const pool = group.accounts.map((id, position) => [group.id, id, position]);
    await orDuplicate(twice, insertRows(tx, "pool", ["group_id", "account_id", "position"], pool));
  });
}

/** Returns false if the group did not exist. Revoked keys do not prevent the deletion. */
export async function deleteGroup(db: Db, id: string): Promise<boolean> {
  return transaction(db, async (tx) => {
    await bumpPolicyRevision(tx);
    const keys = await tx.sql`
      SELECT name FROM api_key WHERE group_id = ${id} AND status = 'active' ORDER BY created_at_ms, id`;
    if (keys.length > 0) {
      const names = keys.map((row) => text(row, "name"));
      throw new StoreConflict("referenced", `The group "${id}" still has ${enumerate("key", names)}.`);
    }
    await deletePublicationsAndPool(tx, id);
    await tx.sql`DELETE FROM grp_member WHERE group_id = ${id}`;
    const deleted = await tx.sql`DELETE FROM grp WHERE id = ${id} RETURNING id`;
    return deleted.length > 0;
  });
}

async function deletePublicationsAndPool(tx: Db, groupId: string): Promise<void> {
  await tx.sql`DELETE FROM publication WHERE group_id = ${groupId}`;
  await tx.sql`DELETE FROM pool WHERE group_id = ${groupId}`;
}

async function rejectMissing(
  tx: Db,
  group: GroupRecord,
  noun: "model" | "account",
  ids: readonly string[],
): Promise<void> {
  const rows = noun === "model" ? await tx.sql`SELECT id FROM model` : await tx.sql`SELECT id FROM account`;
  const present = new Set(rows.map((row) => text(row, "id")));
  const missing = ids.filter((id) => !present.has(id));
  if (missing.length === 0) return;
  throw new StoreConflict(
    "missing",
    `The group "${group.name}" lists ${enumerate(noun, missing)}, which does not exist.`,
  );
}

function groupMembers(rows: readonly Row[]): Map<string, string[]> {
  const members = new Map<string, string[]>();
  for (const row of rows) {
    const groupId = text(row, "group_id");
    const existing = members.get(groupId);
    if (existing === undefined) members.set(groupId, [text(row, "member")]);
    else existing.push(text(row, "member"));
  }
  return members;
}

function toGroup(
  row: Row,
  models: ReadonlyMap<string, string[]>,
  accounts: ReadonlyMap<string, string[]>,
): GroupRecord {
  const id = text(row, "id");
  return {
    id,
    name: text(row, "name"),
    interfaces: interfaces(row, "interfaces"),
    models: models.get(id) ?? [],
    accounts: accounts.get(id) ?? [],
    access: oneOf(row, "access", GROUP_ACCESS),
    billing: json(row, "billing", billingSchema),
    onDisconnect: readOnDisconnect(row),
    websocket: flag(row, "websocket"),
    costHeaders: flag(row, "cost_headers"),
    capture: oneOf(row, "capture", CAPTURE_MODES),
    limits: callerLimits(row, "limits"),
    groupLimits: callerLimits(row, "group_limits"),
    queue: json(row, "queue", queueSchema),
    createdAtMs: integer(row, "created_at_ms"),
  };
}

function readOnDisconnect(row: Row): OnDisconnect | null {
  const stored = oneOf(row, "on_disconnect", [...ON_DISCONNECT, UNSET] as const);
  return stored === UNSET ? null : stored;
}
