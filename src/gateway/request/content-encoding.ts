/** Bodies that come packed, by the name of their `Content-Encoding`. */

import type { Transform } from "node:stream";
import {
  constants,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createZstdDecompress,
} from "node:zlib";
import type { BodyLimits } from "./body-intake.ts";
import { type BodyRefusal, badEncoding, tooDense, tooLarge } from "./body-refusal.ts";

/** One way of packing. Unpacking runs outside the event loop and stops when nothing is taken. */
export interface Encoding {
  open(): Transform;
}

const CHUNK_BYTES = 64 * 1024;
const CHUNKS = { chunkSize: CHUNK_BYTES };
/** RFC 9659: no sender of this encoding may ask its reader for a window above 8 MiB. */
const ZSTD = { ...CHUNKS, params: { [constants.ZSTD_d_windowLogMax]: 23 } };
const GZIP: Encoding = { open: () => createGunzip(CHUNKS) };
const ENCODINGS: ReadonlyMap<string, Encoding> = new Map([
  ["gzip", GZIP],
  ["x-gzip", GZIP],
  ["deflate", { open: () => createInflate(CHUNKS) }],
  ["br", { open: () => createBrotliDecompress(CHUNKS) }],
  ["zstd", { open: () => createZstdDecompress(ZSTD) }],
]);

/** Null for none; undefined for one that is not known, or for several layers. */
export function parseContentEncoding(name: string | null): Encoding | null | undefined {
  if (name === null) return null;
  const known = name.trim().toLowerCase();
  return known === "" || known === "identity" ? null : ENCODINGS.get(known);
}

/** A packed body in memory, brought slice by slice. */
export function bringFrom(packed: Uint8Array): (take: Take) => Promise<"stopped" | null> {
  return async (take) => {
    for (let at = 0; at < packed.length; at += CHUNK_BYTES) {
      if (!(await take(packed.subarray(at, at + CHUNK_BYTES)))) return "stopped";
    }
    return null;
  };
}

type Take = (chunk: Uint8Array) => boolean | Promise<boolean>;

/**
 * Between whoever brings a packed body and whoever takes it plain, chunk by chunk, so that a slow taker slows the
 * bringer. `take` stops it by false; what it throws is passed on.
 */
export async function unpackTo<Refused>(
  { open }: Encoding,
  limits: UnpackingLimits,
  bring: (take: Take) => Promise<Refused | "stopped" | null>,
  take: Take,
): Promise<Refused | BodyRefusal | "stopped" | null> {
  const unpacking = open();
  const closed = happened(unpacking, "close");
  let refused: Refused | "stopped" | null = null;
  let packedBytes = 0;
  const bringing = bring(async (chunk) => {
    packedBytes += chunk.length;
    const isFull = !unpacking.destroyed && !unpacking.write(chunk);
    if (isFull) await Promise.race([happened(unpacking, "drain"), closed]);
    return !unpacking.destroyed;
  });
  bringing.then(
    (result) => {
      refused = result;
      if (result === null) unpacking.end();
      else unpacking.destroy();
    },
    (thrown) => unpacking.destroy(thrown),
  );
  try {
    const taken = await takeAll(unpacking, take, (bytes) => {
      if (bytes > limits.bytesMax) return tooLarge(limits.bytesMax);
      return bytes > unpackedBytesMax(packedBytes, limits) ? tooDense(limits.unpackedRatioMax) : null;
    });
    // What was refused where it was brought did not get as far as to be unpacked.
    return refused ?? taken;
  } finally {
    unpacking.destroy();
  }
}

type UnpackingLimits = Pick<BodyLimits, "bytesMax" | "unpackedRatioMax" | "unpackedFreeBytes">;

/** How long a packed body of this length may become. */
export function unpackedBytesMax(
  packedBytes: number,
  { unpackedRatioMax, unpackedFreeBytes }: Omit<UnpackingLimits, "bytesMax">,
): number {
  return Math.max(unpackedFreeBytes, packedBytes * unpackedRatioMax);
}

async function takeAll(
  plain: Transform,
  take: Take,
  check: (bytes: number) => BodyRefusal | null,
): Promise<BodyRefusal | "stopped" | null> {
  const chunks = plain[Symbol.asyncIterator]();
  for (let bytes = 0; ; ) {
    const next = await chunks.next().catch(() => null);
    if (next === null) return badEncoding();
    if (next.done === true) return null;
    bytes += next.value.length;
    const refusal = check(bytes);
    if (refusal !== null) return refusal;
    if (!(await take(next.value))) return "stopped";
  }
}

function happened(stream: Transform, event: "close" | "drain"): Promise<void> {
  return new Promise((resolve) => void stream.once(event, () => resolve()));
}
