/** Queries with many parameters, from clients without a key. */

import { afterAll, beforeAll, expect, test } from "bun:test";
import { type AttackTarget, measureAttack, startAttackTarget, TURN_MS_MAX } from "./attack-setup.ts";

let target: AttackTarget;
beforeAll(async () => {
  target = await startAttackTarget();
  // Loads the modules of the console's API with a first call, so that the attack does not measure it.
  await fetch(`${target.url}/api/openapi.json`);
});
afterAll(() => target.stop());

const PARAMETERS = 15_000;
const query = Array.from({ length: PARAMETERS }, (_, i) => i.toString(36)).join("&");
const PATHS = ["/api/session", "/api/openapi.json", "/v1/models", "/v1/usage", "/v1/responses/resp_1"];

test("15,000 distinct query parameters are cheap on every path that reads a query", async () => {
  expect(query.length).toBeLessThan(60_000);
  const report = await measureAttack(`${PATHS.length} queries of ${PARAMETERS} parameters`, target, {
    bytes: PATHS.length * query.length,
    async run() {
      for (const path of PATHS) {
        const response = await fetch(`${target.url}${path}?${query}`);
        expect([400, 401]).toContain(response.status);
        await response.arrayBuffer();
      }
    },
  });
  // One such query used 4,700 ms of CPU when each name was compared with all others.
  expect(report.cpuMs).toBeLessThan(700);
  expect(report.worstTurnMs).toBeLessThan(TURN_MS_MAX);
});
