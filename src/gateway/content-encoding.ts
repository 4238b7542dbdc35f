/** Bodies that come packed, by the name of their `Content-Encoding`. */

import type { Transform } from "node:stream";
import { promisify } from "node:util";
import {
  brotliDecompress,
  constants,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createZstdDecompress,
  gunzip,
  inflate,
  zstdDecompress,
} from "node:zlib";
import { type BodyRefusal, badEncoding, tooLarge } from "./body-refusal.ts";

export type Decode = (packed: Uint8Array, bytesMax: number) => Promise<Uint8Array | BodyRefusal>;

/** How one is unpacked: in memory, where it stops in flat memory when the output passes its cap, or as it comes. */
interface Encoding {
  readonly decode: Decode;
  open(): Transform;
}

/** RFC 9659: no sender of this encoding may ask its reader for a window above 8 MiB. */
const ZSTD = { params: { [constants.ZSTD_d_windowLogMax]: 23 } };
const GZIP: Encoding = { decode: decoder(promisify(gunzip), {}), open: () => createGunzip() };
const ENCODINGS: ReadonlyMap<string, Encoding> = new Map([
  ["gzip", GZIP],
  ["x-gzip", GZIP],
  ["deflate", { decode: decoder(promisify(inflate), {}), open: () => createInflate() }],
  ["br", { decode: decoder(promisify(brotliDecompress), {}), open: () => createBrotliDecompress() }],
  ["zstd", { decode: decoder(promisify(zstdDecompress), ZSTD), open: () => createZstdDecompress(ZSTD) }],
]);

/** Null for none; undefined for one that is not known, or for several layers. */
export function encodingOf(name: string | null): Encoding | null | undefined {
  if (name === null) return null;
  const known = name.trim().toLowerCase();
  return known === "" || known === "identity" ? null : ENCODINGS.get(known);
}

type Take = (chunk: Uint8Array) => boolean | Promise<boolean>;

/**
 * Between whoever brings a packed body and whoever takes it plain, chunk by chunk, so that a slow taker slows the
 * bringer. `take` stops it by false; what it throws is passed on.
 */
export async function unpackTo<Refused>(
  { open }: Encoding,
  bytesMax: number,
  bring: (take: Take) => Promise<Refused | "stopped" | null>,
  take: Take,
): Promise<Refused | BodyRefusal | "stopped" | null> {
  const unpacking = open();
  const closed = happened(unpacking, "close");
  let refused: Refused | "stopped" | null = null;
  const bringing = bring(async (chunk) => {
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
    const taken = await takeAll(unpacking, bytesMax, take);
    // What was refused where it was brought did not get as far as to be unpacked.
    return refused ?? taken;
  } finally {
    unpacking.destroy();
  }
}

async function takeAll(
  plain: Transform,
  bytesMax: number,
  take: Take,
): Promise<BodyRefusal | "stopped" | null> {
  const chunks = plain[Symbol.asyncIterator]();
  for (let bytes = 0; ; ) {
    const next = await chunks.next().catch(() => null);
    if (next === null) return badEncoding();
    if (next.done === true) return null;
    bytes += next.value.length;
    if (bytes > bytesMax) return tooLarge(bytesMax);
    if (!(await take(next.value))) return "stopped";
  }
}

function happened(stream: Transform, event: "close" | "drain"): Promise<void> {
  return new Promise((resolve) => void stream.once(event, () => resolve()));
}

function decoder<Options extends object>(
  unpack: (bytes: Uint8Array, options: Options & { maxOutputLength: number }) => Promise<Uint8Array>,
  options: Options,
): Decode {
  return async (bytes, bytesMax) => {
    try {
      return await unpack(bytes, { ...options, maxOutputLength: bytesMax });
    } catch (thrown) {
      return codeOf(thrown) === "ERR_BUFFER_TOO_LARGE" ? tooLarge(bytesMax) : badEncoding();
    }
  };
}

function codeOf(thrown: unknown): unknown {
  return thrown instanceof Error && "code" in thrown ? thrown.code : null;
}
