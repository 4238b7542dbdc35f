/**
 * A person of a provider whose address belongs to an account that is not linked. The person is in a sealed cookie until the
 * owner of the account proves the ownership, so that any node can link it, and no other browser.
 */

import { z } from "zod";
import type { Installation } from "../../config/installation/installation.ts";
import { limits } from "../../config/limits/product-limits.ts";
import type { HeaderReader } from "../../net/wire/http-fields.ts";
import type { Person } from "../../openid/claims.ts";
import { ROLES } from "../../records/user.ts";
import { PENDING_LINK_COOKIE_BINDING, SealError, seal, unseal } from "../../secrets/seal.ts";
import { pendingLinkCookie, presentedPendingLink } from "../http/cookies.ts";
import { signInExpiredError } from "./flow.ts";

const STATE_BYTES = 32;

const pendingLinkSchema = z.object({
  /** Its digest is stored when the account is linked: the cookie works once on all nodes. */
  state: z.string(),
  /** The provider at the sign-in. Another issuer or client of this name links nothing. */
  provider: z.string(),
  issuer: z.string(),
  clientId: z.string(),
  /** As the provider has verified it. */
  person: z.object({
    issuer: z.string(),
    subject: z.string(),
    email: z.string(),
    role: z.enum(ROLES).nullable(),
    groups: z.array(z.string()),
  }),
  /** The user who has the address. */
  userId: z.string(),
  /** The page of the console that follows. */
  next: z.string(),
  /** The digest of the token of the last mailed link; null if none was requested. */
  mailDigest: z.string().nullable(),
  expiresAtMs: z.number(),
});
export type PendingLink = z.output<typeof pendingLinkSchema>;

export function beginPendingLink(
  { clock, randomBytes }: Pick<Installation, "clock" | "randomBytes">,
  start: Pick<PendingLink, "provider" | "issuer" | "clientId" | "userId" | "next"> & { person: Person },
): PendingLink {
  const state = Buffer.from(randomBytes(STATE_BYTES)).toString("base64url");
  const expiresAtMs = clock.nowMs() + limits.companySignIn.pendingLinkMs;
  const person = { ...start.person, groups: [...start.person.groups] };
  return { ...start, person, state, mailDigest: null, expiresAtMs };
}

/** Null if the cookie would be too long for a browser. */
export function pendingCookie(
  { keyring, clock, randomBytes }: Pick<Installation, "keyring" | "clock" | "randomBytes">,
  pending: PendingLink,
): string | null {
  const sealed = seal(keyring, PENDING_LINK_COOKIE_BINDING, JSON.stringify(pending), randomBytes);
  if (sealed.length > limits.companySignIn.pendingLinkCharsMax) return null;
  return pendingLinkCookie(sealed, pending.expiresAtMs - clock.nowMs());
}

/** Throws `sign_in_expired` if the browser has no cookie, or one that is too old or that this node cannot read. */
export function readPendingLink(
  { keyring, clock }: Pick<Installation, "keyring" | "clock">,
  headers: HeaderReader,
): PendingLink {
  const sealed = presentedPendingLink(headers);
  if (sealed === null || sealed === "") throw signInExpiredError();
  let pending: PendingLink;
  try {
    pending = pendingLinkSchema.parse(JSON.parse(unseal(keyring, PENDING_LINK_COOKIE_BINDING, sealed)));
  } catch (error) {
    if (error instanceof SealError || error instanceof z.ZodError) throw signInExpiredError();
    throw error;
  }
  if (pending.expiresAtMs <= clock.nowMs()) throw signInExpiredError();
  return pending;
}
