/** Random bytes as text that survives every shell, address and double click, with a check at its end. */

const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** 62^43 > 2^256: the shortest length that keeps every bit. */
export const CHARS_OF_256_BITS = 43;
export const CHECKSUM_CHARS = 6;

export function base62(integer: bigint, chars: number): string {
  let text = "";
  for (let rest = integer; rest > 0n; rest /= 62n) text = ALPHABET.charAt(Number(rest % 62n)) + text;
  return text.padStart(chars, "0");
}

export function toInteger(bytes: Uint8Array): bigint {
  return bytes.length === 0 ? 0n : BigInt(`0x${Buffer.from(bytes).toString("hex")}`);
}

/** It lets scanners, and us, throw garbage away without asking anybody. */
export function withChecksum(unchecked: string): string {
  return unchecked + checksum(unchecked);
}

export function hasChecksum(text: string): boolean {
  return text.endsWith(checksum(text.slice(0, -CHECKSUM_CHARS)));
}

function checksum(unchecked: string): string {
  return base62(BigInt(Bun.hash.crc32(unchecked)), CHECKSUM_CHARS);
}
