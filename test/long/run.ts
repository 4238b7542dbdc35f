/**
 * `npm run test:long`: checks that take minutes of real time. Each check prints its figures; the run fails if one
 * fails.
 *
 *     npm run test:long -- --only nodes-limits-redis --seconds 60
 *     npm run test:long -- --only fallback-sessions --sessions 40
 */

import { parseArgs } from "node:util";
import { abortsLeaveNothing } from "./aborts.ts";
import { fallbackHoldsOnPostgres, fallbackHoldsOnSqlite } from "./fallback-over-nodes.ts";
import { type SessionRunOptions, toolsSurviveSwitches } from "./fallback-sessions.ts";
import { workGrowsLinearly } from "./growth.ts";
import { keycloakSignsIn } from "./identity/keycloak.ts";
import { versionsAgree } from "./identity/two-versions.ts";
import { scimPasses } from "./identity-scim.ts";
import { pushTwice } from "./identity-scim-twice.ts";
import {
  type LimitsRunOptions,
  limitsAreUsedDespiteKills,
  limitsHoldOnPostgres,
  limitsHoldOnRedis,
} from "./limits-over-nodes.ts";
import { pythonKeepsConversation } from "./python-threads.ts";
import { minuteHolds } from "./rate-limit-minute.ts";
import { startWithSums } from "./start-with-sums.ts";
import { guidesWork } from "./tool-guides.ts";
import { windowsHold } from "./windows-over-nodes.ts";

interface LongCheck {
  readonly name: string;
  readonly promise: string;
  run(options: LimitsRunOptions & SessionRunOptions): Promise<string>;
}

const CHECKS: readonly LongCheck[] = [
  {
    name: "minute",
    promise: "no 60 seconds contain more requests than the limit allows",
    run: minuteHolds,
  },
  {
    name: "aborts",
    promise: "10,000 clients that leave at random leave nothing behind",
    run: abortsLeaveNothing,
  },
  {
    name: "growth",
    promise: "the work for a document grows no faster than its size, on every route",
    run: workGrowsLinearly,
  },
  {
    name: "python-threads",
    promise:
      "the tool runner of Anthropic's Python SDK keeps its conversation on an account of another dialect",
    run: pythonKeepsConversation,
  },
  {
    name: "tool-guides",
    promise: "opencode and Python work as the page that connects a tool prints it",
    run: guidesWork,
  },
  {
    name: "identity-scim",
    promise: "the SCIM compliance tester of PyPI finds no deviation",
    run: scimPasses,
  },
  {
    name: "identity-scim-twice",
    promise: "5,000 people and 200 groups that are pushed twice give the same state",
    run: pushTwice,
  },
  {
    name: "fallback-sqlite",
    promise: "10,000 requests with random fallback are paid at the price of their steps, with kills",
    run: fallbackHoldsOnSqlite,
  },
  {
    name: "fallback-postgres",
    promise: "the same on three nodes with PostgreSQL",
    run: fallbackHoldsOnPostgres,
  },
  {
    name: "fallback-sessions",
    promise: "tool calls of the real Claude Code and Codex survive a switch to another group or model",
    run: toolsSurviveSwitches,
  },
  {
    name: "nodes-limits-postgres",
    promise: "limits hold over three nodes on PostgreSQL, with kills and faults",
    run: limitsHoldOnPostgres,
  },
  {
    name: "nodes-limits-kills",
    promise: "three nodes that are killed every ten seconds use at least 85 % of a limit",
    run: limitsAreUsedDespiteKills,
  },
  {
    name: "nodes-limits-redis",
    promise: "limits hold over three nodes with Redis, with kills and faults",
    run: limitsHoldOnRedis,
  },
  {
    name: "nodes-windows",
    promise: "a window of hours counts what killed and stopped nodes have used",
    run: windowsHold,
  },
  {
    name: "nodes-start",
    promise: "a third node starts with 1.4 million sums of usage as without, and others do not pause",
    run: startWithSums,
  },
  {
    name: "identity-keycloak",
    promise: "people sign in at Keycloak and return to another of three nodes",
    run: keycloakSignsIn,
  },
  {
    name: "identity-versions",
    promise:
      "suspended keys, auditors, service accounts, tools and leavers are safe on a node of the version before",
    run: versionsAgree,
  },
];

const { values } = parseArgs({
  options: { only: { type: "string" }, seconds: { type: "string" }, sessions: { type: "string" } },
});
const { only } = values;
const options: LimitsRunOptions & SessionRunOptions = {
  seconds: Number(values.seconds ?? "300"),
  sessions: Number(values.sessions ?? "200"),
  say: (text) => console.log(`   ${new Date().toISOString().slice(11, 19)} ${text}`),
};
const chosen = CHECKS.filter(({ name }) => only === undefined || name.startsWith(only));
if (chosen.length === 0)
  throw new Error(`There is no check ${only}. Checks: ${CHECKS.map(({ name }) => name).join(", ")}.`);

let failed = 0;
for (const { name, promise, run } of chosen) {
  console.log(`── ${name}: ${promise}`);
  const startedMs = performance.now();
  try {
    console.log(`   ${await run(options)}`);
  } catch (error) {
    failed++;
    console.log(`   FAILED: ${error instanceof Error ? error.message : error}`);
  }
  console.log(`   ${((performance.now() - startedMs) / 1000).toFixed(0)} s`);
}
console.log(`${chosen.length - failed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
