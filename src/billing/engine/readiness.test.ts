import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openReadiness, type ReadinessOptions } from "./readiness.ts";

let spoolDir: string;
let nowMs: number;
let writes: number;

beforeEach(() => {
  spoolDir = mkdtempSync(join(tmpdir(), "readiness-"));
  nowMs = 0;
  writes = 0;
});
afterEach(() => rmSync(spoolDir, { recursive: true }));

const open = (change: Partial<ReadinessOptions> = {}) =>
  openReadiness({
    sayAlive: async () => void writes++,
    isWell: () => true,
    spoolDir,
    segmentBytes: 4_096,
    monotonicMs: () => nowMs,
    limits: { patienceMs: 20, freshMs: 1_000 },
    ...change,
  });

describe("a gateway is ready", () => {
  test("when the store takes a row and the disk a file, of which nothing is left", async () => {
    expect(await open()()).toBe(true);
    expect(writes).toBe(1);
    expect(readdirSync(spoolDir)).toEqual([]);
  });

  test("not while the store can be read and takes nothing", async () => {
    const sayAlive = () => Promise.reject(new Error("cannot execute INSERT in a read-only transaction"));
    expect(await open({ sayAlive })()).toBe(false);
  });

  test("not while the disk of the journal takes no file", async () => {
    const file = join(spoolDir, "file");
    writeFileSync(file, "");
    expect(await open({ spoolDir: file })()).toBe(false);
  });

  test("not while the store is silent, which is told in time, however often it is asked", async () => {
    const answers: (() => void)[] = [];
    const sayAlive = () => new Promise<void>((resolve) => void answers.push(resolve));
    const isReady = open({ sayAlive });
    expect(await Promise.all([isReady(), isReady()])).toEqual([false, false]);
    nowMs += 1_000;
    expect(await isReady()).toBe(false);
    expect(answers).toHaveLength(1);
    for (const answer of answers) answer();
    await Bun.sleep(1);
    nowMs += 1_000;
    const next = isReady();
    answers.at(-1)?.();
    expect(await next).toBe(true);
  });

  test("by one look a second, and not for the rest of it once the till is unwell", async () => {
    let isWell = true;
    const isReady = open({ isWell: () => isWell });
    await isReady();
    nowMs += 999;
    expect(await isReady()).toBe(true);
    isWell = false;
    expect(await isReady()).toBe(false);
    expect(writes).toBe(1);
    isWell = true;
    nowMs += 1;
    expect(await isReady()).toBe(true);
    expect(writes).toBe(2);
  });
});
