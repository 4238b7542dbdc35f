/** The single executable, in an empty folder. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { TARGETS } from "../../release/targets.ts";
import { artefact, emptyFolder, expectWorking, run, startInstalled, VERSION } from "./support.ts";

const folder = emptyFolder();
const executable = join(folder, `model-gateway-${VERSION}-linux-x64`, "model-gateway");
const work = join(folder, "work");

beforeAll(() => {
  mkdirSync(work);
  run(["tar", "xzf", artefact("-linux-x64.tar.gz"), "-C", folder]);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("selftest starts every thread, counts tokens and opens a database", () => {
  const out = run([executable, "selftest"], { cwd: work });
  expect(out).not.toContain("✗");
  expect(out.split("\n").filter((line) => line.startsWith("✓")).length).toBeGreaterThanOrEqual(9);
  expect(readdirSync(work)).toEqual([]);
});

test("it serves a stream, and restarts itself once for the allocator settings under the same process id", async () => {
  const gateway = await startInstalled([executable, "start"], { cwd: work });
  await expectWorking(gateway, readFileSync(join(work, "data", "demo.key"), "utf8"));
  expect(readFileSync(`/proc/${gateway.pid}/environ`, "utf8")).toContain("MIMALLOC_PURGE_DELAY=60000");
  expect(run([executable, "doctor", "--live"], { cwd: work })).toContain("answers");
  expect(gateway.output()).toContain("or run  model-gateway admin claim");
  expect(await gateway.stop()).toBe(0);
});

test("it is ready within half a second on an existing store", async () => {
  const times: number[] = [];
  for (let round = 0; round < 5; round++) {
    const gateway = await startInstalled([executable, "start"], { cwd: work });
    times.push(Number(/ready in (\d+) ms/.exec(gateway.output())?.[1] ?? Number.NaN));
    await gateway.stop();
  }
  console.log(`ready after ${times.join(", ")} ms`);
  expect(Math.min(...times)).toBeLessThanOrEqual(500);
});

test("it reads neither .env nor bunfig.toml of the working folder", async () => {
  const evil = join(folder, "evil");
  mkdirSync(evil);
  writeFileSync(join(evil, ".env"), "MODEL_GATEWAY_DATA=/nonexistent/from-dotenv\n");
  writeFileSync(join(evil, "bunfig.toml"), 'preload = ["./evil.ts"]\n');
  writeFileSync(join(evil, "evil.ts"), 'await Bun.write("ran", "yes");\n');
  expect(run([executable, "--version"], { cwd: evil })).toBe(`${VERSION}\n`);
  const gateway = await startInstalled([executable, "start"], { cwd: evil });
  expect(existsSync(join(evil, "data", "gateway.db"))).toBe(true);
  await gateway.stop();
  expect(existsSync(join(evil, "ran"))).toBe(false);
});

test.each(TARGETS.map(({ name }) => name))(
  "the executable for %s is for its processor and C library",
  (name) => {
    run(["tar", "xzf", artefact(`-${name}.tar.gz`), "-C", folder]);
    const bytes = readFileSync(join(folder, `model-gateway-${VERSION}-${name}`, "model-gateway"));
    // The field e_machine of ELF.
    expect(bytes.readUInt16LE(18)).toBe(name.includes("arm64") ? 183 : 62);
    const loader = name.includes("musl") ? "/lib/ld-musl-" : "ld-linux-";
    expect(bytes.subarray(0, 4_096).includes(loader)).toBe(true);
  },
);
