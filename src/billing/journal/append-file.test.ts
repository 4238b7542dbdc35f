import { describe, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readFileSync, statfsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createMappedFile, createUnmappedFile } from "./append-file.ts";

const newPath = () => join(mkdtempSync(join(tmpdir(), "gateway-lines-")), "lines");

function line(text: string) {
  const bytes = Buffer.from(`${text}\n`);
  return { bytes, length: bytes.length };
}

/** The content of the file as another reader sees it now. */
function readLines(path: string): string[] {
  const bytes = readFileSync(path);
  const end = bytes.indexOf(0);
  return bytes
    .toString("utf8", 0, end === -1 ? bytes.length : end)
    .split("\n")
    .slice(0, -1);
}

/** Runs the code in a separate process. */
function run(prelude: string, code: string) {
  const script = `import { createMappedFile, createUnmappedFile } from "${join(import.meta.dir, "append-file.ts")}"; ${line} ${code}`;
  const { exitCode, signalCode, stdout } = Bun.spawnSync([
    "bash",
    "-c",
    `${prelude} exec "$0" -e "$1"`,
    process.execPath,
    script,
  ]);
  return { exitCode, signalCode, said: stdout.toString().trim() };
}

describe.each([
  ["mapped", createMappedFile],
  ["unmapped", createUnmappedFile],
])("an append file (%s)", (_, make) => {
  test("a line is readable as soon as it is appended", () => {
    const path = newPath();
    const file = make(path, 100);
    expect(file.put(line("first"))).toBe(true);
    expect(readLines(path)).toEqual(["first"]);
    expect(file.put(line("zweite ü €"))).toBe(true);
    expect(readLines(path)).toEqual(["first", "zweite ü €"]);
    file.close();
    expect(readLines(path)).toEqual(["first", "zweite ü €"]);
  });

  test("rejects a line that is longer than the remaining space", () => {
    const path = newPath();
    const file = make(path, 40);
    expect(file.put(line("0123456789"))).toBe(true);
    expect(file.put(line("0123456789"))).toBe(true);
    expect(file.put(line("€€€€€€"))).toBe(false);
    expect(file.put(line("€€€€€"))).toBe(true);
    expect(file.put(line(""))).toBe(true);
    expect(file.put(line("1"))).toBe(false);
    expect(file.put(line(""))).toBe(true);
    expect(file.put(line(""))).toBe(false);
    expect(readLines(path)).toEqual(["0123456789", "0123456789", "€€€€€", "", ""]);
    file.close();
  });

  test("keeps its lines when the process is killed", () => {
    const path = newPath();
    const { signalCode } = run(
      "",
      `const file = ${make.name}("${path}", 1000); file.put(line("one")); file.put(line("two")); process.kill(process.pid, 9);`,
    );
    expect(signalCode).toBe("SIGKILL");
    expect(readLines(path)).toEqual(["one", "two"]);
  });

  test("reports a full disk at once, and the process continues", () => {
    const path = newPath();
    // A file may have eight blocks of a kilobyte. Larger files fail as on a full disk.
    const { exitCode, said } = run(
      "trap '' XFSZ; ulimit -f 8;",
      `let lines = 0;
       try {
         const file = ${make.name}("${path}", 100_000);
         while (file.put(line("x".repeat(100)))) lines++;
       } catch (error) { console.log(lines, error.code ?? error.message); }`,
    );
    expect(exitCode).toBe(0);
    expect(said).toMatch(make === createMappedFile ? /^0 / : /^81 /);
    if (make === createMappedFile) expect(existsSync(path)).toBe(false);
    else expect(readLines(path).every((line) => line.length === 100)).toBe(true);
  });
});

test("closing a mapped file unmaps its memory at once", () => {
  const path = newPath();
  const mappings = () => readFileSync("/proc/self/maps", "utf8").split(path).length - 1;
  const open = createMappedFile(path, 10_000);
  expect(mappings()).toBe(1);
  open.close();
  for (let many = 0; many < 100; many++) createMappedFile(path, 10_000).close();
  expect(mappings()).toBe(0);
});

const EXT = 0xef53;

test.if(statfsSync(tmpdir()).type === EXT)("sync leaves no dirty pages", async () => {
  const path = newPath();
  const file = createMappedFile(path, 10_000);
  file.put(line("a line"));
  await file.sync();
  const [, mapping = ""] = readFileSync("/proc/self/smaps", "utf8").split(path);
  expect(mapping.match(/^(Shared|Private)_Dirty: +(\d+) kB$/gm)?.slice(0, 2)).toEqual([
    expect.stringMatching(/ 0 kB$/),
    expect.stringMatching(/ 0 kB$/),
  ]);
  file.close();
});
