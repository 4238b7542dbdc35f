/** Routes for API keys of the caller. Administrators may name another user. */

import { z } from "zod";
import { DAY_MS } from "../../base/time.ts";
import { limits as productLimits } from "../../config/limits/product-limits.ts";
import { parseCallerLimits } from "../../config/schema/usage-limits.ts";
import { usdText } from "../../money/nano.ts";
import { KEY_FALLBACK } from "../../records/fallback.ts";
import type { KeyRecord } from "../../records/key.ts";
import { listKeyPage, readLastUse } from "../../store/policy/key-list.ts";
import { listFormerSecrets } from "../../store/policy/keys.ts";
import { readSuspensions } from "../../store/policy/suspended-keys.ts";
import { keyTotals } from "../../store/usage/usage.ts";
import { ownerQuery, ownKey, resolveOwner } from "../auth/owner.ts";
import type { PolicyContext, StoreContext } from "../context.ts";
import { instantField, nameField } from "../forms/fields.ts";
import { limitsInput } from "../forms/limits-form.ts";
import { buildPage, cursorText, pageQuery, readCursor, searchQuery } from "../http/page.ts";
import { forUsers, NO_FIELDS } from "../http/route.ts";
import { flushUsage } from "../usage/flush-usage.ts";
import { createKey, editKey, revoke, rotate } from "./key-changes.ts";
import {
  CHART_DAYS,
  keyObject,
  keyResponse,
  keyStatusQuery,
  listedKeyObject,
  listedKeyResponse,
  listedStatus,
  recentDays,
} from "./key-view.ts";
import { buildMeters, meterResponse } from "./meters.ts";
import { createTemporarySecret } from "./temporary-secret.ts";

const byId = { params: z.strictObject({ id: z.string() }) };
const keyCursor = z.tuple([z.number(), z.string()]);
const expiresAt = instantField.nullable();
/** The name of a request policy; null for none. Owners may choose those that an administrator offers. */
const requestPolicy = z.string().nullable();

/** Whether requests may take fallback steps. Owners may change it to `deny` only. */
const fallback = z.enum(KEY_FALLBACK);
const parseFallback = (value: z.output<typeof fallback> | undefined) => (value === "deny" ? value : null);

const DEFAULT_OVERLAP_MS = DAY_MS;

const keyDetail = z.object({
  ...listedKeyResponse.shape,
  /** The first day of `requests_by_day`. */
  first_day_at: z.number(),
  /** Also by day: failed and rejected requests, and the amount that was paid. */
  days: z.array(
    z.object({
      at: z.number(),
      requests: z.number(),
      failed: z.number(),
      refused: z.number(),
      cost: z.string(),
      charged: z.string(),
    }),
  ),
  requests_last_day: z.number(),
  /** Every limit that applies to the key, with the remaining amount. Empty for a key that does not work. */
  meters: z.array(meterResponse),
  /** Previous secrets of a rotated key that still work. */
  former_secrets: z.array(z.object({ last4: z.string(), works_until_at: z.number() })),
});

