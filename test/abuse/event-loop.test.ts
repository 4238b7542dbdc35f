/**
 * No request may hold the event loop for long. Measured as the CPU time of the gateway's thread between two turns of the
 * loop, because CPU time does not grow when other processes use the machine.
 */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import { type AttackTarget, measureAttack, startAttackTarget } from "./attack-setup.ts";
import { attackBytes, SHAPES } from "./send-large-bodies.ts";

/** Below the rule of 50 ms. A garbage collection can happen in the same turn. */
const HELD_MS_MAX = 30;

let target: AttackTarget;

beforeAll(async () => {
  target = await startAttackTarget();
  // Starts threads, loads modules and compiles code before the measurement.
  await attack("ones");
  await attack("brotli");
});

afterAll(() => target.stop());

/** The attacker runs in a separate process, so that its work does not delay the measurement. */
async function attack(shape: string): Promise<void> {
  const child = Bun.spawn(
    [process.execPath, join(import.meta.dir, "send-large-bodies.ts"), target.url, shape],
    {
      stdin: "ignore",
      stdout: "inherit",
      stderr: "inherit",
    },
  );
  expect(await child.exited).toBe(0);
}

test.each([...SHAPES.keys()])(
  "%s of an attacker holds the event loop only for a few milliseconds at a time",
  async (shape) => {
    const { worstTurnMs } = await measureAttack(shape, target, {
      bytes: attackBytes(shape),
      run: () => attack(shape),
    });
    expect(worstTurnMs).toBeLessThan(HELD_MS_MAX);
  },
);
