import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { limits } from "../limits/product-limits.ts";
import { readTreeInWorker } from "./yaml-in-worker.ts";

const read = (text: string) => readTreeInWorker({ text, environment: {} });
const MiB = 2 ** 20;

function peakBytes(): number {
  return Number(/VmHWM:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))?.[1]) * 1024;
}

test("a short text that takes much memory is rejected, and the next one is read", async () => {
  const text = `models: [${"a,".repeat(2 * MiB)}]`;
  const before = peakBytes();
  const [rejected, next] = await Promise.all([read(text), read(`name: ${"x".repeat(10_000)}`)]);
  expect(rejected).toMatchObject({
    ok: false,
    problems: [{ message: expect.stringContaining("too much memory") }],
  });
  expect(next.ok).toBe(true);
  const { baseMemoryBytes, memoryBytesPerChar } = limits.configParsing;
  // It grows until the next check.
  expect(peakBytes() - before).toBeLessThan(1.5 * (baseMemoryBytes + memoryBytesPerChar * text.length));
}, 60_000);
