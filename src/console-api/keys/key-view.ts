/** Keys in the shape of the console API. */

import { z } from "zod";
import { DAY_MS } from "../../base/time.ts";
import { usdText } from "../../money/nano.ts";
import { KEY_FALLBACK } from "../../records/fallback.ts";
import type { KeyRecord } from "../../records/key.ts";
import type { Db } from "../../store/engine/db.ts";
import { type KeyDay, type KeyFilter, type ListedKey, listKeyDays } from "../../store/policy/key-list.ts";
import { readFoldedBefore, startOfDay } from "../../store/usage/usage-day.ts";
import type { ConsoleContext, PolicyContext } from "../context.ts";
import { limitsObject, limitsShape } from "../forms/limits-form.ts";

const KEY_STATUSES = ["active", "expired", "suspended", "revoked"] as const;

const keyFields = {
  id: z.string(),
  name: z.string(),
  /** The part of the secret after `gwk_`. It identifies the key in logs and on the command line. */
  public_id: z.string(),
  /** The end of the secret; empty for an imported one. */
  last4: z.string(),
  group: z.string(),
  status: z.enum(KEY_STATUSES),
  created_at: z.number(),
  expires_at: z.number().nullable(),
  revoked_at: z.number().nullable(),
  /** Limits of the key itself, in addition to those that the group sets for each key. */
  limits: limitsShape,
  /** The request policy of the key itself, in addition to that of its group. */
  request_policy: z.string().nullable(),
  /** Whether it is the key of a signed-in tool. Its secrets are access tokens, and the tool renews them. */
  is_tool: z.boolean(),
  /** Whether its requests may take the fallback steps of its group and models. */
  fallback: z.enum(KEY_FALLBACK),
};

export const keyResponse = z.object(keyFields);

export const listedKeyResponse = z.object({
  ...keyFields,
  last_used_at: z.number().nullable(),
  /** Why a key is suspended: its owner lost this group at the provider, or (null) all access. */
  suspension: z.object({ group: z.string().nullable(), since: z.number() }).nullable(),
  /** The last 30 days, including today. */
  usage: z.object({
    requests: z.number(),
    /** In USD: at list price, and the part that was paid. */
    cost: z.string(),
    charged: z.string(),
    /** Requests by day. The last entry is today. */
    requests_by_day: z.array(z.number()),
  }),
});

/** `active` has suspended keys too, which work again when their owner returns. Revoked keys are listed only on request. */
export const keyStatusQuery = z.enum(["active", "revoked", "all"]).default("active");

export function listedStatus(status: z.output<typeof keyStatusQuery>): Pick<KeyFilter, "status"> {
  if (status === "all") return {};
  return { status: status === "active" ? "current" : "revoked" };
}

function keyStatus({ status, expiresAtMs }: KeyRecord, nowMs: number): (typeof KEY_STATUSES)[number] {
  if (status === "revoked") return "revoked";
  return expiresAtMs !== null && expiresAtMs <= nowMs ? "expired" : "active";
}

/** Returns the id if the group was deleted: only revoked keys outlive their group. */
export function lookUpGroupName({ gateway }: Pick<ConsoleContext, "gateway">, groupId: string): string {
  return gateway.policy.snapshot().groups.get(groupId)?.name ?? groupId;
}

export function keyObject(context: PolicyContext, key: KeyRecord): z.input<typeof keyResponse> {
  return {
    id: key.id,
    name: key.name,
    public_id: key.publicId,
    last4: key.last4,
    group: lookUpGroupName(context, key.groupId),
    status: keyStatus(key, context.installation.clock.nowMs()),
    created_at: key.createdAtMs,
    expires_at: key.expiresAtMs,
    revoked_at: key.revokedAtMs,
    limits: limitsObject(key.limits),
    request_policy: key.requestPolicy,
    is_tool: context.gateway.policy.keys.get(key.id)?.isTool === true,
    fallback: key.fallback ?? "allow",
  };
}

export const CHART_DAYS = 30;

/** Reads the daily usage of several keys in one query. Every day has an entry, also without usage. */
export async function recentDays(
  db: Db,
  keyIds: readonly string[],
  nowMs: number,
): Promise<{ firstDayMs: number; byKey: ReadonlyMap<string, readonly KeyDay[]> }> {
  const firstDayMs = startOfDay(nowMs) - (CHART_DAYS - 1) * DAY_MS;
  const days = await listKeyDays(db, keyIds, {
    fromMs: firstDayMs,
    toMs: startOfDay(nowMs) + DAY_MS,
    foldedBeforeMs: await readFoldedBefore(db),
  });
  return { firstDayMs, byKey: Map.groupBy(days, ({ keyId }) => keyId) };
}

export function listedKeyObject(
  context: PolicyContext,
  key: ListedKey,
  days: readonly KeyDay[],
  firstDayMs: number,
): z.input<typeof listedKeyResponse> {
  const { suspension } = key;
  const requestsByDay = Array<number>(CHART_DAYS).fill(0);
  // As the list of requests has them: rejected ones count too.
  for (const { dayMs, requests, refused } of days)
    requestsByDay[(dayMs - firstDayMs) / DAY_MS] = requests + refused;
  const sum = (readDay: "costNano" | "chargedNano") =>
    usdText(days.reduce((total, day) => total + day[readDay], 0n));
  return {
    ...keyObject(context, key),
    ...(suspension === null ? {} : { status: "suspended" }),
    suspension:
      suspension === null
        ? null
        : {
            group: suspension.groupId === null ? null : lookUpGroupName(context, suspension.groupId),
            since: suspension.sinceMs,
          },
    last_used_at: key.lastUsedAtMs,
    usage: {
      requests: days.reduce((total, { requests, refused }) => total + requests + refused, 0),
      cost: sum("costNano"),
      charged: sum("chargedNano"),
      requests_by_day: requestsByDay,
    },
  };
}
