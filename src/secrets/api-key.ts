/**
 * What a caller's credential looks like: `gwk_<public id>_<256 random bits><CRC-32>`, all in base62.
 * The checksum lets scanners, and us, throw garbage away without asking anybody.
 */

import type { RandomBytes } from "./keyring.ts";

const PREFIX = "gwk_";
const PUBLIC_ID_CHARS = 8;
/** 62^43 > 2^256: the shortest length that keeps every bit. */
const RANDOM_CHARS = 43;
const CHECKSUM_CHARS = 6;
const FORM = new RegExp(
  `^gwk_[0-9A-Za-z]{${PUBLIC_ID_CHARS}}_[0-9A-Za-z]{${RANDOM_CHARS + CHECKSUM_CHARS}}$`,
);

const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

export interface MintedApiKey {
  secret: string;
  publicId: string;
  last4: string;
}

export function mintApiKey(randomBytes: RandomBytes): MintedApiKey {
  const publicId = publicIdFrom(randomBytes(8));
  const unchecked = `${PREFIX}${publicId}_${base62(toInteger(randomBytes(32)), RANDOM_CHARS)}`;
  const secret = unchecked + checksum(unchecked);
  return { secret, publicId, last4: secret.slice(-4) };
}

export function claimsOurForm(secret: string): boolean {
  return secret.startsWith(PREFIX);
}

export function hasValidChecksum(secret: string): boolean {
  if (!FORM.test(secret)) return false;
  const unchecked = secret.slice(0, -CHECKSUM_CHARS);
  return secret.endsWith(checksum(unchecked));
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

function checksum(unchecked: string): string {
  return base62(BigInt(Bun.hash.crc32(unchecked)), CHECKSUM_CHARS);
}

function toInteger(bytes: Uint8Array): bigint {
  return bytes.length === 0 ? 0n : BigInt(`0x${Buffer.from(bytes).toString("hex")}`);
}

function base62(integer: bigint, chars: number): string {
  let text = "";
  for (let rest = integer; rest > 0n; rest /= 62n) text = ALPHABET.charAt(Number(rest % 62n)) + text;
  return text.padStart(chars, "0");
}
