/** Routes with which administrators manage service accounts and their tokens. */

import { z } from "zod";
import { DAY_MS, instantText } from "../../base/time.ts";
import { limits } from "../../config/limits/product-limits.ts";
import { issueServiceToken } from "../../config/plan/issue-service-token.ts";
import { serviceAccountTitle } from "../../config/plan/plan-service-accounts.ts";
import { ApiError } from "../../errors.ts";
import { usdText } from "../../money/nano.ts";
import { SERVICE_SCOPES, type ServiceAccountRecord } from "../../records/service-account.ts";
import { type Db, transaction } from "../../store/engine/db.ts";
import {
  listServiceAccounts,
  readTopUpDay,
  readTopUpDayStart,
} from "../../store/identity/service-accounts.ts";
import {
  deleteServiceTokens,
  listServiceTokens,
  type ServiceTokenRecord,
} from "../../store/identity/service-tokens.ts";
import { requireLiveActor } from "../auth/actor.ts";
import { recordChange } from "../changes/audit-log-entry.ts";
import { changePolicy } from "../changes/change.ts";
import { instantField, nameField, windowUsdField } from "../forms/fields.ts";
import { namedPage } from "../http/named-page.ts";
import { buildPage, pageQuery, searchQuery } from "../http/page.ts";
import { forAdmins, NO_FIELDS } from "../http/route.ts";

const boundsField = z.strictObject({ usd_per_call: windowUsdField, usd_per_day: windowUsdField });

const accountResponse = z.object({
  id: z.string(),
  name: z.string(),
  scopes: z.array(z.enum(SERVICE_SCOPES)),
  /** Null without the scope `wallet.top_up`. */
  bounds: z.object({ usd_per_call: z.string(), usd_per_day: z.string() }).nullable(),
  /** What it has topped up today (UTC), in USD. */
  topped_up_today: z.string(),
  expires_at: z.number().nullable(),
  created_at: z.number(),
  /** Tokens that work, newest first. */
  tokens: z.array(
    z.object({
      last4: z.string(),
      created_at: z.number(),
      /** When a token ends that was replaced; null for the newest. */
      works_until_at: z.number().nullable(),
      used_at: z.number().nullable(),
    }),
  ),
});

const byName = { params: z.strictObject({ name: nameField }) };

