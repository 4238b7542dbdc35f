/**
 * Secrets of 256 random bits that open the console: what a session's cookie holds, what a one-time link carries, and
 * personal access tokens. Kept is their SHA-256: nobody can try out 2^256 of them, so it needs neither salt nor time.
 */

import { createHash } from "node:crypto";
import { base62, CHARS_OF_256_BITS, CHECKSUM_CHARS, hasChecksum, toInteger, withChecksum } from "./base62.ts";
import type { RandomBytes } from "./keyring.ts";

export interface RandomSecret {
  secret: string;
  digest: string;
}

export function mintSecret(randomBytes: RandomBytes): RandomSecret {
  const secret = base62(toInteger(randomBytes(32)), CHARS_OF_256_BITS);
  return { secret, digest: secretDigest(secret) };
}

export function secretDigest(secret: string): string {
  return createHash("sha256").update(secret).digest("hex");
}

const TOKEN_PREFIX = "gwp_";
const TOKEN_FORM = new RegExp(`^gwp_[0-9A-Za-z]{${CHARS_OF_256_BITS + CHECKSUM_CHARS}}$`);

/** `gwp_<256 random bits><CRC-32>`: told apart from API keys at a glance, by people and by scanners. */
export function mintAccessToken(randomBytes: RandomBytes): RandomSecret {
  const secret = withChecksum(TOKEN_PREFIX + base62(toInteger(randomBytes(32)), CHARS_OF_256_BITS));
  return { secret, digest: secretDigest(secret) };
}

export function isAccessToken(text: string): boolean {
  return TOKEN_FORM.test(text) && hasChecksum(text);
}
