/**
 * What a redeem code looks like: six groups of four, 100 random bits and a check, in an alphabet without letters
 * that are taken for digits. The first group may be shown to an operator: 80 bits stay unknown.
 */

import type { RandomBytes } from "./keyring.ts";

/** Crockford's: no I, L, O or U. */
const ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const RANDOM_CHARS = 20;
const CHECK_CHARS = 4;
const GROUP_CHARS = 4;
/** The largest prime of 20 bits: a remainder by it tells every single wrong character and every swap. */
const CHECK_PRIME = 1_048_573n;

export interface RedeemCode {
  /** As people read it: `7K3Q-…`. */
  code: string;
  hint: string;
}

export function mintRedeemCode(randomBytes: RandomBytes): RedeemCode {
  // A byte has eight times as many values as the alphabet has characters, so none is favoured.
  const random = [...randomBytes(RANDOM_CHARS)].map((byte) => ALPHABET.charAt(byte % 32)).join("");
  const code = inGroups(random + checkOf(random));
  return { code, hint: code.slice(0, GROUP_CHARS) };
}

/** However it was typed → the one way it is digested; null if it cannot be a code of ours. */
export function readRedeemCode(typed: string): string | null {
  const plain = typed.toUpperCase().replace(/[\s-]/g, "").replaceAll("O", "0").replace(/[IL]/g, "1");
  if (plain.length !== RANDOM_CHARS + CHECK_CHARS) return null;
  if ([...plain].some((char) => !ALPHABET.includes(char))) return null;
  const random = plain.slice(0, RANDOM_CHARS);
  return plain.slice(RANDOM_CHARS) === checkOf(random) ? inGroups(plain) : null;
}

/** What goes to the digester: keys and codes never share a digest. */
export function redeemCodeSecret(code: string): string {
  return `redeem-code ${code}`;
}

function checkOf(random: string): string {
  let value = 0n;
  for (const char of random) value = (value * 32n + BigInt(ALPHABET.indexOf(char))) % CHECK_PRIME;
  let check = "";
  for (let rest = value; check.length < CHECK_CHARS; rest /= 32n) {
    check = ALPHABET.charAt(Number(rest % 32n)) + check;
  }
  return check;
}

function inGroups(plain: string): string {
  return plain.match(/.{4}/g)?.join("-") ?? plain;
}
