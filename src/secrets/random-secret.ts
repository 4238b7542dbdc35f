/**
 * Secrets of 256 random bits for the console: session cookies, one-time links, personal access tokens, tokens of
 * service accounts and refresh tokens of tools. Only their SHA-256 is stored. 2^256 values cannot be guessed, so the digest needs neither a salt nor a slow hash.
 */

import { createHash } from "node:crypto";
import { base62, CHARS_OF_256_BITS, CHECKSUM_CHARS, hasChecksum, toInteger, withChecksum } from "./base62.ts";
import type { RandomBytes } from "./keyring.ts";

interface RandomSecret {
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

/** `<prefix><256 random bits><CRC-32>`: people and scanners can distinguish each kind of token, and an API key. */
class TokenFormat {
  readonly #prefix: string;
  readonly #pattern: RegExp;

  constructor(prefix: string) {
    this.#prefix = prefix;
    this.#pattern = new RegExp(`^${prefix}[0-9A-Za-z]{${CHARS_OF_256_BITS + CHECKSUM_CHARS}}$`);
  }

  mint(randomBytes: RandomBytes): RandomSecret {
    const secret = withChecksum(this.#prefix + base62(toInteger(randomBytes(32)), CHARS_OF_256_BITS));
    return { secret, digest: secretDigest(secret) };
  }

  matches(text: string): boolean {
    return this.#pattern.test(text) && hasChecksum(text);
  }
}

const ACCESS_TOKEN = new TokenFormat("gwp_");
const SERVICE_TOKEN = new TokenFormat("gws_");
const REFRESH_TOKEN = new TokenFormat("gwr_");

export function mintAccessToken(randomBytes: RandomBytes): RandomSecret {
  return ACCESS_TOKEN.mint(randomBytes);
}

export function isAccessToken(text: string): boolean {
  return ACCESS_TOKEN.matches(text);
}

export function mintServiceToken(randomBytes: RandomBytes): RandomSecret {
  return SERVICE_TOKEN.mint(randomBytes);
}

export function isServiceToken(text: string): boolean {
  return SERVICE_TOKEN.matches(text);
}

/** A refresh token of a signed-in tool. */
export function mintRefreshToken(randomBytes: RandomBytes): RandomSecret {
  return REFRESH_TOKEN.mint(randomBytes);
}

export function isRefreshToken(text: string): boolean {
  return REFRESH_TOKEN.matches(text);
}
