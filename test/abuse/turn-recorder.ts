/**
 * Loaded into the gateway's process before its code: appends the CPU time of every long turn of the event loop to a
 * file. On SIGUSR2 it collects garbage and writes the bytes of the living objects, which is what the gateway keeps after an
 * attack.
 */

import { heapStats } from "bun:jsc";
import { appendFileSync, writeFileSync } from "node:fs";
import { isMainThread } from "node:worker_threads";

const TICK_MS = 1;
/** Shorter turns are not written. */
const RECORDED_MS = 3;

const file = process.env.TURN_RECORD;
if (file !== undefined && isMainThread) recordTurns(file);

function recordTurns(path: string): void {
  let cpuMs = threadCpuMs();
  let atMs = performance.now();
  setInterval(() => {
    const nowMs = performance.now();
    const nowCpuMs = threadCpuMs();
    // The host of a virtual machine can stop it, which may count as CPU time of the thread.
    const turnMs = Math.min(nowCpuMs - cpuMs, nowMs - atMs);
    cpuMs = nowCpuMs;
    atMs = nowMs;
    if (turnMs >= RECORDED_MS) appendFileSync(path, `${turnMs.toFixed(1)}\n`);
  }, TICK_MS).unref();
  process.on("SIGUSR2", () => {
    Bun.gc(true);
    const { heapSize, extraMemorySize } = heapStats();
    const heapFile = process.env.HEAP_RECORD;
    if (heapFile !== undefined) writeFileSync(heapFile, String(heapSize + extraMemorySize));
  });
}

function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}
