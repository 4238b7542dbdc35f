/** Routes for the second factor: an authenticator app, and recovery codes in case it is lost. */

import { z } from "zod";
import { ApiError } from "../../errors.ts";
import { mintRecoveryCode, recoveryCodeSecret } from "../../secrets/recovery-code.ts";
import { seal, totpBinding } from "../../secrets/seal.ts";
import { mintTotpSecret, otpauthUrl } from "../../secrets/totp.ts";
import { transaction } from "../../store/engine/db.ts";
import {
  beginSecondFactor,
  type Credentials,
  confirmSecondFactor,
} from "../../store/identity/credentials.ts";
import { deleteSessions } from "../../store/identity/sessions.ts";
import { findUser } from "../../store/identity/users.ts";
import { auditLogActor, recordChange } from "../changes/audit-log-entry.ts";
import type { StoreContext } from "../context.ts";
import { codeField, passwordField } from "../forms/fields.ts";
import { forAdmins, forUsers, NO_FIELDS } from "../http/route.ts";
import { requireLiveActor } from "./actor.ts";
import { dropSecondFactor } from "./remove-second-factor.ts";
import { beginSession, withCookie } from "./session.ts";
import {
  isRightCode,
  lookUpCredentials,
  requireBothFactors,
  requirePassword,
  wrongCodeError,
} from "./verify-credentials.ts";

const ISSUER = "Model Gateway";
const RECOVERY_CODES = 10;

const proofFields = { password: passwordField.optional(), code: codeField.optional() };
const codesResponse = z.object({ recovery_codes: z.array(z.string()) });

