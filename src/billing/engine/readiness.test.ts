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
    sendHeartbeat: async () => void writes++,
    acceptsHolds: () => true,
    spoolDir,
    segmentBytes: 4_096,
    monotonicMs: () => nowMs,
    limits: { timeoutMs: 10_000, cacheMs: 1_000 },
    ...change,
  });

describe("readiness", () => {
  test("is true when the database accepts a row and the disk a file, and leaves neither behind", async () => {
    expect(await open()()).toBe(true);
    expect(writes).toBe(1);
    expect(readdirSync(spoolDir)).toEqual([]);
  });

  test("is false while the database can be read but not written", async () => {
    const sendHeartbeat = () => Promise.reject(new Error("cannot execute INSERT in a read-only transaction"));
    expect(await open({ sendHeartbeat })()).toBe(false);
  });

  test("is false while the disk of the journal accepts no file", async () => {
    const file = join(spoolDir, "file");
    writeFileSync(file, "");
    expect(await open({ spoolDir: file })()).toBe(false);
  });

  test("is false in time while the database does not respond, with a single query for all checks", async () => {
    const responses: (() => void)[] = [];
    const sendHeartbeat = () => new Promise<void>((resolve) => void responses.push(resolve));
    const isReady = open({ sendHeartbeat, limits: { timeoutMs: 300, cacheMs: 1_000 } });
    expect(await Promise.all([isReady(), isReady()])).toEqual([false, false]);
    nowMs += 1_000;
    expect(await isReady()).toBe(false);
    expect(responses).toHaveLength(1);
    for (const respond of responses) respond();
    await Bun.sleep(1);
    nowMs += 1_000;
    const next = isReady();
    responses.at(-1)?.();
    expect(await next).toBe(true);
  });

  test("is checked once a second, and turns false at once when the billing engine is unhealthy", async () => {
    let isWell = true;
    const isReady = open({ acceptsHolds: () => isWell });
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
