/**
 * The format of API keys: `gwk_<public id>_<256 random bits><CRC-32>`, all in base62. The checksum lets scanners and
 * the gateway reject garbage without a lookup.
 */

import { base62, CHARS_OF_256_BITS, CHECKSUM_CHARS, hasChecksum, toInteger, withChecksum } from "./base62.ts";
import type { RandomBytes } from "./keyring.ts";

const PREFIX = "gwk_";
const PUBLIC_ID_CHARS = 8;
const FORMAT = new RegExp(
  `^gwk_[0-9A-Za-z]{${PUBLIC_ID_CHARS}}_[0-9A-Za-z]{${CHARS_OF_256_BITS + CHECKSUM_CHARS}}$`,
);

interface MintedApiKey {
  secret: string;
  publicId: string;
  last4: string;
}

/** Pass `publicId` to rotate a key: it keeps its public id and gets another secret. */
export function mintApiKey(
  randomBytes: RandomBytes,
  publicId: string = derivePublicId(randomBytes(8)),
): MintedApiKey {
  const secret = withChecksum(
    `${PREFIX}${publicId}_${base62(toInteger(randomBytes(32)), CHARS_OF_256_BITS)}`,
  );
  return { secret, publicId, last4: secret.slice(-4) };
}

export function hasKeyPrefix(secret: string): boolean {
  return secret.startsWith(PREFIX);
}

export function hasValidChecksum(secret: string): boolean {
  return FORMAT.test(secret) && hasChecksum(secret);
}

/** An imported secret has any format and no part to show, so its public id comes from its digest. */
export function readPublicId(secret: string, digest: string): string {
  if (hasValidChecksum(secret)) return secret.slice(PREFIX.length, PREFIX.length + PUBLIC_ID_CHARS);
  return derivePublicId(Buffer.from(digest, "base64url").subarray(0, 8));
}

const IMPORTED_PREFIX = "sha256:";

/** The stored form of a secret of which another gateway knew only the SHA-256, until its first use here. */
export function importedDigest(sha256Hex: string): string {
  return `${IMPORTED_PREFIX}${sha256Hex}`;
}

export function hashImported(secret: string): string {
  return new Bun.CryptoHasher("sha256").update(secret).digest("hex");
}

export function isImportedDigest(digest: string): boolean {
  return digest.startsWith(IMPORTED_PREFIX);
}

/**
 * Identifies an imported secret, also after its first use has replaced the stored digest. Under the pepper, because a
 * plain hash of a short secret can be guessed.
 */
export function deriveImportedPublicId(sha256Hex: string, digest: (text: string) => string): string {
  return derivePublicId(Buffer.from(digest(importedDigest(sha256Hex)), "base64url").subarray(0, 8));
}

/** HMAC-SHA-256 under the installation's pepper. The key is set up once; each call only copies the prepared state. */
export function openDigester(pepper: Uint8Array): (secret: string) => string {
  const keyed = new Bun.CryptoHasher("sha256", pepper);
  return (secret) => keyed.copy().update(secret).digest("base64url");
}

function derivePublicId(bytes: Uint8Array): string {
  return base62(toInteger(bytes) % 62n ** BigInt(PUBLIC_ID_CHARS), PUBLIC_ID_CHARS);
}
