/** The measuring itself: an attack that costs nothing is reported as such. */

import { expect, test } from "bun:test";
import { measureAttack, startAttackTarget } from "./attack.ts";

test("an attack that sends nothing costs next to nothing", async () => {
  const target = await startAttackTarget();
  try {
    const report = await measureAttack("nothing", target, () => Bun.sleep(300));
    expect(report.durationMs).toBeGreaterThanOrEqual(300);
    expect(report.diskGrowthBytes).toBeLessThan(4 * 1024 * 1024);
    expect(report.worstHealthMs).toBeGreaterThan(0);
  } finally {
    await target.stop();
  }
});
