/** Decompresses responses that came compressed unasked: one layer, with a size limit, outside the event loop. */

import type { Transform } from "node:stream";
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from "node:zlib";
import { joinPartsInTurns } from "../base/next-turn.ts";
import { type Part, wholeBytesPart } from "../base/parts.ts";

const CHUNKS = { chunkSize: 64 * 1024 };
const DECOMPRESSORS: ReadonlyMap<string, () => Transform> = new Map<string, () => Transform>([
  ["gzip", () => createGunzip(CHUNKS)],
  ["deflate", () => createInflate(CHUNKS)],
  ["br", () => createBrotliDecompress(CHUNKS)],
  ["zstd", () => createZstdDecompress(CHUNKS)],
]);

/** As of requests. JSON is seldom more than 20 times as long as its compressed form. */
const RATIO_MAX = 100;
/** A result up to this size is always allowed. */
const FREE_BYTES = 1024 * 1024;

/**
 * Resolves with null when the encoding is unknown or layered, the content is corrupt, or the result is too large: in total,
 * or for what was sent, as a hundred bytes may contain 128 MiB.
 */
export async function unpack(
  bytes: Uint8Array,
  encoding: string | null,
  bytesMax: number,
): Promise<Uint8Array | null> {
  if (encoding === null || encoding === "" || encoding === "identity") return bytes;
  const decompressor = DECOMPRESSORS.get(encoding.toLowerCase())?.();
  if (decompressor === undefined) return null;
  const lengthMax = Math.min(bytesMax, Math.max(FREE_BYTES, bytes.length * RATIO_MAX));
  const pieces: Part[] = [];
  let length = 0;
  try {
    decompressor.end(bytes);
    for await (const piece of decompressor) {
      length += piece.length;
      if (length > lengthMax) return null;
      pieces.push(wholeBytesPart(piece));
    }
  } catch {
    return null;
  } finally {
    decompressor.destroy();
  }
  return joinPartsInTurns(pieces);
}