export const secondFactorRoutes = {
  "second_factor.read": forUsers({
    method: "GET",
    path: "/api/second-factor",
    summary: "Get the state of your two-factor authentication, and the number of remaining recovery codes",
    response: z.object({ since: z.number().nullable(), recovery_codes_left: z.number() }),
    async run(context, { actor }) {
      const { secondFactor, recoveryDigests } = await lookUpCredentials(context, actor);
      return { since: secondFactor?.sinceMs ?? null, recovery_codes_left: recoveryDigests.length };
    },
  }),

  "second_factor.begin": forUsers({
    method: "POST",
    path: "/api/second-factor",
    summary: "Create a secret for an authenticator app. It is active after a code of it is confirmed",
    body: z.strictObject(proofFields),
    tokenScope: "none",
    response: z.object({ secret: z.string(), otpauth_url: z.string() }),
    async run(context, input) {
      const { installation } = context;
      const { userId, email, secondFactor } = await requirePassword(context, input.actor, input.body);
      if (secondFactor !== null && secondFactor.sinceMs !== null) throw alreadyOnError();
      const secret = mintTotpSecret(installation.randomBytes);
      const sealed = seal(installation.keyring, totpBinding(userId), secret, installation.randomBytes);
      if (!(await beginSecondFactor(installation.db, userId, sealed))) throw alreadyOnError();
      return { secret, otpauth_url: otpauthUrl(secret, { issuer: ISSUER, account: email }) };
    },
  }),

  "second_factor.confirm": forUsers({
    method: "POST",
    path: "/api/second-factor/confirm",
    summary: "Enable two-factor authentication with a code. All other sessions are signed out",
    body: z.strictObject({ code: codeField }),
    tokenScope: "none",
    response: codesResponse,
    async run(context, input) {
      const { installation, identity } = context;
      const credentials = await lookUpCredentials(context, input.actor);
      const { userId, email, secondFactor } = credentials;
      if (secondFactor === null) throw setupNotStartedError();
      if (secondFactor.sinceMs !== null) throw alreadyOnError();
      await identity.attempts.forVerifiedCaller(`session of ${userId}`, async () => {
        if (!(await isRightCode(context, credentials, input.body.code))) throw wrongCodeError();
      });
      const codes = createRecoveryCodes(context, userId);
      const atMs = installation.clock.nowMs();
      const cookie = await transaction(installation.db, async (tx) => {
        const { sealedSecret } = secondFactor;
        const isDone = await confirmSecondFactor(tx, userId, { sealedSecret, sinceMs: atMs }, codes.digests);
        if (!isDone) throw setupNotStartedError();
        await requireLiveActor(tx, input.actor);
        await deleteSessions(tx, userId, null);
        const newCookie = await beginSession(tx, installation, input, userId);
        const changes = [{ field: "second_factor", from: "off", to: "on" }];
        const target = `user ${email}`;
        await recordChange(tx, input, { atMs, action: "second_factor.confirm", target, changes });
        return newCookie;
      });
      return withCookie({ recovery_codes: codes.shown }, cookie);
    },
  }),

  "second_factor.remove": forUsers({
    method: "DELETE",
    path: "/api/second-factor",
    summary:
      "Disable two-factor authentication, with the password and a code. All other sessions are signed out",
    body: z.strictObject(proofFields),
    tokenScope: "none",
    response: NO_FIELDS,
    async run(context, input) {
      const { installation } = context;
      const { userId, email } = await requireBothFactors(context, input);
      const cookie = await transaction(installation.db, async (tx) => {
        await requireLiveActor(tx, input.actor);
        await deleteSessions(tx, userId, null);
        const newCookie = await beginSession(tx, installation, input, userId);
        const by = { actor: auditLogActor(input.actor), address: input.clientAddress };
        if (!(await dropSecondFactor(tx, installation, { id: userId, email }, by))) throw notOnError();
        return newCookie;
      });
      return withCookie({}, cookie);
    },
  }),

  "recovery_codes.create": forUsers({
    method: "POST",
    path: "/api/recovery-codes",
    summary: "Create ten new recovery codes, with the password and a code; the old codes stop working",
    body: z.strictObject(proofFields),
    tokenScope: "none",
    response: codesResponse,
    async run(context, input) {
      const { installation } = context;
      const { userId, email, secondFactor, recoveryDigests } = await requireBothFactors(context, input);
      if (secondFactor === null || secondFactor.sinceMs === null) throw notOnError();
      const { sealedSecret, sinceMs } = secondFactor;
      const codes = createRecoveryCodes(context, userId);
      const atMs = installation.clock.nowMs();
      await transaction(installation.db, async (tx) => {
        if (!(await confirmSecondFactor(tx, userId, { sealedSecret, sinceMs }, codes.digests)))
          throw notOnError();
        const changes = [
          { field: "recovery_codes", from: String(recoveryDigests.length), to: String(RECOVERY_CODES) },
        ];
        const target = `user ${email}`;
        await recordChange(tx, input, { atMs, action: "recovery_codes.create", target, changes });
      });
      return { recovery_codes: codes.shown };
    },
  }),

  "admin.users.remove_second_factor": forAdmins({
    method: "DELETE",
    path: "/api/admin/users/:id/second-factor",
    summary: "Disable two-factor authentication for a user who has lost access to it",
    params: z.strictObject({ id: z.string() }),
    tokenScope: "none",
    response: NO_FIELDS,
    async run({ installation }, input) {
      await transaction(installation.db, async (tx) => {
        const user = await findUser(tx, input.params.id);
        if (user === null) throw new ApiError("not_found", "This user does not exist.");
        const by = { actor: auditLogActor(input.actor), address: input.clientAddress };
        if (!(await dropSecondFactor(tx, installation, user, by))) throw notOnError();
      });
      return {};
    },
  }),
};

function createRecoveryCodes({ installation }: StoreContext, userId: Credentials["userId"]) {
  const shown = Array.from({ length: RECOVERY_CODES }, () => mintRecoveryCode(installation.randomBytes));
  return { shown, digests: shown.map((code) => installation.digest(recoveryCodeSecret(userId, code))) };
}

function setupNotStartedError(): ApiError {
  return new ApiError("conflict", "The setup has expired or was replaced by a newer one. Start again.");
}

function alreadyOnError(): ApiError {
  return new ApiError(
    "conflict",
    "Two-factor authentication is already enabled. Disable it first to change the app.",
  );
}

function notOnError(): ApiError {
  return new ApiError("conflict", "Two-factor authentication is disabled.");
}
