/**
 * `npm run faults`: what must hold for money when things are killed, cut, aborted or changed under way. Each fault
 * prints what was seen beside what was wanted; the run fails if one does not hold.
 *
 *     npm run faults -- --only kill9,onecent --times 3 --store postgres
 *     npm run faults -- --only fraud --scenarios parking,windows
 *     npm run faults -- --nodes 3 --redis
 */

import { parseArgs } from "node:util";
import { installPackages } from "../support/install-dependencies.ts";
import { hasOwnNetwork, runInOwnNetwork } from "../support/own-network.ts";
import { aborts } from "./aborts.ts";
import { changes } from "./changes.ts";
import { clockSteps } from "./clock-steps.ts";
import { estimate } from "./estimated-usage.ts";
import { type Fault, table } from "./fault.ts";
import { fraud } from "./fraud.ts";
import { SCENARIOS } from "./fraud-scenarios.ts";
import { kill9, subscriptions } from "./kill9.ts";
import { mixed } from "./kill9-mixed.ts";
import { wasTimed } from "./ledger-checks.ts";
import { NODE_FAULTS } from "./node-faults.ts";
import { diskErrors, diskFull, frozen, slowDisk, syncFails } from "./one-node.ts";
import { processes } from "./processes.ts";
import { oneCent } from "./small-balance.ts";
import { translated } from "./translated.ts";
import { writeBehind } from "./write-behind.ts";

const ONE_NODE_FAULTS: readonly Fault[] = [
  oneCent,
  estimate,
  changes,
  aborts,
  translated,
  diskFull,
  diskErrors,
  syncFails,
  slowDisk,
  frozen,
  clockSteps,
  mixed,
  subscriptions,
  writeBehind,
  fraud,
  processes,
  kill9,
];

const { values } = parseArgs({
  options: {
    only: { type: "string" },
    times: { type: "string" },
    store: { type: "string" },
    scenarios: { type: "string" },
    nodes: { type: "string" },
    redis: { type: "boolean" },
    "other-version": { type: "string" },
  },
});
const nodes = Number(values.nodes ?? "1");
const FAULTS = nodes > 1 ? NODE_FAULTS : ONE_NODE_FAULTS;
const names = FAULTS.map(({ name }) => name);
const wanted = values.only?.split(",") ?? names;
const times = values.times === undefined ? null : Number(values.times);
const scenarioNames = SCENARIOS.map(({ name }) => name);
const scenarios = values.scenarios?.split(",") ?? null;
const isUsable =
  (scenarios === null || scenarios.every((name) => scenarioNames.includes(name))) &&
  wanted.every((name) => names.includes(name)) &&
  (times === null || (Number.isSafeInteger(times) && times > 0)) &&
  Number.isSafeInteger(nodes) &&
  nodes > 0 &&
  nodes <= 9 &&
  [undefined, "sqlite", "postgres"].includes(values.store);
if (!isUsable) {
  console.log(
    `npm run faults -- [--only ${names.join(",")}] [--times N] [--store sqlite|postgres] [--scenarios ${scenarioNames.join(",")}] [--nodes N [--redis] [--other-version FOLDER]]`,
  );
  process.exit(2);
}

await installPackages((message) => console.log(`── ${message}`));
let failed = 0;
const timings: boolean[] = [];
for (const { name, promise, needsOwnNetwork, run } of FAULTS.filter((fault) => wanted.includes(fault.name))) {
  if (needsOwnNetwork && !hasOwnNetwork()) {
    const repeated = times === null ? [] : ["--times", String(times)];
    const program = [process.execPath, import.meta.path, "--only", name, ...repeated];
    if ((await runInOwnNetwork(program)) !== 0) failed++;
    continue;
  }
  console.log(`── ${name}: ${promise}`);
  const startedMs = performance.now();
  const seconds = () => ((performance.now() - startedMs) / 1000).toFixed(0).padStart(4);
  let holds = false;
  try {
    const findings = await run({
      times,
      store: values.store === "postgres" ? "postgres" : "sqlite",
      scenarios,
      nodes,
      withRedis: values.redis === true,
      otherVersion: values["other-version"] ?? null,
      say: (line) => console.log(`${seconds()} s  ${line}`),
    });
    console.log(table(findings));
    holds = findings.every(({ isRight }) => isRight);
    const isTimed = wasTimed(findings);
    if (isTimed !== null) timings.push(isTimed);
  } catch (error) {
    console.log(`   ${error instanceof Error ? (error.stack ?? error.message) : error}`);
  }
  if (!holds) failed++;
  console.log(`   ${name} ${holds ? "holds" : "DOES NOT HOLD"}, after ${seconds().trim()} s`);
}
console.log(`${wanted.length - failed} hold, ${failed} do not`);
// The lower bound of recovered requests was checked nowhere.
const isUntimed = timings.length > 0 && !timings.includes(true);
if (isUntimed) console.log("no fault was timed: repeat the run on a machine that has less to do");
process.exit(failed === 0 && !isUntimed ? 0 : 1);
