/** Unpacks an answer that came compressed although nobody asked for it: a single layer, and bounded. */

import { brotliDecompressSync, gunzipSync, inflateSync, zstdDecompressSync } from "node:zlib";

type Opener = (packed: Uint8Array, options: { maxOutputLength: number }) => Uint8Array;

const OPENERS: ReadonlyMap<string, Opener> = new Map<string, Opener>([
  ["gzip", gunzipSync],
  ["deflate", inflateSync],
  ["br", brotliDecompressSync],
  ["zstd", zstdDecompressSync],
]);

/** Null when the encoding is unknown or layered, the content is corrupt, or it is larger than allowed. */
export function unpack(bytes: Uint8Array, encoding: string | null, bytesMax: number): Uint8Array | null {
  if (encoding === null || encoding === "" || encoding === "identity") return bytes;
  const open = OPENERS.get(encoding.toLowerCase());
  if (!open) return null;
  try {
    return open(bytes, { maxOutputLength: bytesMax });
  } catch {
    return null;
  }
}
