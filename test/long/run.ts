/**
 * `npm run test:long`: what takes minutes of real time. Each check prints what it saw; the run fails if one does not
 * hold.
 */

import { abortsLeaveNothing } from "./aborts.ts";
import { minuteHolds } from "./rate-limit-minute.ts";

const CHECKS: readonly { name: string; run(): Promise<string> }[] = [
  { name: "no 60 seconds ever hold more requests than the limit says", run: minuteHolds },
  { name: "10,000 clients that leave at random leave nothing behind", run: abortsLeaveNothing },
];

let failed = 0;
for (const { name, run } of CHECKS) {
  console.log(`── ${name}`);
  const startedMs = performance.now();
  try {
    console.log(`   ${await run()}`);
  } catch (error) {
    failed++;
    console.log(`   FAILED: ${error instanceof Error ? error.message : error}`);
  }
  console.log(`   ${((performance.now() - startedMs) / 1000).toFixed(0)} s`);
}
console.log(`${CHECKS.length - failed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
