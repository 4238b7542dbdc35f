import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, readlinkSync, rmSync, statSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import fc from "fast-check";
import { systemClock } from "../../base/clock.ts";
import { openDeadlines } from "../../base/deadlines.ts";
import { joinParts } from "../../base/parts.ts";
import { limits } from "../../config/limits/product-limits.ts";
import { applySplices, type Splice } from "../../json/splice.ts";
import { listenForTest, type TestListener, textResponse } from "../../net/http-server/listen.test-support.ts";
import type { UpstreamBody } from "../../protocols/shared/request.ts";
import { openTestBudget } from "./body-budget.test-support.ts";
import {
  bodyWithSplice,
  type SpoolBudgets,
  type SpooledBody,
  type SpoolOptions,
  type SpoolRejection,
  spoolBody,
  sweepSpool,
} from "./spool.ts";

const deadlines = openDeadlines(10, systemClock);

const MEMORY_BYTES_MAX = 10_000;

let budgets: SpoolBudgets;

let dir: string;
let server: TestListener;
let options: SpoolOptions;
let spooling: PromiseWithResolvers<SpooledBody | SpoolRejection>;

beforeAll(() => {
  server = listenForTest(async (request) => {
    try {
      const result = await spoolBody(request, options);
      spooling.resolve(result);
      return textResponse(result.ok ? "spooled" : result.reason);
    } catch (thrown) {
      spooling.reject(thrown);
      return textResponse("failed", 500);
    }
  });
});

afterAll(() => server.closeNow());

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "spool-test-"));
  budgets = { small: openTestBudget(10_000_000), disk: openTestBudget(50_000_000) };
  options = {
    ...limits.bodyReading,
    bytesMax: 5_000_000,
    memoryBytesMax: MEMORY_BYTES_MAX,
    dir,
    idleTimeoutMs: 20_000,
    deadlines,
    budgets,
    owner: { id: "key_1", userId: null },
  };
  spooling = Promise.withResolvers();
});

afterEach(() => {
  expect(openFiles()).toEqual([]);
  rmSync(dir, { recursive: true, force: true });
});

/** The files in the folder that the process has open, linked or not. */
function openFiles(): string[] {
  if (process.platform !== "linux") return [];
  return readdirSync("/proc/self/fd").flatMap((fd) => {
    try {
      const path = readlinkSync(`/proc/self/fd/${fd}`);
      return path.startsWith(`${dir}/`) ? [path] : [];
    } catch {
      return []; // The descriptor of this listing itself.
    }
  });
}

async function spool(
  body: Uint8Array,
  headers: Record<string, string> = {},
): Promise<SpooledBody | SpoolRejection> {
  spooling = Promise.withResolvers();
  const asking = fetch(server.url, { method: "POST", body: Buffer.from(body), headers });
  const [result] = await Promise.all([spooling.promise, asking]);
  return result;
}

async function spooled(body: Uint8Array): Promise<SpooledBody> {
  const result = await spool(body);
  if (!result.ok) throw new Error(`refused: ${result.reason}`);
  return result;
}

async function collect(content: UpstreamBody): Promise<Buffer> {
  return Buffer.from(
    "open" in content ? await Bun.readableStreamToBytes(content.open()) : joinParts(content),
  );
}

function measureLength(content: UpstreamBody): number {
  return "open" in content ? content.contentLength : joinParts(content).length;
}

const createBytes = (length: number) =>
  Uint8Array.from({ length }, (_, index) => (index * 7 + (index >> 8)) & 0xff);

const SIZES = [0, 1, MEMORY_BYTES_MAX, MEMORY_BYTES_MAX + 1, 70_000, 3_000_000];

describe("a spooled body", () => {
  test.each(SIZES)("of %d bytes can be read again, completely and in part", async (size) => {
    const bytes = createBytes(size);
    const body = await spooled(bytes);
    expect(body.bytes).toBe(size);
    for (const [start, end] of [
      [0, size],
      [size >> 1, size],
      [size >> 2, (size >> 2) + 5],
      [size, size + 10],
    ] as const) {
      expect(Buffer.from(await body.slice(start, end)).equals(bytes.subarray(start, end))).toBe(true);
    }
    await body.dispose();
  });

  test("stays in memory up to the limit, and is an open unlinked file above it", async () => {
    const small = await spooled(createBytes(MEMORY_BYTES_MAX));
    expect(small.memory?.length).toBe(MEMORY_BYTES_MAX);
    expect(openFiles().length).toBe(0);
    const large = await spooled(createBytes(MEMORY_BYTES_MAX + 1));
    expect(large.memory).toBeNull();
    if (process.platform === "linux") expect(openFiles().length).toBe(1);
    expect(readdirSync(dir)).toEqual([]);
    await large.dispose();
  });

  test("cannot be read after dispose, which may be called twice", async () => {
    const body = await spooled(createBytes(50_000));
    await body.dispose();
    await body.dispose();
    await expect(body.slice(0, 10)).rejects.toThrow();
  });

  test("passes every byte to onChunk, in order", async () => {
    const seen: Uint8Array[] = [];
    options.onChunk = (chunk) => seen.push(chunk.slice()) > 0;
    const bytes = createBytes(300_000);
    await (await spooled(bytes)).dispose();
    expect(Buffer.concat(seen).equals(bytes)).toBe(true);
  });
});

