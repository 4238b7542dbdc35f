/**
 * Decompresses a response that was compressed without being requested: a single layer, with a size limit, outside the
 * event loop.
 */

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

/** Resolves with null when the encoding is unknown or layered, the content is corrupt, or the result is too large. */
export async function unpack(
  bytes: Uint8Array,
  encoding: string | null,
  bytesMax: number,
): Promise<Uint8Array | null> {
  if (encoding === null || encoding === "" || encoding === "identity") return bytes;
  const decompressor = DECOMPRESSORS.get(encoding.toLowerCase())?.();
  if (decompressor === undefined) return null;
  const pieces: Part[] = [];
  let length = 0;
  try {
    decompressor.end(bytes);
    for await (const piece of decompressor) {
      length += piece.length;
      if (length > bytesMax) return null;
      pieces.push(wholeBytesPart(piece));
    }
  } catch {
    return null;
  } finally {
    decompressor.destroy();
  }
  return joinPartsInTurns(pieces);
}
