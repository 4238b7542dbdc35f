/** An API key as it is stored. */

import type { KeyCapture } from "./capture.ts";
import { keyFallback } from "./fallback.ts";
import type { RecordOf } from "./fields.ts";
import * as field from "./fields.ts";
import type { CallerLimits } from "./limits.ts";

/** An API key. The secret itself is never stored, only its keyed digest. */
export const KEY_FIELDS = {
  id: field.internal(field.text),
  name: field.identity,
  /** The file has the address of the user. */
  userId: field.named("user", field.optionalText),
  /** The file has the name of the group. */
  groupId: field.named("group", field.text),
  /** HMAC-SHA-256 of the secret under the installation's pepper, base64url. */
  digest: field.internal(field.text),
  /** The eight characters after the prefix. Safe to show and to log; identifies the key. */
  publicId: field.internal(field.text),
  last4: field.internal(field.text),
  status: field.internal(field.choice(["active", "revoked"])),
  expiresAtMs: field.named("expires", field.optionalTime),
  /** Applied together with the group's limits: the stricter one counts. */
  limits: field.callerLimits,
  /** The name of its own request policy, which applies together with that of the group. */
  requestPolicy: field.optionalText,
  /** Whether its requests may take the fallback steps of group and model. */
  fallback: keyFallback,
  createdAtMs: field.internal(field.integer),
  revokedAtMs: field.internal(field.optionalTime),
};

export interface KeyRecord extends RecordOf<typeof KEY_FIELDS> {}

/** A secret that a key had before it was rotated. */
export interface FormerSecret {
  digest: string;
  last4: string;
  /** The secret works until this time. */
  worksUntilMs: number;
}

/** A key with the limits of its user, which apply to all keys of that user. */
export interface KeyOfUser extends KeyRecord {
  userLimits: CallerLimits;
  capture: KeyCapture | null;
  /** The former and temporary secrets that still worked at the time of reading. */
  formerSecrets: readonly Pick<FormerSecret, "digest" | "worksUntilMs">[];
  /** Only of a signed-in tool: its access tokens that have ended and are still recognized. */
  endedTokens?: readonly Pick<FormerSecret, "digest" | "worksUntilMs">[];
}

/** How the audit log names a key. */
export function keyTitle(name: string, email: string | null): string {
  return email === null ? `key ${name}` : `key ${name} of ${email}`;
}
