/** Recovery codes for a lost second factor: `7k3q-…`, 60 random bits, no letters like digits. */

import type { RandomBytes } from "./keyring.ts";

const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz";
const CHARS = 12;

export function mintRecoveryCode(randomBytes: RandomBytes): string {
  // The 256 values of a byte are a multiple of the 32 characters, so every character is equally likely.
  const random = [...randomBytes(CHARS)].map((byte) => ALPHABET.charAt(byte % 32)).join("");
  return random.match(/.{4}/g)?.join("-") ?? random;
}

/** Normalizes a typed code and returns the text to digest, which includes the user id. */
export function recoveryCodeSecret(userId: string, typed: string): string {
  const plain = typed.toLowerCase().replace(/[\s-]/g, "").replaceAll("o", "0").replace(/[il]/g, "1");
  return `recovery-code ${userId} ${plain}`;
}