describe("spooling stops and closes its file", () => {
  test("when onChunk returns false", async () => {
    let seenBytes = 0;
    options.onChunk = (chunk) => {
      seenBytes += chunk.length;
      return seenBytes < 100_000;
    };
    expect(await spool(createBytes(3_000_000))).toMatchObject({ ok: false, reason: "stopped" });
    expect(seenBytes).toBeLessThan(3_000_000);
  });

  test("when the body is too large, by its Content-Length or by the received bytes", async () => {
    options.bytesMax = 100_000;
    expect(await spool(createBytes(100_001))).toMatchObject({ reason: "too_large" });
    const piece = createBytes(30_000);
    async function* pieces() {
      for (let i = 0; i < 5; i++) yield piece;
    }
    spooling = Promise.withResolvers();
    await fetch(server.url, { method: "POST", body: pieces() });
    expect(await spooling.promise).toMatchObject({ reason: "too_large" });
  });

  test("when the client disconnects", async () => {
    const socket = connect(server.port, "127.0.0.1", () => {
      socket.write("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 500000\r\n\r\n");
      socket.write(createBytes(200_000), () => socket.end());
    });
    expect(await spooling.promise).toMatchObject({ reason: "aborted" });
  });

  test("when the client stops sending", async () => {
    options.idleTimeoutMs = 50;
    const socket = connect(server.port, "127.0.0.1", () => {
      socket.write("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 500000\r\n\r\n");
      socket.write(createBytes(200_000));
    });
    expect(await spooling.promise).toMatchObject({ reason: "idle_timeout" });
    socket.destroy();
  });

  test("when the disk fails, with the cause for the log", async () => {
    options.dir = join(dir, "missing");
    expect(await spool(createBytes(50_000))).toMatchObject({ reason: "disk", cause: { code: "ENOENT" } });
    expect(await spool(createBytes(50))).toMatchObject({ ok: true });
  });

  test("when onChunk throws, and rethrows its error", async () => {
    options.onChunk = () => {
      throw new Error("a bug");
    };
    await expect(spool(createBytes(50_000))).rejects.toThrow("a bug");
  });

  test("at once for an unsupported encoding", async () => {
    expect(await spool(createBytes(100), { "content-encoding": "compress" })).toMatchObject({
      reason: "unsupported_encoding",
    });
  });
});

describe("a compressed spooled body", () => {
  const PACKERS: Record<string, (bytes: Uint8Array) => Uint8Array> = {
    gzip: gzipSync,
    deflate: deflateSync,
    br: brotliCompressSync,
    zstd: zstdCompressSync,
  };

  test.each(Object.entries(PACKERS))("in %s is stored decoded", async (encoding, pack) => {
    for (const bytes of [createBytes(100), createBytes(700_000)]) {
      const spooled = await spool(pack(bytes), { "content-encoding": encoding });
      if (!spooled.ok) throw new Error(spooled.reason);
      expect(spooled.bytes).toBe(bytes.length);
      expect(Buffer.from(await spooled.slice(0, bytes.length)).equals(bytes)).toBe(true);
      await spooled.dispose();
    }
  });

  test.each(Object.entries(PACKERS))(
    "in %s that is a decompression bomb is rejected",
    async (encoding, pack) => {
      const bomb = pack(Buffer.alloc(20_000_000));
      expect(await spool(bomb, { "content-encoding": encoding })).toMatchObject({ reason: "too_dense" });
    },
  );

  test("with invalid data is rejected", async () => {
    expect(await spool(createBytes(50_000), { "content-encoding": "gzip" })).toMatchObject({
      reason: "bad_encoding",
    });
  });

  test("stops when onChunk returns false", async () => {
    options.onChunk = () => false;
    expect(await spool(gzipSync(createBytes(700_000)), { "content-encoding": "gzip" })).toMatchObject({
      reason: "stopped",
    });
  });

  test("that stops arriving gets an idle timeout", async () => {
    options.idleTimeoutMs = 50;
    const packed = gzipSync(createBytes(300_000));
    const socket = connect(server.port, "127.0.0.1", () => {
      socket.write("POST / HTTP/1.1\r\nHost: test\r\nContent-Encoding: gzip\r\n");
      socket.write(`Content-Length: ${packed.length}\r\n\r\n`);
      socket.write(packed.subarray(0, 1_000));
    });
    expect(await spooling.promise).toMatchObject({ reason: "idle_timeout" });
    socket.destroy();
  });

  test("reports the cause if the disk fails", async () => {
    options.dir = join(dir, "missing");
    const packed = gzipSync(createBytes(50_000));
    expect(await spool(packed, { "content-encoding": "gzip" })).toMatchObject({
      reason: "disk",
      cause: { code: "ENOENT" },
    });
  });
});

