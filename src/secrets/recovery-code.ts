/** For whoever has lost the second factor: `7k3q-…`, 60 random bits in an alphabet without letters taken for digits. */

import type { RandomBytes } from "./keyring.ts";

const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz";
const CHARS = 12;

export function mintRecoveryCode(randomBytes: RandomBytes): string {
  // A byte has eight times as many values as the alphabet has characters, so none is favoured.
  const random = [...randomBytes(CHARS)].map((byte) => ALPHABET.charAt(byte % 32)).join("");
  return random.match(/.{4}/g)?.join("-") ?? random;
}

/** However it was typed → what goes to the digester, which knows whose it is. */
export function recoveryCodeSecret(userId: string, typed: string): string {
  const plain = typed.toLowerCase().replace(/[\s-]/g, "").replaceAll("o", "0").replace(/[il]/g, "1");
  return `recovery-code ${userId} ${plain}`;
}
