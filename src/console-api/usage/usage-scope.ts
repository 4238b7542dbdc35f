/** The scope and time range of a usage query, shared by charts, lists and exports. */

import { z } from "zod";
import { DAY_MS, HOUR_MS } from "../../base/time.ts";
import { type ApiError, paramError } from "../../errors.ts";
import type { Db } from "../../store/engine/db.ts";
import { text } from "../../store/engine/row.ts";
import { findUser, findUserByEmail } from "../../store/identity/users.ts";
import { readableKey } from "../auth/owner.ts";
import type { StoreContext } from "../context.ts";
import { instantQuery } from "../forms/fields.ts";
import { fieldError } from "../http/field-error.ts";
import { type Actor, seesEverything } from "../http/route.ts";

export const scopeQuery = {
  /** Administrators may query all users. */
  whose: z.enum(["own", "everybody"]).default("own"),
  /** For administrators and auditors: one user, by id or e-mail address. */
  user: z.string().trim().max(254).optional(),
  /** A key id. */
  key: z.string().max(100).optional(),
  /** The name of a group. */
  group: z.string().max(200).optional(),
  /** For administrators and auditors: the name of an account. */
  account: z.string().max(200).optional(),
  model: z.string().max(512).optional(),
};

export interface UsageScope {
  keyId?: string;
  userId?: string;
  groupId?: string;
  accountId?: string;
  model?: string;
}

type ScopeQuery = z.output<z.ZodObject<typeof scopeQuery>>;

/** Users who are neither administrators nor auditors always see only their own usage. */
export async function resolveScope(
  context: StoreContext,
  actor: Actor,
  query: ScopeQuery,
): Promise<UsageScope> {
  const { db } = context.installation;
  if (!seesEverything(actor)) rejectOthersScope(query);
  const model = query.model === undefined ? {} : { model: query.model };
  const accountId =
    query.account === undefined ? {} : { accountId: await findAccountByName(db, query.account) };
  const owner = await findOwnerScope(db, actor, query);
  // A key has one owner, so filtering by both would only be slower.
  if (query.key !== undefined) {
    const key = await readableKey(db, actor, query.key);
    if (query.user !== undefined && key.userId !== owner.userId) throw notFoundError("key", "of this user");
    return { ...model, ...accountId, keyId: key.id, ...(await findGroupScope(db, actor, query)) };
  }
  return { ...model, ...accountId, ...owner, ...(await findGroupScope(db, actor, query)) };
}

function rejectOthersScope({ whose, user, account }: ScopeQuery): void {
  const param = whose === "everybody" ? "whose" : user !== undefined ? "user" : account && "account";
  if (!param) return;
  throw paramError(
    param,
    "forbidden",
    `Only administrators and auditors may filter by \`${param}\`. Remove it.`,
  );
}

async function findOwnerScope(db: Db, actor: Actor, { whose, user, group, account, key }: ScopeQuery) {
  if (user !== undefined) {
    const found = (await findUser(db, user)) ?? (await findUserByEmail(db, user));
    if (found === null) throw notFoundError("user", "with this address or id");
    return { userId: found.id };
  }
  const isOfOthers =
    whose === "everybody" || group !== undefined || account !== undefined || key !== undefined;
  return seesEverything(actor) && isOfOthers ? {} : { userId: actor.userId };
}

/** Users learn nothing about groups in which they have no key, not even their names. */
async function findGroupScope(db: Db, actor: Actor, { group }: ScopeQuery): Promise<{ groupId?: string }> {
  if (group === undefined) return {};
  const [row] = seesEverything(actor)
    ? await db.sql`SELECT id FROM key_group WHERE name = ${group}`
    : await db.sql`SELECT id FROM key_group WHERE name = ${group}
          AND id IN (SELECT group_id FROM api_key WHERE user_id = ${actor.userId})`;
  if (row === undefined) throw notFoundError("group", "of this name");
  return { groupId: text(row, "id") };
}

async function findAccountByName(db: Db, name: string): Promise<string> {
  const [row] = await db.sql`SELECT id FROM account WHERE name = ${name}`;
  if (row === undefined) throw notFoundError("account", "of this name");
  return text(row, "id");
}

function notFoundError(what: string, which: string): ApiError {
  return paramError(what, "not_found", `No ${what} ${which} exists. Choose another one.`);
}

export const rangeQuery = {
  /** Epoch milliseconds; if omitted, from the beginning. */
  from_at: instantQuery.optional(),
  /** Exclusive; if omitted, now. */
  to_at: instantQuery.optional(),
};

export interface ChartRange {
  fromMs: number;
  toMs: number;
  granularity: "day" | "hour";
}

const UNIT_MS = { day: DAY_MS, hour: HOUR_MS } as const;
const DEFAULT_MS = { day: 30 * DAY_MS, hour: 48 * HOUR_MS } as const;
/** More bars than fit on a screen. */
const POINTS_MAX = 400;

/** Rounds to whole hours or days in UTC. Defaults to the last 30 days or 48 hours. */
export function chartRange(
  query: { from_at?: number | undefined; to_at?: number | undefined; granularity: "day" | "hour" },
  nowMs: number,
): ChartRange {
  const { granularity } = query;
  const unitMs = UNIT_MS[granularity];
  const toMs = Math.ceil(Math.min(query.to_at ?? nowMs, nowMs + unitMs) / unitMs) * unitMs;
  const fromMs = Math.floor((query.from_at ?? toMs - DEFAULT_MS[granularity]) / unitMs) * unitMs;
  if (fromMs >= toMs) {
    throw fieldError("from_at", "invalid_value", "must be before to_at, and not in the future.");
  }
  const points = (toMs - fromMs) / unitMs;
  if (points > POINTS_MAX) {
    throw fieldError(
      "from_at",
      "invalid_value",
      `the range has ${points} data points by ${granularity}, and at most ${POINTS_MAX} are allowed. Choose a shorter range.`,
    );
  }
  return { fromMs, toMs, granularity };
}
