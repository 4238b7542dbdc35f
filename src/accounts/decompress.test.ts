import { describe, expect, test } from "bun:test";
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { unpack } from "./decompress.ts";

const PLAIN = new TextEncoder().encode('{"answer":42}');
const LARGE = 1_000_000;

describe("a compressed response", () => {
  test.each([null, "", "identity"])(
    "that is not compressed (%j) is returned without a copy",
    async (encoding) => {
      expect(await unpack(PLAIN, encoding, LARGE)).toBe(PLAIN);
    },
  );

  test.each([
    ["gzip", gzipSync],
    ["GZIP", gzipSync],
    ["deflate", deflateSync],
    ["br", brotliCompressSync],
    ["zstd", zstdCompressSync],
  ])("in %s is decompressed", async (encoding, pack) => {
    expect(await unpack(pack(PLAIN), encoding, LARGE)).toEqual(Buffer.from(PLAIN));
  });

  test.each([
    ["gzip", gzipSync],
    ["deflate", deflateSync],
    ["br", brotliCompressSync],
    ["zstd", zstdCompressSync],
  ])("in %s that expands beyond the limit is rejected", async (encoding, pack) => {
    const bomb = pack(new Uint8Array(10_000_000));
    expect(bomb.length).toBeLessThan(50_000);
    expect(await unpack(bomb, encoding, LARGE)).toBeNull();
  });

  test.each([
    ["gzip", gzipSync],
    ["br", brotliCompressSync],
    ["zstd", zstdCompressSync],
  ])("in %s that expands to a large multiple of what was sent is rejected", async (encoding, pack) => {
    expect(await unpack(pack(new Uint8Array(LARGE)), encoding, 100 * LARGE)).toHaveLength(LARGE);
    expect(await unpack(pack(new Uint8Array(20 * LARGE)), encoding, 100 * LARGE)).toBeNull();
  });

  test.each(["gzip, gzip", "gzip,br", "compress", "x-unknown", "constructor", "__proto__"])(
    "in several or unknown encodings (%s) is rejected",
    async (encoding) => {
      expect(await unpack(gzipSync(PLAIN), encoding, LARGE)).toBeNull();
    },
  );

  test.each(["gzip", "deflate", "br", "zstd"])("that is not valid %s is rejected", async (encoding) => {
    expect(await unpack(PLAIN, encoding, LARGE)).toBeNull();
  });

  test("that is truncated is rejected", async () => {
    expect(await unpack(gzipSync(PLAIN).subarray(0, 15), "gzip", LARGE)).toBeNull();
  });
});
