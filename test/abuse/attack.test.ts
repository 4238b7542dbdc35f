/** Tests the measurement itself: an attack that sends nothing is reported as free. */

import { expect, test } from "bun:test";
import { measureAttack, startAttackTarget } from "./attack-setup.ts";

test("an attack that sends nothing has almost no cost", async () => {
  const target = await startAttackTarget();
  try {
    const report = await measureAttack("nothing", target, { bytes: 0, run: () => Bun.sleep(300) });
    expect(report.durationMs).toBeGreaterThanOrEqual(300);
    expect(report.diskGrowthBytes).toBeLessThan(4 * 1024 * 1024);
    expect(report.worstHealthMs).toBeGreaterThan(0);
  } finally {
    await target.stop();
  }
});
