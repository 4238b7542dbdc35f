/** Bodies that come packed, by the name of their `Content-Encoding`. */

import { promisify } from "node:util";
import { brotliDecompress, constants, gunzip, inflate, zstdDecompress } from "node:zlib";
import type { HeaderReader } from "../wire/http-fields.ts";
import { type BodyRefusal, badEncoding, tooLarge } from "./body-refusal.ts";

/** True for a body that is what it says, without a Content-Encoding. */
export function isIdentity(headers: HeaderReader): boolean {
  const encoding = headers.get("content-encoding");
  return encoding === null || decoderOf(encoding) === null;
}

export type Decode = (packed: Uint8Array, bytesMax: number) => Promise<Uint8Array | BodyRefusal>;

/** Each stops, in flat memory, when the output passes its cap. */
const DECODERS: ReadonlyMap<string, Decode> = new Map([
  ["gzip", decoder(promisify(gunzip), {})],
  ["x-gzip", decoder(promisify(gunzip), {})],
  ["deflate", decoder(promisify(inflate), {})],
  ["br", decoder(promisify(brotliDecompress), {})],
  // RFC 9659: no sender of this encoding may ask its reader for a window above 8 MiB.
  ["zstd", decoder(promisify(zstdDecompress), { params: { [constants.ZSTD_d_windowLogMax]: 23 } })],
]);

/** Null for none; undefined for one that is not known, or for several layers. */
export function decoderOf(encoding: string): Decode | null | undefined {
  const name = encoding.trim().toLowerCase();
  return name === "" || name === "identity" ? null : DECODERS.get(name);
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
