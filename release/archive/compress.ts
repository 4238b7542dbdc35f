/** gzip with the same bytes for the same input, and the decompression of what others packed. */

import { gzipSync } from "node:zlib";

/** The header holds neither a name nor a time. */
export function gzip(bytes: Uint8Array): Buffer {
  return gzipSync(bytes, { level: 9 });
}

/** By the program `xz`: the runtime has no decoder for this format. */
export function decompressXz(bytes: Uint8Array): Buffer {
  if (Bun.which("xz") === null) throw new Error("The program xz is missing. Install xz-utils.");
  const { exitCode, stdout, stderr } = Bun.spawnSync(["xz", "--decompress", "--stdout"], { stdin: bytes });
  if (exitCode !== 0) throw new Error(`xz failed: ${stderr.toString().trim()}`);
  return stdout;
}
