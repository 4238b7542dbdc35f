/** An API key as it is stored. */

import type { KeyCapture } from "./capture.ts";
import type { CallerLimits } from "./limits.ts";

/** An API key. The secret itself is never stored, only its keyed digest. */
export interface KeyRecord {
  id: string;
  name: string;
  userId: string | null;
  groupId: string;
  /** HMAC-SHA-256 of the secret under the installation's pepper, base64url. */
  digest: string;
  /** The eight characters after the prefix. Safe to show and to log; identifies the key. */
  publicId: string;
  last4: string;
  status: "active" | "revoked";
  expiresAtMs: number | null;
  /** Applied together with the group's limits: the stricter one counts. */
  limits: CallerLimits;
  createdAtMs: number;
  revokedAtMs: number | null;
}

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
  /** The former secrets that still worked at the time of reading. */
  formerSecrets: readonly Pick<FormerSecret, "digest" | "worksUntilMs">[];
}
