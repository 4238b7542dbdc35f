/**
 * The confirmation of an operation by people who sign in at a provider: a new sign-in there stands for the password. It is
 * a sealed cookie for one session, so that every node reads it.
 */

import { z } from "zod";
import type { Installation } from "../../config/installation/installation.ts";
import { limits } from "../../config/limits/product-limits.ts";
import { ApiError } from "../../errors.ts";
import type { HeaderReader } from "../../net/wire/http-fields.ts";
import { CONFIRMATION_COOKIE_BINDING, SealError, seal, unseal } from "../../secrets/seal.ts";
import { confirmationCookie, presentedConfirmation } from "../http/cookies.ts";
import type { Actor } from "../http/route.ts";

const confirmationSchema = z.object({ sessionId: z.string(), expiresAtMs: z.number() });

export function confirmSession(
  { clock, keyring, randomBytes }: Pick<Installation, "clock" | "keyring" | "randomBytes">,
  actor: Actor,
): string {
  const { confirmationMs } = limits.companySignIn;
  const confirmation = { sessionId: actor.via.id, expiresAtMs: clock.nowMs() + confirmationMs };
  const text = JSON.stringify(confirmation);
  return confirmationCookie(seal(keyring, CONFIRMATION_COOKIE_BINDING, text, randomBytes), confirmationMs);
}

export function requireConfirmation(
  installation: Pick<Installation, "clock" | "keyring">,
  { actor, headers }: { actor: Actor; headers: HeaderReader },
  provider: string,
): void {
  if (isConfirmed(installation, actor, headers)) return;
  throw new ApiError("confirmation_required", `Sign in at ${provider} again to confirm this operation.`);
}

function isConfirmed(
  { clock, keyring }: Pick<Installation, "clock" | "keyring">,
  { via }: Actor,
  headers: HeaderReader,
): boolean {
  const sealed = presentedConfirmation(headers);
  if (sealed === null || sealed === "") return false;
  try {
    const text = unseal(keyring, CONFIRMATION_COOKIE_BINDING, sealed);
    const { sessionId, expiresAtMs } = confirmationSchema.parse(JSON.parse(text));
    return via.kind === "session" && via.id === sessionId && expiresAtMs > clock.nowMs();
  } catch (error) {
    if (error instanceof SealError || error instanceof z.ZodError) return false;
    throw error;
  }
}
