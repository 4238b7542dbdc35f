/** Routes for personal access tokens, which programs send instead of a cookie. */

import { z } from "zod";
import { instantText } from "../../base/time.ts";
import { limits } from "../../config/limits/product-limits.ts";
import { ApiError, paramError } from "../../errors.ts";
import { mintAccessToken } from "../../secrets/random-secret.ts";
import { transaction } from "../../store/engine/db.ts";
import {
  type AccessTokenRecord,
  deleteAccessToken,
  insertAccessToken,
  listAccessTokens,
  needsAdmin,
  TOKEN_SCOPES,
} from "../../store/identity/access-tokens.ts";
import { recordChange } from "../changes/audit-log-entry.ts";
import { instantField, nameField } from "../forms/fields.ts";
import { fieldError } from "../http/field-error.ts";
import { forUsers, NO_FIELDS } from "../http/route.ts";
import { requireLiveActor } from "./actor.ts";

const tokenResponse = z.object({
  id: z.string(),
  name: z.string(),
  last4: z.string(),
  scope: z.enum(TOKEN_SCOPES),
  created_at: z.number(),
  expires_at: z.number().nullable(),
  used_at: z.number().nullable(),
});

export const tokenRoutes = {
  "tokens.list": forUsers({
    method: "GET",
    path: "/api/tokens",
    summary: "List your personal access tokens, newest first",
    response: z.object({ data: z.array(tokenResponse), next: z.null() }),
    async run({ installation }, { actor }) {
      const tokens = await listAccessTokens(installation.db, actor.userId);
      return { data: tokens.map(tokenObject), next: null };
    },
  }),

  "tokens.create": forUsers({
    method: "POST",
    path: "/api/tokens",
    summary: "Create a personal access token. Its secret is returned only once",
    body: z.strictObject({
      name: nameField,
      /** `admin` and `export` require an administrator, and work as long as their owner is one. */
      scope: z.enum(TOKEN_SCOPES).default("read"),
      /** Epoch milliseconds; null for a token that does not expire. */
      expires_at: instantField.nullable(),
    }),
    tokenScope: "none",
    response: tokenResponse.extend({ secret: z.string() }),
    async run({ installation }, input) {
      const { db, clock, newId, randomBytes } = installation;
      const { name, scope, expires_at: expiresAtMs } = input.body;
      const atMs = clock.nowMs();
      if (expiresAtMs !== null && expiresAtMs <= atMs) {
        throw fieldError("expires_at", "invalid_value", "must be in the future");
      }
      if (needsAdmin(scope) && input.actor.role !== "admin") {
        throw paramError(
          "scope",
          "forbidden",
          `Only administrators may create a token with the scope \`${scope}\`.`,
        );
      }
      const { secret, digest } = mintAccessToken(randomBytes);
      const token: AccessTokenRecord = {
        id: newId("pat"),
        userId: input.actor.userId,
        name,
        last4: secret.slice(-4),
        scope,
        createdAtMs: atMs,
        expiresAtMs,
        usedAtMs: null,
      };
      await transaction(db, async (tx) => {
        await requireLiveActor(tx, input.actor);
        if ((await listAccessTokens(tx, token.userId)).length >= limits.accessTokensMax) {
          throw new ApiError(
            "conflict",
            `You already have ${limits.accessTokensMax} tokens, which is the maximum. Revoke an unused token.`,
          );
        }
        await insertAccessToken(tx, token, digest);
        const changes = [
          { field: "scope", from: null, to: scope },
          { field: "expires", from: null, to: instantText(expiresAtMs) },
        ];
        await recordChange(tx, input, { atMs, action: "token.create", target: `token ${name}`, changes });
      });
      return { ...tokenObject(token), secret };
    },
  }),

  "tokens.revoke": forUsers({
    method: "DELETE",
    path: "/api/tokens/:id",
    summary: "Revoke a personal access token",
    params: z.strictObject({ id: z.string() }),
    response: NO_FIELDS,
    async run({ installation }, input) {
      const { db, clock } = installation;
      await transaction(db, async (tx) => {
        const deleted = await deleteAccessToken(tx, input.actor.userId, input.params.id);
        if (deleted === null) throw new ApiError("not_found", "You have no such token.");
        const target = `token ${deleted.name}`;
        const changes = [{ field: "scope", from: deleted.scope, to: null }];
        await recordChange(tx, input, { atMs: clock.nowMs(), action: "token.revoke", target, changes });
      });
      return {};
    },
  }),
};

function tokenObject(token: AccessTokenRecord): z.input<typeof tokenResponse> {
  return {
    id: token.id,
    name: token.name,
    last4: token.last4,
    scope: token.scope,
    created_at: token.createdAtMs,
    expires_at: token.expiresAtMs,
    used_at: token.usedAtMs,
  };
}
