/** Verifies credentials: the password, and a code of the second factor. */

import { ApiError, paramError } from "../../errors.ts";
import type { HeaderReader } from "../../net/wire/http-fields.ts";
import { recoveryCodeSecret } from "../../secrets/recovery-code.ts";
import { totpBinding, unseal } from "../../secrets/seal.ts";
import { findTotpStep, isTotpCode } from "../../secrets/totp.ts";
import {
  type Credentials,
  findCredentials,
  takeRecoveryCode,
  takeTotpStep,
} from "../../store/identity/credentials.ts";
import type { ConsoleContext, IdentityContext, StoreContext } from "../context.ts";
import type { Actor } from "../http/route.ts";
import { requireConfirmation } from "./confirmation.ts";

/** Checks a code of an authenticator app or a recovery code. Each code works once. */
export async function isRightCode(
  { installation }: StoreContext,
  { userId, secondFactor }: Credentials,
  code: string,
): Promise<boolean> {
  const { db, keyring, clock, digest } = installation;
  if (secondFactor === null) return false;
  if (!isTotpCode(code)) return takeRecoveryCode(db, userId, digest(recoveryCodeSecret(userId, code)));
  const secret = unseal(keyring, totpBinding(userId), secondFactor.sealedSecret);
  const step = findTotpStep(secret, code, clock.nowMs());
  return step !== null && takeTotpStep(db, userId, step);
}

export function wrongCodeError(): ApiError {
  return paramError(
    "code",
    "wrong_credentials",
    "The code is incorrect or was already used. Wait for the next code, or use a recovery code.",
  );
}

export async function lookUpCredentials(
  { installation }: StoreContext,
  { userId }: Actor,
): Promise<Credentials> {
  const found = await findCredentials(installation.db, userId);
  if (found === null) throw new ApiError("sign_in_required", "This account no longer exists.");
  return found;
}

interface PresentedFactors {
  password?: string | undefined;
  code?: string | undefined;
}

/**
 * Requires the password again, so that an unattended browser cannot be used for this operation; or a code if
 * there is no password. A user with neither signed in by a link and passes.
 */
export async function requirePassword(
  context: IdentityContext,
  actor: Actor,
  presented: PresentedFactors,
): Promise<Credentials> {
  const credentials = await lookUpCredentials(context, actor);
  rejectExternal(credentials);
  if (credentials.passwordHash !== null) await verifyPassword(context, credentials, presented);
  else if (needsCode(credentials)) await verifyCode(context, credentials, presented);
  return credentials;
}

/** A password of a person whom a provider signs in would still work after the provider has ended the access. */
function rejectExternal({ provider }: Credentials): void {
  if (provider === null) return;
  throw new ApiError(
    "conflict",
    `You sign in at ${provider}, which manages your password and second factor. Change them there.`,
  );
}

/**
 * Requires both factors, before an operation after which the password alone would be sufficient. People of a provider
 * confirm it there.
 */
export async function requireBothFactors(
  context: IdentityContext,
  input: { actor: Actor; headers: HeaderReader; body: PresentedFactors },
): Promise<Credentials> {
  const { actor, body: presented } = input;
  const credentials = await lookUpCredentials(context, actor);
  if (credentials.provider !== null) {
    requireConfirmation(context.installation, input, credentials.provider);
    return credentials;
  }
  if (credentials.passwordHash !== null) await verifyPassword(context, credentials, presented);
  if (needsCode(credentials)) await verifyCode(context, credentials, presented);
  return credentials;
}

/** A second factor that is not active yet requires no code. */
export function needsCode({ secondFactor }: Credentials): boolean {
  return secondFactor !== null && secondFactor.sinceMs !== null;
}

async function verifyPassword(
  { identity: { attempts, passwords } }: Pick<ConsoleContext, "identity">,
  { userId, passwordHash }: Credentials,
  { password = "" }: PresentedFactors,
): Promise<void> {
  await attempts.forVerifiedCaller(`session of ${userId}`, async () => {
    if (await passwords.verify(password, passwordHash)) return;
    throw paramError("password", "wrong_credentials", "The password is incorrect.");
  });
}

async function verifyCode(
  context: IdentityContext,
  credentials: Credentials,
  { code }: PresentedFactors,
): Promise<void> {
  if (code === undefined) {
    throw paramError(
      "code",
      "second_factor_required",
      "Enter the code from your authenticator app, or a recovery code.",
    );
  }
  await context.identity.attempts.forVerifiedCaller(`session of ${credentials.userId}`, async () => {
    if (!(await isRightCode(context, credentials, code))) throw wrongCodeError();
  });
}
