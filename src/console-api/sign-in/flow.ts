/**
 * A sign-in at a provider between its start and the return of the browser. Its secrets are in a sealed cookie, so that
 * the browser may return to another node, and no other browser can complete it.
 */

import { z } from "zod";
import type { Installation } from "../../config/installation/installation.ts";
import { limits } from "../../config/limits/product-limits.ts";
import { ApiError } from "../../errors.ts";
import type { HeaderReader } from "../../net/wire/http-fields.ts";
import { SealError, SIGN_IN_COOKIE_BINDING, seal, unseal } from "../../secrets/seal.ts";
import { presentedSignIn, signInCookie } from "../http/cookies.ts";

const SECRET_BYTES = 32;

const flowSchema = z.object({
  /** The provider at the start. A flow does not continue with another issuer or client. */
  provider: z.string(),
  issuer: z.string(),
  clientId: z.string(),
  state: z.string(),
  nonce: z.string(),
  codeVerifier: z.string(),
  /** The page of the console that follows. */
  next: z.string(),
  /** The signed-in user who links a person to the own account; null for a sign-in. */
  linkUserId: z.string().nullable(),
  /** The signed-in user who confirms an operation; null for a sign-in. */
  confirmUserId: z.string().nullable().default(null),
  expiresAtMs: z.number(),
});
export type SignInFlow = z.output<typeof flowSchema>;

export function beginFlow(
  { clock, randomBytes }: Pick<Installation, "clock" | "randomBytes">,
  start: Pick<SignInFlow, "provider" | "issuer" | "clientId" | "next" | "linkUserId" | "confirmUserId">,
): SignInFlow {
  const secret = () => Buffer.from(randomBytes(SECRET_BYTES)).toString("base64url");
  const expiresAtMs = clock.nowMs() + limits.companySignIn.flowMs;
  return { ...start, state: secret(), nonce: secret(), codeVerifier: secret(), expiresAtMs };
}

export function flowCookie(
  { keyring, randomBytes }: Pick<Installation, "keyring" | "randomBytes">,
  flow: SignInFlow,
): string {
  const sealed = seal(keyring, SIGN_IN_COOKIE_BINDING, JSON.stringify(flow), randomBytes);
  return signInCookie(sealed, limits.companySignIn.flowMs);
}

/** Throws `sign_in_expired` if the browser has no cookie, or one that is too old or that this node cannot read. */
export function readFlow(
  { keyring, clock }: Pick<Installation, "keyring" | "clock">,
  headers: HeaderReader,
): SignInFlow {
  const sealed = presentedSignIn(headers);
  if (sealed === null || sealed === "") throw signInExpiredError();
  let flow: SignInFlow;
  try {
    flow = flowSchema.parse(JSON.parse(unseal(keyring, SIGN_IN_COOKIE_BINDING, sealed)));
  } catch (error) {
    if (error instanceof SealError || error instanceof z.ZodError) throw signInExpiredError();
    throw error;
  }
  if (flow.expiresAtMs <= clock.nowMs()) throw signInExpiredError();
  return flow;
}

export function signInExpiredError(): ApiError {
  return new ApiError("sign_in_expired", "Sign-in expired. Start again.");
}
