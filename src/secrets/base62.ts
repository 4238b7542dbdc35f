/** Random bytes in base62, safe in shells and URLs, selected by a double click, with a checksum. */

const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** 62^43 > 2^256: the shortest length that preserves every bit. */
export const CHARS_OF_256_BITS = 43;
export const CHECKSUM_CHARS = 6;

export function base62(integer: bigint, chars: number): string {
  let text = "";
  for (let remaining = integer; remaining > 0n; remaining /= 62n)
    text = ALPHABET.charAt(Number(remaining % 62n)) + text;
  return text.padStart(chars, "0");
}

export function toInteger(bytes: Uint8Array): bigint {
  return bytes.length === 0 ? 0n : BigInt(`0x${Buffer.from(bytes).toString("hex")}`);
}

/** The checksum lets scanners and the gateway reject garbage without a lookup. */
export function withChecksum(unchecked: string): string {
  return unchecked + computeChecksum(unchecked);
}

export function hasChecksum(text: string): boolean {
  return text.endsWith(computeChecksum(text.slice(0, -CHECKSUM_CHARS)));
}

function computeChecksum(unchecked: string): string {
  return base62(BigInt(Bun.hash.crc32(unchecked)), CHECKSUM_CHARS);
}
