/**
 * The format of redeem codes: six groups of four characters, with 100 random bits and a check value, in an alphabet
 * without letters that look like digits. The first group may be shown to an operator: 80 bits stay unknown.
 */

import type { RandomBytes } from "./keyring.ts";

/** Crockford's alphabet: no I, L, O or U. */
const ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const RANDOM_CHARS = 20;
const CHECK_CHARS = 4;
const GROUP_CHARS = 4;
/** The largest prime of 20 bits: the remainder detects every single wrong character and every swap. */
const CHECK_PRIME = 1_048_573n;

interface RedeemCode {
  /** As shown to people: `7K3Q-…`. */
  code: string;
  hint: string;
}

export function mintRedeemCode(randomBytes: RandomBytes): RedeemCode {
  // The 256 values of a byte are a multiple of the 32 characters, so every character is equally likely.
  const random = [...randomBytes(RANDOM_CHARS)].map((byte) => ALPHABET.charAt(byte % 32)).join("");
  const code = formatGroups(random + computeCheck(random));
  return { code, hint: code.slice(0, GROUP_CHARS) };
}

/** Normalizes a typed code to the form that is digested; null if it is not a valid code. */
export function readRedeemCode(typed: string): string | null {
  const plain = typed.toUpperCase().replace(/[\s-]/g, "").replaceAll("O", "0").replace(/[IL]/g, "1");
  if (plain.length !== RANDOM_CHARS + CHECK_CHARS) return null;
  if ([...plain].some((char) => !ALPHABET.includes(char))) return null;
  const random = plain.slice(0, RANDOM_CHARS);
  return plain.slice(RANDOM_CHARS) === computeCheck(random) ? formatGroups(plain) : null;
}

/** The text to digest. The prefix ensures that keys and codes never share a digest. */
export function redeemCodeSecret(code: string): string {
  return `redeem-code ${code}`;
}

function computeCheck(random: string): string {
  let value = 0n;
  for (const char of random) value = (value * 32n + BigInt(ALPHABET.indexOf(char))) % CHECK_PRIME;
  let check = "";
  for (let remaining = value; check.length < CHECK_CHARS; remaining /= 32n) {
    check = ALPHABET.charAt(Number(remaining % 32n)) + check;
  }
  return check;
}

function formatGroups(plain: string): string {
  return plain.match(/.{4}/g)?.join("-") ?? plain;
}
