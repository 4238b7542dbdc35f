/**
 * What a caller's credential looks like: `gwk_<public id>_<256 random bits><CRC-32>`, all in base62.
 * The checksum lets scanners, and us, throw garbage away without asking anybody.
 */

import { base62, CHARS_OF_256_BITS, CHECKSUM_CHARS, hasChecksum, toInteger, withChecksum } from "./base62.ts";
import type { RandomBytes } from "./keyring.ts";

const PREFIX = "gwk_";
const PUBLIC_ID_CHARS = 8;
const FORM = new RegExp(
  `^gwk_[0-9A-Za-z]{${PUBLIC_ID_CHARS}}_[0-9A-Za-z]{${CHARS_OF_256_BITS + CHECKSUM_CHARS}}$`,
);

export interface MintedApiKey {
  secret: string;
  publicId: string;
  last4: string;
}

/** A rotated key keeps its public id: it is the same key with another secret. */
export function mintApiKey(
  randomBytes: RandomBytes,
  publicId: string = publicIdFrom(randomBytes(8)),
): MintedApiKey {
  const secret = withChecksum(
    `${PREFIX}${publicId}_${base62(toInteger(randomBytes(32)), CHARS_OF_256_BITS)}`,
  );
  return { secret, publicId, last4: secret.slice(-4) };
}

export function claimsOurForm(secret: string): boolean {
  return secret.startsWith(PREFIX);
}

export function hasValidChecksum(secret: string): boolean {
  return FORM.test(secret) && hasChecksum(secret);
}

/** An imported secret may have any form, and no part of it may be shown: its digest names it instead. */
export function publicIdOf(secret: string, digest: string): string {
  if (hasValidChecksum(secret)) return secret.slice(PREFIX.length, PREFIX.length + PUBLIC_ID_CHARS);
  return publicIdFrom(Buffer.from(digest, "base64url").subarray(0, 8));
}

/** HMAC-SHA-256 under the installation's pepper. Keyed once; a call only copies the prepared state. */
export function openDigester(pepper: Uint8Array): (secret: string) => string {
  const keyed = new Bun.CryptoHasher("sha256", pepper);
  return (secret) => keyed.copy().update(secret).digest("base64url");
}

function publicIdFrom(bytes: Uint8Array): string {
  return base62(toInteger(bytes) % 62n ** BigInt(PUBLIC_ID_CHARS), PUBLIC_ID_CHARS);
}