export const keyRoutes = {
  "keys.list": forUsers({
    method: "GET",
    path: "/api/keys",
    summary: "List API keys, newest first, with usage of the last 30 days",
    query: z.strictObject({
      ...pageQuery,
      ...searchQuery,
      ...ownerQuery,
      status: keyStatusQuery,
    }),
    response: buildPage(listedKeyResponse),
    async run(context, { actor, query }) {
      const { db, clock } = context.installation;
      const owner = { userId: resolveOwner(actor, query.user) };
      await flushUsage(context);
      const cursor = readCursor(query.after, keyCursor);
      const { keys, next } = await listKeyPage(
        db,
        {
          owner,
          ...listedStatus(query.status),
          ...(query.search === undefined ? {} : { search: query.search }),
        },
        {
          after: cursor === null ? null : { createdAtMs: cursor[0], id: cursor[1] },
          limit: query.limit,
        },
      );
      const ids = keys.map(({ id }) => id);
      const { firstDayMs, byKey } = await recentDays(db, ids, clock.nowMs());
      return {
        data: keys.map((key) => listedKeyObject(context, key, byKey.get(key.id) ?? [], firstDayMs)),
        next: next === null ? null : cursorText([next.createdAtMs, next.id]),
      };
    },
  }),

  "keys.create": forUsers({
    tokenScope: "keys",
    method: "POST",
    path: "/api/keys",
    summary: "Create an API key. Its secret is returned only once",
    body: z.strictObject({
      name: nameField,
      /** The name of a group. */
      group: z.string(),
      expires_at: expiresAt.optional(),
      limits: limitsInput.optional(),
      request_policy: requestPolicy.optional(),
      fallback: fallback.optional(),
      /** The owner; if omitted, the caller. */
      user: z.string().optional(),
    }),
    adminFields: ["user"],
    response: z.object({ key: keyResponse, secret: z.string() }),
    async run(context, input) {
      const { body, actor } = input;
      const { key, secret } = await createKey(context, input, {
        userId: body.user ?? actor.userId,
        name: body.name,
        group: body.group,
        expiresAtMs: body.expires_at ?? null,
        limits: parseCallerLimits(body.limits),
        requestPolicy: body.request_policy ?? null,
        fallback: parseFallback(body.fallback),
      });
      return { key: keyObject(context, key), secret };
    },
  }),

  "keys.get": forUsers({
    ...byId,
    method: "GET",
    path: "/api/keys/:id",
    summary: "Get an API key, with its daily usage and remaining limits",
    response: keyDetail,
    async run(context, { actor, params }) {
      const { db } = context.installation;
      await flushUsage(context);
      return buildDetail(context, await ownKey(db, actor, params.id));
    },
  }),

  "keys.edit": forUsers({
    ...byId,
    tokenScope: "keys",
    method: "PATCH",
    path: "/api/keys/:id",
    summary: "Update a key's name, expiry, limits, request policy or fallback; omitted fields are unchanged",
    body: z.strictObject({
      name: nameField.optional(),
      expires_at: expiresAt.optional(),
      /** The complete limits: omitted ones are removed. */
      limits: limitsInput.optional(),
      request_policy: requestPolicy.optional(),
      fallback: fallback.optional(),
    }),
    response: keyResponse,
    async run(context, input) {
      const { actor, params, body } = input;
      const key = await ownKey(context.installation.db, actor, params.id);
      const edited = await editKey(context, input, key, {
        ...(body.name === undefined ? {} : { name: body.name }),
        ...(body.expires_at === undefined ? {} : { expiresAtMs: body.expires_at }),
        ...(body.limits === undefined ? {} : { limits: parseCallerLimits(body.limits) }),
        ...(body.request_policy === undefined ? {} : { requestPolicy: body.request_policy }),
        ...(body.fallback === undefined ? {} : { fallback: parseFallback(body.fallback) }),
      });
      return keyObject(context, edited);
    },
  }),

  "keys.rotate": forUsers({
    ...byId,
    tokenScope: "keys",
    method: "POST",
    path: "/api/keys/:id/rotate",
    summary: "Rotate the secret of a key; the old secret is valid until the overlap ends",
    body: z.strictObject({
      /** 0: the old secret stops working immediately. */
      overlap_ms: z.int().min(0).max(productLimits.rotationOverlapMsMax).default(DEFAULT_OVERLAP_MS),
    }),
    response: z.object({ key: keyResponse, secret: z.string(), old_secret_works_until_at: z.number() }),
    async run(context, input) {
      const key = await ownKey(context.installation.db, input.actor, input.params.id);
      const rotated = await rotate(context, input, key, input.body.overlap_ms);
      return {
        key: keyObject(context, rotated.key),
        secret: rotated.secret,
        old_secret_works_until_at: rotated.worksUntilMs,
      };
    },
  }),

  "keys.temporary_secret": forUsers({
    ...byId,
    method: "POST",
    path: "/api/keys/:id/temporary-secret",
    summary: "Create a temporary secret of your key. It works for 15 minutes, at most as long as the session",
    body: NO_FIELDS,
    response: z.object({ secret: z.string(), works_until_at: z.number() }),
    async run(context, input) {
      const key = await ownKey(context.installation.db, input.actor, input.params.id);
      const { secret, worksUntilMs } = await createTemporarySecret(context, input, key);
      return { secret, works_until_at: worksUntilMs };
    },
  }),

  "keys.revoke": forUsers({
    ...byId,
    tokenScope: "keys",
    method: "DELETE",
    path: "/api/keys/:id",
    summary: "Revoke a key permanently: requests with it are rejected when this call returns",
    response: z.object({
      /** False: it was already revoked. */
      revoked: z.boolean(),
      requests_last_day: z.number(),
    }),
    async run(context, input) {
      const { db } = context.installation;
      const key = await ownKey(db, input.actor, input.params.id);
      await flushUsage(context);
      const requests = await requestsLastDay(context, key);
      return { revoked: await revoke(context, input, key), requests_last_day: requests };
    },
  }),
};

async function requestsLastDay({ installation }: StoreContext, key: KeyRecord): Promise<number> {
  const totals = await keyTotals(installation.db, key.id, installation.clock.nowMs() - DAY_MS);
  return totals.requests + totals.refused;
}

async function buildDetail(context: PolicyContext, key: KeyRecord): Promise<z.input<typeof keyDetail>> {
  const { installation, gateway } = context;
  const { db, clock } = installation;
  const nowMs = clock.nowMs();
  const { firstDayMs, byKey } = await recentDays(db, [key.id], nowMs);
  const days = byKey.get(key.id) ?? [];
  const usageByDay = new Map(days.map((day) => [day.dayMs, day]));
  const cachedKey = gateway.policy.keys.get(key.id);
  const group = gateway.policy.snapshot().groups.get(key.groupId);
  const former = key.status === "active" ? await listFormerSecrets(db, key.id, nowMs) : [];
  const lastUsedAtMs = await readLastUse(db, key.id);
  const suspension = (await readSuspensions(db, [key.id])).get(key.id) ?? null;
  return {
    ...listedKeyObject(context, { ...key, lastUsedAtMs, suspension }, days, firstDayMs),
    first_day_at: firstDayMs,
    days: Array.from({ length: CHART_DAYS }, (_, i) => {
      const at = firstDayMs + i * DAY_MS;
      const day = usageByDay.get(at);
      return {
        at,
        requests: day?.requests ?? 0,
        failed: day?.failed ?? 0,
        refused: day?.refused ?? 0,
        cost: usdText(day?.costNano ?? 0n),
        charged: usdText(day?.chargedNano ?? 0n),
      };
    }),
    requests_last_day: await requestsLastDay(context, key),
    meters:
      cachedKey === undefined || group === undefined
        ? []
        : buildMeters(gateway.limiter, { key: cachedKey, group }, nowMs),
    former_secrets: former.map(({ last4, worksUntilMs }) => ({ last4, works_until_at: worksUntilMs })),
  };
}
