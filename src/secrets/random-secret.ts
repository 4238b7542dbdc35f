/**
 * Secrets of 256 random bits for the console: session cookies, one-time links and personal access tokens. Only their
 * SHA-256 is stored. 2^256 values cannot be guessed, so the digest needs neither a salt nor a slow hash.
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
const TOKEN_FORMAT = new RegExp(`^gwp_[0-9A-Za-z]{${CHARS_OF_256_BITS + CHECKSUM_CHARS}}$`);

/** `gwp_<256 random bits><CRC-32>`: people and scanners can distinguish it from an API key. */
export function mintAccessToken(randomBytes: RandomBytes): RandomSecret {
  const secret = withChecksum(TOKEN_PREFIX + base62(toInteger(randomBytes(32)), CHARS_OF_256_BITS));
  return { secret, digest: secretDigest(secret) };
}

export function isAccessToken(text: string): boolean {
  return TOKEN_FORMAT.test(text) && hasChecksum(text);
}
