/** Decompresses a response that was compressed without being requested: a single layer, with a size limit. */

import { brotliDecompressSync, gunzipSync, inflateSync, zstdDecompressSync } from "node:zlib";

type Decompress = (compressed: Uint8Array, options: { maxOutputLength: number }) => Uint8Array;

const DECOMPRESSORS: ReadonlyMap<string, Decompress> = new Map<string, Decompress>([
  ["gzip", gunzipSync],
  ["deflate", inflateSync],
  ["br", brotliDecompressSync],
  ["zstd", zstdDecompressSync],
]);

/** Returns null when the encoding is unknown or layered, the content is corrupt, or the result is too large. */
export function unpack(bytes: Uint8Array, encoding: string | null, bytesMax: number): Uint8Array | null {
  if (encoding === null || encoding === "" || encoding === "identity") return bytes;
  const decompress = DECOMPRESSORS.get(encoding.toLowerCase());
  if (!decompress) return null;
  try {
    return decompress(bytes, { maxOutputLength: bytesMax });
  } catch {
    return null;
  }
}
