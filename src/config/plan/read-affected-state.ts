/**
 * Reads the part of the state that a small document can affect. The whole state contains every user and key,
 * possibly 100,000 of each, and a form is planned in the process that serves requests.
 */

import type { GroupRecord } from "../../records/group.ts";
import type { KeyRecord } from "../../records/key.ts";
import { type Db, snapshot } from "../../store/engine/db.ts";
import { text } from "../../store/engine/row.ts";
import { selectIn } from "../../store/engine/select-in.ts";
import { findUsers } from "../../store/identity/users.ts";
import { listUserSubscriptions } from "../../store/money/subscriptions.ts";
import { readWallet } from "../../store/money/wallets.ts";
import { KEY_COLUMNS, toKey } from "../../store/policy/keys.ts";
import { readPolicy } from "../../store/policy/policy.ts";
import type { GatewayDocument } from "../schema/schema.ts";
import { type ConfigState, readSettingsState, readState } from "../state/step.ts";
import type { Removals } from "./plan-removals.ts";

export async function readAffectedState(
  db: Db,
  document: GatewayDocument,
  removals: Removals,
): Promise<ConfigState> {
  // A key is identified by its secret among all others.
  if ((document.keys ?? []).length > 0) return readState(db);
  return snapshot(db, async (tx) => {
    const policy = await readPolicy(tx);
    const namedUsers = await findUsers(tx, {
      emails: [...readTexts(document.users, "email"), ...(removals.users ?? [])],
    });
    const findIds = (names: readonly string[] | undefined) =>
      policy.groups.filter(({ name }) => names?.includes(name)).map(({ id }) => id);
    const keys = await readAffectedKeys(tx, {
      users: namedUsers.map(({ id }) => id),
      removedGroups: findIds(removals.groups),
      groups: findPayers(policy.groups, {
        groups: findIds(readTexts(document.groups, "name")),
        models: readTexts(document.models, "id"),
      }),
      mayRestrict: (document.request_policies ?? []).length > 0 || (document.groups ?? []).length > 0,
    });
    const ids = new Set(namedUsers.map(({ id }) => id));
    const owners = new Set(keys.flatMap(({ userId }) => (userId === null || ids.has(userId) ? [] : userId)));
    const funds = new Map<string, bigint>();
    for (const { id } of namedUsers) {
      const { balanceNano } = await readWallet(tx, id);
      if (balanceNano !== 0n) funds.set(id, balanceNano);
    }
    return {
      ...policy,
      ...(await readSettingsState(tx)),
      users: [...namedUsers, ...(await findUsers(tx, { ids: [...owners] }))],
      keys,
      // A document without keys creates none.
      suspendedKeys: new Set<string>(),
      toolKeys: new Set<string>(),
      formerDigests: new Set<string>(),
      subscriptions: await listUserSubscriptions(tx, [...ids]),
      funds,
    };
  });
}

/** The named groups, and those whose requests may be charged because of a named group or model. */
function findPayers(
  all: readonly GroupRecord[],
  named: { readonly groups: readonly string[]; readonly models: readonly string[] },
): string[] {
  const groups = new Set(named.groups);
  const models = new Set(named.models);
  return all
    .filter(
      ({ id, fallback, models: published }) =>
        groups.has(id) ||
        fallback.some(({ group }) => group !== null && groups.has(group)) ||
        published.some((model) => models.has(model)),
    )
    .map(({ id }) => id);
}

interface AffectedIds {
  users: readonly string[];
  removedGroups: readonly string[];
  groups: readonly string[];
  /** The document has request policies, or groups, which may name one. */
  mayRestrict: boolean;
}

/**
 * Keys of these users and of removed groups. Of other groups, only keys without a user, because a group that
 * charges may not have them, and one key for each request policy, which may leave no model to it.
 */
async function readAffectedKeys(
  tx: Db,
  { users, removedGroups: goneGroups, groups, mayRestrict }: AffectedIds,
): Promise<KeyRecord[]> {
  const from = `SELECT ${KEY_COLUMNS} FROM api_key WHERE status = 'active' AND`;
  const rows = [
    ...(await selectIn(tx, `${from} user_id`, users)),
    ...(await selectIn(tx, `${from} group_id`, goneGroups)),
    ...(await selectIn(tx, `${from} user_id IS NULL AND group_id`, groups)),
    ...(mayRestrict ? await selectIn(tx, `${from} id`, await listRestrictedKeys(tx)) : []),
  ];
  return [...new Map(rows.map(toKey).map((key) => [key.id, key])).values()];
}

/** One active key for each pair of a group and a policy. */
async function listRestrictedKeys(tx: Db): Promise<string[]> {
  const rows = await tx.sql`
    SELECT MIN(id) AS id FROM api_key WHERE request_policy IS NOT NULL AND status = 'active'
    GROUP BY group_id, request_policy`;
  return rows.map((row) => text(row, "id"));
}

function readTexts(section: readonly object[] | undefined, field: string): string[] {
  return (section ?? []).flatMap((item) => {
    const value: unknown = Object.entries(item).find(([name]) => name === field)?.[1];
    return typeof value === "string" ? value : [];
  });
}
