/**
 * No request may block the event loop for long. Measured inside the gateway as the CPU time of its thread between two
 * turns of the loop, because CPU time does not grow when other processes use the machine.
 */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type RunningGateway, startTestGateway } from "../support/running-gateway.ts";

/** The rule is 20 ms; a garbage collection can happen in the same turn. */
const HELD_MS_MAX = 30;
const TICK_MS = 1;
/** The host of a virtual machine can stop it, which counts as CPU time. What the gateway does itself shows each time. */
const TRIES = 5;

let gateway: RunningGateway;
let upstream: Bun.Subprocess<"ignore", "pipe", "inherit">;

beforeAll(async () => {
  // Attackers and the upstream run in separate processes, so that their work is not measured.
  upstream = Bun.spawn(
    [process.execPath, join(import.meta.dir, "../../src/cli/main.ts"), "simulate", "--port", "0"],
    {
      stdin: "ignore",
      stdout: "pipe",
      stderr: "inherit",
    },
  );
  const { value } = await upstream.stdout.getReader().read();
  const url = /http:\S+\/v1/.exec(new TextDecoder().decode(value))?.[0] ?? "";
  gateway = await startTestGateway({ environment: { SIMULATOR_URL: url } });
  // Starts threads, loads modules and compiles code before the measurement.
  await attack("ones", 1);
  await attack("brotli", 1);
});

afterAll(async () => {
  await gateway.stop();
  upstream.kill();
  await upstream.exited;
});

/** Returns the CPU time of this thread so far. */
function threadCpuMs(): number {
  const text = readFileSync(`/proc/self/task/${process.pid}/schedstat`, "utf8");
  return Number(text.split(" ")[0]) / 1e6;
}

/** Measures the longest time that the event loop was blocked while `work` ran. */
async function measureHold(work: () => Promise<void>): Promise<number> {
  let longestMs = 0;
  let lastMs = threadCpuMs();
  const timer = setInterval(() => {
    const nowMs = threadCpuMs();
    longestMs = Math.max(longestMs, nowMs - lastMs);
    lastMs = nowMs;
  }, TICK_MS);
  try {
    await work();
  } finally {
    clearInterval(timer);
  }
  return longestMs;
}

async function attack(shape: string, times: number): Promise<void> {
  const child = Bun.spawn(
    [process.execPath, join(import.meta.dir, "send-large-bodies.ts"), gateway.url, shape, String(times)],
    { stdin: "ignore", stdout: "inherit", stderr: "inherit" },
  );
  expect(await child.exited).toBe(0);
}

test.each(["ones", "objects", "escaped quotes", "text", "brotli", "query"])(
  "%s of an attacker blocks the event loop only for a few milliseconds at a time",
  async (shape) => {
    let heldMs = Number.POSITIVE_INFINITY;
    for (let tries = 0; tries < TRIES && heldMs >= HELD_MS_MAX; tries++) {
      heldMs = Math.min(heldMs, await measureHold(() => attack(shape, 1)));
    }
    console.log(`attack: ${shape}: the event loop was held for ${heldMs.toFixed(1)} ms of CPU time at most`);
    expect(heldMs).toBeLessThan(HELD_MS_MAX);
  },
);
