/** Archives are read by the programs of the system exactly as they were written, and are the same every time. */

import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import fc from "fast-check";
import { readAr, writeAr } from "./ar.ts";
import { gzip } from "./compress.ts";
import { addFolders, findFile, readTar, type TarEntry, writeTar } from "./tar.ts";

const folder = mkdtempSync(join(tmpdir(), "model-gateway-archive-"));
afterAll(() => rmSync(folder, { recursive: true }));

const TIME = { timeSeconds: 1_700_000_000 };
const file = (path: string, content: string, mode = 0o644): TarEntry => ({
  kind: "file",
  path,
  mode,
  content: Buffer.from(content),
});

function run(...command: string[]): string {
  const { exitCode, stdout, stderr } = Bun.spawnSync(command);
  if (exitCode !== 0) throw new Error(stderr.toString());
  return stdout.toString();
}

describe("tar", () => {
  const long = `${"folder/".repeat(20)}file`;
  const entries: TarEntry[] = [
    file("b", "second", 0o755),
    file("a", "x".repeat(512)),
    file(long, "deep"),
    file("empty", ""),
    { kind: "folder", path: "data", mode: 0o700, owner: 65_532 },
    { kind: "link", path: "link", mode: 0o777, target: "b" },
  ];

  test("GNU tar lists and extracts every entry with its mode, owner and time", () => {
    const path = join(folder, "one.tar");
    writeFileSync(path, writeTar(entries, TIME));
    const lines = run("tar", "--list", "--verbose", "--numeric-owner", "--utc", "--file", path)
      .trim()
      .split("\n");
    expect(lines.map((line) => line.replaceAll(/ +/g, " "))).toEqual([
      "-rw-r--r-- 0/0 512 2023-11-14 22:13 a",
      "-rwxr-xr-x 0/0 6 2023-11-14 22:13 b",
      "drwx------ 65532/65532 0 2023-11-14 22:13 data/",
      "-rw-r--r-- 0/0 0 2023-11-14 22:13 empty",
      `-rw-r--r-- 0/0 4 2023-11-14 22:13 ${long}`,
      "lrwxrwxrwx 0/0 0 2023-11-14 22:13 link -> b",
    ]);
    expect(run("tar", "--extract", "--to-stdout", "--file", path, long)).toBe("deep");
  });

  test("the order of the entries does not change the bytes", () => {
    expect(writeTar(entries.toReversed(), TIME)).toEqual(writeTar(entries, TIME));
  });

  test("what is written is read again", () => {
    const path = fc
      .array(fc.string({ unit: fc.constantFrom("a", "b", "é", "-", "."), minLength: 1, maxLength: 40 }), {
        minLength: 1,
        maxLength: 5,
      })
      .map((parts) => parts.map((part) => `x${part}`).join("/"));
    const content = fc.uint8Array({ maxLength: 1_200 }).map((bytes) => Buffer.from(bytes));
    fc.assert(
      fc.property(fc.dictionary(path, content, { maxKeys: 8 }), (files) => {
        const written = Object.entries(files).map(
          ([name, bytes]): TarEntry => ({ kind: "file", path: name, mode: 0o644, content: bytes }),
        );
        const read = readTar(writeTar(written, { ...TIME, prefix: "./" }));
        expect(Object.fromEntries(read.map((one) => [one.path, one.kind === "file" && one.content]))).toEqual(
          files,
        );
      }),
      { numRuns: 200 },
    );
  });

  test("a path that is present twice, or too long for the format, is rejected", () => {
    expect(() => writeTar([file("a", "1"), file("a", "2")], TIME)).toThrow("a twice");
    expect(() => writeTar([file("x".repeat(101), "")], TIME)).toThrow("too long");
  });

  test("the folders of entries are added once, and links are followed", () => {
    const all = addFolders([file("a/b/c", ""), file("a/d", ""), { kind: "folder", path: "a", mode: 0o700 }]);
    expect(all.filter(({ kind }) => kind === "folder").map(({ path, mode }) => [path, mode])).toEqual([
      ["a", 0o700],
      ["a/b", 0o755],
    ]);
    const linked: TarEntry[] = [
      file("lib/libc-2.so", "C"),
      { kind: "link", path: "lib/libc.so", mode: 0o777, target: "libc-2.so" },
    ];
    expect(findFile(linked, "lib/libc.so")).toEqual(Buffer.from("C"));
    expect(() => findFile(linked, "lib/libm.so")).toThrow("no file lib/libm.so");
  });
});

describe("ar", () => {
  const members = [
    { name: "debian-binary", content: Buffer.from("2.0\n") },
    { name: "odd", content: Buffer.from("xyz") },
    { name: "last", content: Buffer.from("end") },
  ];

  test("what is written is read again, also behind a member of odd length", () => {
    const bytes = writeAr(members, TIME.timeSeconds);
    expect(bytes.length % 2).toBe(0);
    expect(readAr(bytes)).toEqual(members);
  });

  test("damaged archives and long names are rejected", () => {
    expect(() => readAr(Buffer.from("!<arch>\n".padEnd(100, "x")))).toThrow("damaged");
    expect(() => readAr(Buffer.from("PK"))).toThrow("not an ar archive");
    expect(() => writeAr([{ name: "a-name-of-16-byte", content: Buffer.alloc(0) }], 0)).toThrow("too long");
  });
});

test("gzip has no name and no time, so equal contents have equal bytes", () => {
  const packed = gzip(Buffer.from("content"));
  expect(packed.subarray(4, 8)).toEqual(Buffer.alloc(4));
  expect(packed).toEqual(gzip(Buffer.from("content")));
  expect(gunzipSync(packed).toString()).toBe("content");
});