describe("a body with splices", () => {
  const splices = (bytes: number) =>
    fc
      .uniqueArray(fc.nat(bytes), { maxLength: 8 })
      .chain((places) =>
        fc.tuple(
          fc.constant(places.sort((a, b) => a - b)),
          fc.array(fc.uint8Array({ maxLength: 20 }), { minLength: 4, maxLength: 4 }),
        ),
      )
      .map(([places, inserts]) =>
        inserts.flatMap((insert, index): Splice[] => {
          const [start, end] = [places[index * 2], places[index * 2 + 1]];
          return start === undefined || end === undefined ? [] : [{ start, end, insert }];
        }),
      );

  test.each([9_000, 600_000])(
    "of %d bytes is the same from disk and from memory, at every attempt",
    async (size) => {
      const bytes = createBytes(size);
      const body = await spooled(bytes);
      await fc.assert(
        fc.asyncProperty(splices(size), async (changes) => {
          const expected = applySplices(bytes, changes);
          for (let attempt = 0; attempt < 2; attempt++) {
            const content = bodyWithSplice(body, changes.toReversed());
            expect(measureLength(content)).toBe(expected.length);
            expect((await collect(content)).equals(expected)).toBe(true);
          }
        }),
        { numRuns: 25 },
      );
      await body.dispose();
    },
  );

  test("throws if the splices overlap", async () => {
    const insert = new Uint8Array(1);
    const overlapping = [
      { start: 0, end: 10, insert },
      { start: 5, end: 20, insert },
    ];
    for (const size of [100, 50_000]) {
      const body = await spooled(createBytes(size));
      expect(() => bodyWithSplice(body, overlapping)).toThrow(RangeError);
      expect(() => bodyWithSplice(body, [{ start: 0, end: size + 1, insert }])).toThrow(RangeError);
      await body.dispose();
    }
  });

  test("is sent upstream with a Content-Length, not chunked, at each attempt", async () => {
    const bytes = createBytes(900_000);
    const insert = new TextEncoder().encode("upstream-model");
    const changes = [{ start: 300_000, end: 300_007, insert }];
    const body = await spooled(bytes);
    const upstream = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      async fetch(request) {
        const same = Buffer.from(await request.bytes()).equals(applySplices(bytes, changes));
        const { headers } = request;
        return Response.json([headers.get("content-length"), headers.get("transfer-encoding"), same]);
      },
    });
    for (let attempt = 0; attempt < 2; attempt++) {
      const content = bodyWithSplice(body, changes);
      if (!("open" in content)) throw new Error("expected a file");
      const headers = { "content-length": String(content.contentLength) };
      const response = await fetch(upstream.url, { method: "POST", body: content.open(), headers });
      expect(await response.json()).toEqual(["900007", null, true]);
    }
    await upstream.stop(true);
    await body.dispose();
  });

  test("fails the upload instead of sending a truncated body after dispose", async () => {
    const body = await spooled(createBytes(50_000));
    const content = bodyWithSplice(body, []);
    await body.dispose();
    await expect(collect(content)).rejects.toThrow();
  });
});

describe("the spool folder", () => {
  test("is created with access for this user only", async () => {
    const inner = join(dir, "a", "spool");
    await sweepSpool(inner);
    expect(statSync(inner).mode & 0o777).toBe(0o700);
  });

  test("loses the leftover files of a dead process, and no other files", async () => {
    writeFileSync(join(dir, `spool-${crypto.randomUUID()}`), "left");
    writeFileSync(join(dir, "spool-notes.txt"), "mine");
    await sweepSpool(dir);
    expect(readdirSync(dir)).toEqual(["spool-notes.txt"]);
  });
});

describe("the shared budget of spooled bodies", () => {
  test("is reserved by each body and released however the body ends", async () => {
    options.bytesMax = 1_000_000;
    const reservation = await spooled(createBytes(700_000));
    expect(budgets.disk.report().heldBytes).toBe(700_000);
    expect(budgets.small.report().heldBytes).toBe(0);
    const inMemory = await spooled(createBytes(5_000));
    expect(budgets.small.report().heldBytes).toBe(5_000);
    await Promise.all([reservation.dispose(), inMemory.dispose()]);
    expect([budgets.disk.report().heldBytes, budgets.small.report().heldBytes]).toEqual([0, 0]);
    options.onChunk = () => false;
    expect(await spool(createBytes(700_000))).toMatchObject({ reason: "stopped" });
    expect([budgets.disk.report().heldBytes, budgets.small.report().heldBytes]).toEqual([0, 0]);
  });

  test("rejects a body if it is full, compressed or not", async () => {
    options.budgets = { ...budgets, disk: openTestBudget(1_000_000) };
    const reservation = await spooled(createBytes(700_000));
    options.owner = { id: "key_2", userId: null };
    for (const [body, headers] of [
      [createBytes(700_000), {}],
      [gzipSync(createBytes(700_000)), { "content-encoding": "gzip" }],
    ] as const) {
      expect(await spool(body, headers)).toMatchObject({ reason: "no_room", of: "disk" });
    }
    await reservation.dispose();
    expect(options.budgets.disk.report().heldBytes).toBe(0);
  });
});
