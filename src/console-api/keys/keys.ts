/** API keys, by their owners; administrators may name another user. */

import { z } from "zod";
import { limits as productLimits } from "../../config/product-limits.ts";
import { callerLimitsOf } from "../../config/schema/usage-limits.ts";
import { name } from "../../config/schema/words.ts";
import { usdText } from "../../money/nano.ts";
import type { KeyRecord } from "../../records.ts";
import { listKeyPage, readLastUse } from "../../store/policy/key-list.ts";
import { listFormerSecrets } from "../../store/policy/keys.ts";
import { keyTotals } from "../../store/usage/usage.ts";
import { DAY_MS } from "../../store/usage/usage-day.ts";
import { ownerOf, ownerQuery, ownKey } from "../auth/owner.ts";
import { requireVerified } from "../auth/verified-email.ts";
import type { ConsoleContext } from "../context.ts";
import { instantField } from "../forms/fields.ts";
import { limitsInput } from "../forms/limits-form.ts";
import { buildPage, cursorText, pageQuery, readCursor, searchQuery } from "../http/page.ts";
import { forUsers, TAKES_NOTHING } from "../http/route.ts";
import { flushUsage } from "../usage/flush-usage.ts";
import { createKey, editKey, revoke, rotate } from "./key-changes.ts";
import {
  DAYS_SHOWN,
  keyAnswer,
  keyObject,
  listedKeyAnswer,
  listedKeyObject,
  recentDays,
} from "./key-view.ts";
import { meterAnswer, metersOf } from "./meters.ts";

const byId = { ...TAKES_NOTHING, params: z.strictObject({ id: z.string() }) };
const keyCursor = z.tuple([z.number(), z.string()]);
const expiresAt = instantField.nullable();

const DEFAULT_OVERLAP_MS = DAY_MS;

const keyDetail = z.object({
  ...listedKeyAnswer.shape,
  /** The day that `requests_by_day` begins with. */
  first_day_at: z.number(),
  /** Day by day as well: what failed, what was refused, and what was paid. */
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
  /** Every limit that concerns it, and what is left; none of a key that does not work. */
  meters: z.array(meterAnswer),
  /** Secrets it had before it was rotated, as long as they work. */
  former_secrets: z.array(z.object({ last4: z.string(), works_until_at: z.number() })),
});

