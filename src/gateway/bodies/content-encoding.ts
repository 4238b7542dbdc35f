/** Decompresses bodies by their `Content-Encoding`. */

import type { Transform } from "node:stream";
import {
  constants,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createZstdDecompress,
} from "node:zlib";
import type { BodyLimits } from "./body-reader.ts";
import { type BodyRejection, badEncoding, tooDense, tooLarge } from "./body-rejection.ts";

/** One compression format. Decompression runs outside the event loop and stops when its output is not read. */
export interface Encoding {
  open(): Transform;
}

const CHUNK_BYTES = 64 * 1024;
const CHUNKS = { chunkSize: CHUNK_BYTES };
/** RFC 9659: a sender of this encoding must not require a window above 8 MiB. */
const ZSTD = { ...CHUNKS, params: { [constants.ZSTD_d_windowLogMax]: 23 } };
const GZIP: Encoding = { open: () => createGunzip(CHUNKS) };
const ENCODINGS: ReadonlyMap<string, Encoding> = new Map([
  ["gzip", GZIP],
  ["x-gzip", GZIP],
  ["deflate", { open: () => createInflate(CHUNKS) }],
  ["br", { open: () => createBrotliDecompress(CHUNKS) }],
  ["zstd", { open: () => createZstdDecompress(ZSTD) }],
]);

/** Returns null for no encoding, and undefined for an unknown one or for several layers. */
export function parseContentEncoding(name: string | null): Encoding | null | undefined {
  if (name === null) return null;
  const normalized = name.trim().toLowerCase();
  return normalized === "" || normalized === "identity" ? null : ENCODINGS.get(normalized);
}

/** Produces a compressed body from memory, slice by slice. */
export function produceSlices(packed: Uint8Array): (take: Take) => Promise<"stopped" | null> {
  return async (take) => {
    for (let at = 0; at < packed.length; at += CHUNK_BYTES) {
      if (!(await take(packed.subarray(at, at + CHUNK_BYTES)))) return "stopped";
    }
    return null;
  };
}

type Take = (chunk: Uint8Array) => boolean | Promise<boolean>;

/**
 * Connects the producer of a compressed body to the consumer of the plain one, chunk by chunk, with back-pressure.
 * `take` stops it by returning false; its errors are rethrown.
 */
export async function unpackTo<Rejected>(
  { open }: Encoding,
  limits: UnpackingLimits,
  produce: (take: Take) => Promise<Rejected | "stopped" | null>,
  take: Take,
): Promise<Rejected | BodyRejection | "stopped" | null> {
  const decompressor = open();
  const closed = waitForEvent(decompressor, "close");
  let rejection: Rejected | "stopped" | null = null;
  let packedBytes = 0;
  const producing = produce(async (chunk) => {
    packedBytes += chunk.length;
    const isFull = !decompressor.destroyed && !decompressor.write(chunk);
    if (isFull) await Promise.race([waitForEvent(decompressor, "drain"), closed]);
    return !decompressor.destroyed;
  });
  producing.then(
    (result) => {
      rejection = result;
      if (result === null) decompressor.end();
      else decompressor.destroy();
    },
    (cause) => decompressor.destroy(cause),
  );
  try {
    const rejected = await takeAll(decompressor, take, (bytes) => {
      if (bytes > limits.bytesMax) return tooLarge(limits.bytesMax);
      return bytes > unpackedBytesMax(packedBytes, limits) ? tooDense(limits.unpackedRatioMax) : null;
    });
    // A body that the producer rejected was not decompressed, so that reason takes precedence.
    return rejection ?? rejected;
  } finally {
    decompressor.destroy();
  }
}

type UnpackingLimits = Pick<BodyLimits, "bytesMax" | "unpackedRatioMax" | "unpackedFreeBytes">;

/** The maximum plain size of a compressed body of this size. */
export function unpackedBytesMax(
  packedBytes: number,
  { unpackedRatioMax, unpackedFreeBytes }: Omit<UnpackingLimits, "bytesMax">,
): number {
  return Math.max(unpackedFreeBytes, packedBytes * unpackedRatioMax);
}

async function takeAll(
  plain: Transform,
  take: Take,
  check: (bytes: number) => BodyRejection | null,
): Promise<BodyRejection | "stopped" | null> {
  const chunks = plain[Symbol.asyncIterator]();
  for (let bytes = 0; ; ) {
    const next = await chunks.next().catch(() => null);
    if (next === null) return badEncoding();
    if (next.done === true) return null;
    bytes += next.value.length;
    const rejection = check(bytes);
    if (rejection !== null) return rejection;
    if (!(await take(next.value))) return "stopped";
  }
}

function waitForEvent(stream: Transform, event: "close" | "drain"): Promise<void> {
  return new Promise((resolve) => void stream.once(event, () => resolve()));
}
