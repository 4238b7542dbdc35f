/**
 * Decrypts the credentials in LiteLLM's database with its salt key. Its versions wrote three forms: AES-256-GCM with
 * two ways to derive the key, and NaCl's secret box (XSalsa20-Poly1305), which the runtime does not have.
 */

import { createDecipheriv, createHash, hkdfSync, timingSafeEqual } from "node:crypto";

const GCM_NONCE_BYTES = 12;
const TAG_BYTES = 16;
const BOX_NONCE_BYTES = 24;

/** Returns null if the value is not encrypted with this key. */
export function decryptStored(value: string, saltKey: string): string | null {
  const [, version, sealed = ""] = /^(v[23]):gcm:(.*)$/s.exec(value) ?? [];
  const plain = createHash("sha256").update(saltKey).digest();
  if (version === undefined) return openBox(plain, Buffer.from(value, "base64url"))?.toString("utf8") ?? null;
  const key =
    version === "v2" ? plain : Buffer.from(hkdfSync("sha256", saltKey, "", "litellm-at-rest-v3", 32));
  return openGcm(key, Buffer.from(sealed, "base64url"));
}

function openGcm(key: Uint8Array, sealed: Buffer): string | null {
  if (sealed.length < GCM_NONCE_BYTES + TAG_BYTES) return null;
  const decipher = createDecipheriv("aes-256-gcm", key, sealed.subarray(0, GCM_NONCE_BYTES));
  decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
  try {
    const text = decipher.update(sealed.subarray(GCM_NONCE_BYTES, -TAG_BYTES));
    return Buffer.concat([text, decipher.final()]).toString("utf8");
  } catch {
    return null;
  }
}

/** `nonce ‖ tag ‖ text`, as NaCl's secret box. */
export function openBox(key: Uint8Array, sealed: Uint8Array): Buffer | null {
  if (sealed.length < BOX_NONCE_BYTES + TAG_BYTES) return null;
  const nonce = sealed.subarray(0, BOX_NONCE_BYTES);
  const tag = sealed.subarray(BOX_NONCE_BYTES, BOX_NONCE_BYTES + TAG_BYTES);
  const text = sealed.subarray(BOX_NONCE_BYTES + TAG_BYTES);
  // The first 32 bytes of the stream are the key of the tag, the text follows.
  const subkey = hashToSubkey(key, nonce.subarray(0, 16));
  const stream = salsaStream(subkey, nonce.subarray(16), 32 + text.length);
  if (!timingSafeEqual(computeTag(stream.subarray(0, 32), text), tag)) return null;
  return Buffer.from(text.map((byte, i) => byte ^ (stream[32 + i] ?? 0)));
}

/** "expand 32-byte k" */
const SIGMA = [0x61707865, 0x3320646e, 0x79622d32, 0x6b206574] as const;

/** The input block of Salsa20: constants on the diagonal, the key around 16 bytes of nonce and counter. */
function buildBlock(key: Uint8Array, input: Uint8Array): Uint32Array {
  const words = (bytes: Uint8Array, count: number) => {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    return Array.from({ length: count }, (_, i) => view.getUint32(4 * i, true));
  };
  const k = words(key, 8);
  return Uint32Array.of(
    SIGMA[0],
    ...k.slice(0, 4),
    SIGMA[1],
    ...words(input, 4),
    SIGMA[2],
    ...k.slice(4),
    SIGMA[3],
  );
}

/** The positions of the quarter rounds: columns, then rows. */
const QUARTERS = [
  [0, 4, 8, 12],
  [5, 9, 13, 1],
  [10, 14, 2, 6],
  [15, 3, 7, 11],
  [0, 1, 2, 3],
  [5, 6, 7, 4],
  [10, 11, 8, 9],
  [15, 12, 13, 14],
] as const;

function runRounds(block: Uint32Array): Uint32Array {
  const x = block.slice();
  const mix = (to: number, [a, b]: readonly [number, number], bits: number) => {
    const sum = ((x[a] ?? 0) + (x[b] ?? 0)) | 0;
    x[to] = (x[to] ?? 0) ^ ((sum << bits) | (sum >>> (32 - bits)));
  };
  for (let round = 0; round < 10; round++) {
    for (const [a, b, c, d] of QUARTERS) {
      mix(b, [a, d], 7);
      mix(c, [b, a], 9);
      mix(d, [c, b], 13);
      mix(a, [d, c], 18);
    }
  }
  return x;
}

function toBytes(words: ArrayLike<number>): Uint8Array {
  const bytes = new DataView(new ArrayBuffer(4 * words.length));
  for (let i = 0; i < words.length; i++) bytes.setUint32(4 * i, words[i] ?? 0, true);
  return new Uint8Array(bytes.buffer);
}

/** HSalsa20: the diagonal and the input words after the rounds. */
function hashToSubkey(key: Uint8Array, input: Uint8Array): Uint8Array {
  const x = runRounds(buildBlock(key, input));
  return toBytes([0, 5, 10, 15, 6, 7, 8, 9].map((i) => x[i] ?? 0));
}

function salsaStream(key: Uint8Array, nonce: Uint8Array, length: number): Uint8Array {
  const stream = new Uint8Array(length);
  for (let at = 0, counter = 0; at < length; at += 64, counter++) {
    const block = buildBlock(key, Buffer.concat([nonce, toBytes([counter, 0])]));
    const x = runRounds(block);
    const bytes = toBytes(block.map((word, i) => (word + (x[i] ?? 0)) >>> 0));
    stream.set(bytes.subarray(0, length - at), at);
  }
  return stream;
}

/** Poly1305. */
function computeTag(key: Uint8Array, text: Uint8Array): Uint8Array {
  const r = readInteger(key.subarray(0, 16)) & 0x0ffffffc0ffffffc0ffffffc0fffffffn;
  const prime = (1n << 130n) - 5n;
  let sum = 0n;
  for (let at = 0; at < text.length; at += 16) {
    const chunk = text.subarray(at, at + 16);
    sum = ((sum + readInteger(chunk) + (1n << BigInt(8 * chunk.length))) * r) % prime;
  }
  const tag = (sum + readInteger(key.subarray(16, 32))) & ((1n << 128n) - 1n);
  return Buffer.from(tag.toString(16).padStart(32, "0"), "hex").reverse();
}

/** Little-endian. */
function readInteger(bytes: Uint8Array): bigint {
  return bytes.reduceRight((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
}