export const keyRoutes = {
  "keys.list": forUsers({
    ...TAKES_NOTHING,
    method: "GET",
    path: "/api/keys",
    summary: "List API keys, newest first, with usage of the last 30 days",
    query: z.strictObject({
      ...pageQuery,
      ...searchQuery,
      ...ownerQuery,
      /** Revoked ones are shown only when they are asked for. */
      status: z.enum(["active", "revoked", "all"]).default("active"),
    }),
    answer: buildPage(listedKeyAnswer),
    async run(control, { actor, query }) {
      const { db, clock } = control.installation;
      const owner = { userId: ownerOf(actor, query.user) };
      await flushUsage(control);
      const cursor = readCursor(query.after, keyCursor);
      const { keys, next } = await listKeyPage(
        db,
        {
          owner,
          ...(query.status === "all" ? {} : { status: query.status }),
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
        data: keys.map((key) => listedKeyObject(control, key, byKey.get(key.id) ?? [], firstDayMs)),
        next: next === null ? null : cursorText([next.createdAtMs, next.id]),
      };
    },
  }),

  "keys.create": forUsers({
    ...TAKES_NOTHING,
    tokenScope: "keys",
    method: "POST",
    path: "/api/keys",
    summary: "Create an API key. Its secret is returned only once",
    body: z.strictObject({
      name,
      /** The name of a group. */
      group: z.string(),
      expires_at: expiresAt.optional(),
      limits: limitsInput.optional(),
      /** Whose it is; left out, the asker's own. */
      user: z.string().optional(),
    }),
    adminFields: ["user"],
    answer: z.object({ key: keyAnswer, secret: z.string() }),
    async run(control, asked) {
      const { body, actor } = asked;
      await requireVerified(control, actor.userId);
      const { key, secret } = await createKey(control, asked, {
        userId: body.user ?? actor.userId,
        name: body.name,
        group: body.group,
        expiresAtMs: body.expires_at ?? null,
        limits: callerLimitsOf(body.limits),
      });
      return { key: keyObject(control, key), secret };
    },
  }),

  "keys.get": forUsers({
    ...byId,
    method: "GET",
    path: "/api/keys/:id",
    summary: "Get an API key, with its daily usage and remaining limits",
    answer: keyDetail,
    async run(control, { actor, params }) {
      const { db } = control.installation;
      await flushUsage(control);
      return detailOf(control, await ownKey(db, actor, params.id));
    },
  }),

  "keys.edit": forUsers({
    ...byId,
    tokenScope: "keys",
    method: "PATCH",
    path: "/api/keys/:id",
    summary: "Update a key's name, expiry or limits; omitted fields are unchanged",
    body: z.strictObject({
      name: name.optional(),
      expires_at: expiresAt.optional(),
      /** All of them: those that are left out are taken away. */
      limits: limitsInput.optional(),
    }),
    answer: keyAnswer,
    async run(control, asked) {
      const { actor, params, body } = asked;
      const key = await ownKey(control.installation.db, actor, params.id);
      const edited = await editKey(control, asked, key, {
        ...(body.name === undefined ? {} : { name: body.name }),
        ...(body.expires_at === undefined ? {} : { expiresAtMs: body.expires_at }),
        ...(body.limits === undefined ? {} : { limits: callerLimitsOf(body.limits) }),
      });
      return keyObject(control, edited);
    },
  }),

  "keys.rotate": forUsers({
    ...byId,
    tokenScope: "keys",
    method: "POST",
    path: "/api/keys/:id/rotate",
    summary: "Rotate the secret of a key; the old secret is valid until the overlap ends",
    body: z.strictObject({
      /** 0: the old secret ends at once. */
      overlap_ms: z.int().min(0).max(productLimits.rotationOverlapMsMax).default(DEFAULT_OVERLAP_MS),
    }),
    answer: z.object({ key: keyAnswer, secret: z.string(), old_secret_works_until_at: z.number() }),
    async run(control, asked) {
      const key = await ownKey(control.installation.db, asked.actor, asked.params.id);
      const rotated = await rotate(control, asked, key, asked.body.overlap_ms);
      return {
        key: keyObject(control, rotated.key),
        secret: rotated.secret,
        old_secret_works_until_at: rotated.worksUntilMs,
      };
    },
  }),

  "keys.revoke": forUsers({
    ...byId,
    tokenScope: "keys",
    method: "DELETE",
    path: "/api/keys/:id",
    summary: "Revoke a key permanently: requests with it are rejected when this call returns",
    answer: z.object({
      /** False: it was revoked before. */
      revoked: z.boolean(),
      requests_last_day: z.number(),
    }),
    async run(control, asked) {
      const { db } = control.installation;
      const key = await ownKey(db, asked.actor, asked.params.id);
      await flushUsage(control);
      const requests = await requestsLastDay(control, key);
      return { revoked: await revoke(control, asked, key), requests_last_day: requests };
    },
  }),
};

async function requestsLastDay({ installation }: ConsoleContext, key: KeyRecord): Promise<number> {
  const totals = await keyTotals(installation.db, key.id, installation.clock.nowMs() - DAY_MS);
  return totals.requests + totals.refused;
}

async function detailOf(control: ConsoleContext, key: KeyRecord): Promise<z.input<typeof keyDetail>> {
  const { installation, gateway } = control;
  const { db, clock } = installation;
  const nowMs = clock.nowMs();
  const { firstDayMs, byKey } = await recentDays(db, [key.id], nowMs);
  const days = byKey.get(key.id) ?? [];
  const used = new Map(days.map((day) => [day.dayMs, day]));
  const live = gateway.policy.keys.get(key.id);
  const group = gateway.policy.snapshot().groups.get(key.groupId);
  const former = key.status === "active" ? await listFormerSecrets(db, key.id, nowMs) : [];
  const lastUsedAtMs = await readLastUse(db, key.id);
  return {
    ...listedKeyObject(control, { ...key, lastUsedAtMs }, days, firstDayMs),
    first_day_at: firstDayMs,
    days: Array.from({ length: DAYS_SHOWN }, (_, i) => {
      const at = firstDayMs + i * DAY_MS;
      const day = used.get(at);
      return {
        at,
        requests: day?.requests ?? 0,
        failed: day?.failed ?? 0,
        refused: day?.refused ?? 0,
        cost: usdText(day?.costNano ?? 0n),
        charged: usdText(day?.chargedNano ?? 0n),
      };
    }),
    requests_last_day: await requestsLastDay(control, key),
    meters:
      live === undefined || group === undefined ? [] : metersOf(gateway.limiter, { key: live, group }, nowMs),
    former_secrets: former.map(({ last4, worksUntilMs }) => ({ last4, works_until_at: worksUntilMs })),
  };
}