export const adminServiceAccountRoutes = {
  "admin.service_accounts.list": forAdmins({
    method: "GET",
    path: "/api/admin/service-accounts",
    summary: "List service accounts by name, with their tokens and the top-ups of today",
    query: z.strictObject({ ...pageQuery, ...searchQuery }),
    response: buildPage(accountResponse),
    async run({ installation: { db, clock } }, { query }) {
      const { page, next } = namedPage(await listServiceAccounts(db), ({ name }) => name, query);
      return { data: await accountObjects(db, page, clock.nowMs()), next };
    },
  }),

  "admin.service_accounts.save": forAdmins({
    ...byName,
    method: "PUT",
    path: "/api/admin/service-accounts/:name",
    summary: "Create or update a service account. Create its token with a second request",
    body: z.strictObject({
      scopes: z.array(z.enum(SERVICE_SCOPES)),
      /** Required with `wallet.top_up`; otherwise null. */
      bounds: boundsField.nullable().default(null),
      /** Null: never. */
      expires_at: instantField.nullable().default(null),
    }),
    // A token could give itself scopes that it does not have.
    tokenScope: "none",
    response: accountResponse,
    async run(context, input) {
      const { name } = input.params;
      const { scopes, bounds, expires_at } = input.body;
      const expires = instantText(expires_at);
      await changePolicy(context, input, {
        service_accounts: [
          { name, scopes, ...(bounds === null ? {} : { bounds }), ...(expires === null ? {} : { expires }) },
        ],
      });
      const { db, clock } = context.installation;
      const [saved] = await accountObjects(db, [await requireAccount(db, name)], clock.nowMs());
      if (saved === undefined) throw unknownAccountError();
      return saved;
    },
  }),

  "admin.service_accounts.delete": forAdmins({
    ...byName,
    method: "DELETE",
    path: "/api/admin/service-accounts/:name",
    summary: "Delete a service account. Its tokens are rejected at once",
    response: NO_FIELDS,
    async run(context, input) {
      await changePolicy(context, input, {}, { service_accounts: [input.params.name] });
      return {};
    },
  }),

  "admin.service_accounts.create_token": forAdmins({
    ...byName,
    method: "POST",
    path: "/api/admin/service-accounts/:name/tokens",
    summary:
      "Create a token of a service account; earlier tokens work until the overlap ends. The secret is returned only once",
    body: z.strictObject({
      overlap_ms: z.int().min(0).max(limits.rotationOverlapMsMax).default(DAY_MS),
    }),
    tokenScope: "none",
    response: z.object({ secret: z.string() }),
    async run({ installation }, input) {
      return transaction(installation.db, async (tx) => {
        await requireLiveActor(tx, input.actor);
        const account = await requireAccount(tx, input.params.name);
        const overlapMs = input.body.overlap_ms;
        const { secret, changes } = await issueServiceToken(tx, installation, { account, overlapMs });
        const target = serviceAccountTitle(account.name);
        const atMs = installation.clock.nowMs();
        const action = "service_account.create_token";
        await recordChange(tx, input, { atMs, action, target, changes });
        return { secret };
      });
    },
  }),

  "admin.service_accounts.revoke_tokens": forAdmins({
    ...byName,
    method: "DELETE",
    path: "/api/admin/service-accounts/:name/tokens",
    summary: "Revoke all tokens of a service account",
    response: z.object({ revoked: z.number() }),
    async run({ installation: { db, clock } }, input) {
      return transaction(db, async (tx) => {
        const account = await requireAccount(tx, input.params.name);
        const revoked = await deleteServiceTokens(tx, account.id);
        const target = serviceAccountTitle(account.name);
        const changes = [{ field: "tokens", from: String(revoked), to: "0" }];
        const action = "service_account.revoke_tokens";
        await recordChange(tx, input, { atMs: clock.nowMs(), action, target, changes });
        return { revoked };
      });
    },
  }),
};

async function requireAccount(db: Db, name: string): Promise<ServiceAccountRecord> {
  const account = (await listServiceAccounts(db)).find((one) => one.name === name);
  if (account === undefined) throw unknownAccountError();
  return account;
}

function unknownAccountError(): ApiError {
  return new ApiError(
    "not_found",
    "This service account does not exist. GET /api/admin/service-accounts lists them.",
  );
}

async function accountObjects(
  db: Db,
  accounts: readonly ServiceAccountRecord[],
  nowMs: number,
): Promise<z.input<typeof accountResponse>[]> {
  const ids = accounts.map(({ id }) => id);
  const tokens = Map.groupBy(await listServiceTokens(db, ids, nowMs), (token) => token.serviceAccountId);
  const toppedUp = await readTopUpDay(db, await readTopUpDayStart(db, nowMs));
  return accounts.map(({ id, name, scopes, bounds, expiresAtMs, createdAtMs }) => ({
    id,
    name,
    scopes: [...scopes],
    bounds: bounds && { usd_per_call: usdText(bounds.callNano), usd_per_day: usdText(bounds.dayNano) },
    topped_up_today: usdText(toppedUp.get(id) ?? 0n),
    expires_at: expiresAtMs,
    created_at: createdAtMs,
    tokens: (tokens.get(id) ?? []).map(tokenObject),
  }));
}

function tokenObject({ last4, createdAtMs, worksUntilMs, usedAtMs }: ServiceTokenRecord) {
  return { last4, created_at: createdAtMs, works_until_at: worksUntilMs, used_at: usedAtMs };
}
