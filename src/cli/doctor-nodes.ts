/** The checks of `doctor` about several nodes: clocks, versions, and the rights of the database role. */

import { systemClock } from "../base/clock.ts";
import type { Db } from "../store/engine/db.ts";
import { isSharedServer, listMissingPrivileges } from "../store/engine/dialect.ts";
import { findWaitingMigrations } from "../store/engine/migrate.ts";
import { findListenProblem } from "../store/engine/notify.ts";
import { StoreProblem } from "../store/engine/store-problem.ts";
import { SCHEMA_KNOWN } from "../store/migrations/index.ts";
import { listSetAsideHolds } from "../store/money/set-aside-holds.ts";
import {
  findCondition,
  hasClosedLimits,
  hasLostCoordinator,
  hasWrongClock,
  listNodes,
  measureClockSkew,
  type NodeRecord,
} from "../store/nodes/nodes.ts";
import { type Finding, failed, passed, warned } from "./finding.ts";
import { findRedisProblem } from "./redis-problem.ts";
import { count } from "./terminal.ts";

const SET_ASIDE_SHOWN_MAX = 1_000;

export async function checkNodes(db: Db): Promise<Finding[]> {
  const nodes = await listNodes(db, systemClock);
  const findings = [
    ...(await checkWaitingMigrations(db, nodes)),
    ...checkVersions(nodes),
    ...checkSilent(nodes),
    ...checkCoordinators(nodes),
    ...checkClosedLimits(nodes),
  ];
  if (isSharedServer(db)) findings.push(...(await checkClocks(db, nodes)), ...(await checkPrivileges(db)));
  return findings;
}

/** The server that nodes borrow limits from, if it is not the database. */
export async function checkRedis(url: string): Promise<Finding> {
  try {
    const problem = await findRedisProblem(url);
    if (problem === null) return passed("redis", "answers, and keeps what nodes share");
    return warned("redis", problem.message, problem.todo);
  } catch {
    return warned(
      "redis",
      "cannot be reached, so that `on_coordinator_loss` decides about limits",
      "Check REDIS_URL and that the server runs.",
    );
  }
}

/** Money that stays held until an operator decides. */
export async function checkSetAsideHolds(db: Db): Promise<Finding[]> {
  const holds = await listSetAsideHolds(db, SET_ASIDE_SHOWN_MAX);
  if (holds.length === 0) return [];
  const [first] = holds;
  return [
    warned(
      "holds",
      `${count(holds.length, "hold")} of ended processes could not be settled: ${first?.reason}`,
      "List them with `wallet holds`. Resolve each with `wallet charge-hold` or `wallet release-hold`.",
    ),
  ];
}

/** Without notifications nodes poll, so this is never a failure. */
export async function checkNotifications(listenUrl: string): Promise<Finding[]> {
  const what = "notifications";
  const effect = "a change reaches the other nodes after up to 600 ms instead of 200";
  const set = "Set DATABASE_LISTEN_URL to the address of PostgreSQL itself.";
  try {
    const problem = await findListenProblem(listenUrl);
    return problem === null ? [] : [warned(what, `${problem}, so ${effect}`, set)];
  } catch (error) {
    const [reason, todo] = error instanceof StoreProblem ? [error.problem, error.todo] : ["unknown", set];
    return [warned(what, `are not available, so ${effect}: ${reason}`, todo)];
  }
}

function describeNode({ address, hostName, pid, id }: NodeRecord): string {
  return `${address ?? `${hostName} (pid ${pid})`} [${id}]`;
}

/** Migrations that remove something wait for nodes of earlier versions. */
async function checkWaitingMigrations(db: Db, nodes: readonly NodeRecord[]): Promise<Finding[]> {
  const waiting = await findWaitingMigrations(db);
  return waiting.map(({ name, processIds }) => {
    if (processIds.length === 0)
      return warned("migrations", `"${name}" is pending`, "A running node applies it within a minute.");
    const inTheWay = nodes.filter(({ id }) => processIds.includes(id)).map(describeNode);
    return warned(
      "migrations",
      `"${name}" waits for nodes of an earlier version: ${inTheWay.join(", ")}`,
      "Upgrade or stop these nodes. A node that was killed is removed after a minute.",
    );
  });
}

function checkVersions(nodes: readonly NodeRecord[]): Finding[] {
  const names = nodes.map(
    ({ version, schemaKnown }) => `${version ?? "an earlier version"}, schema ${schemaKnown ?? "unknown"}`,
  );
  const versions = [...new Set(names)];
  if (versions.length > 1) {
    const perVersion = versions.map(
      (name) => `${count(names.filter((one) => one === name).length, "node")} with ${name}`,
    );
    return [
      warned(
        "nodes",
        `run different versions: ${perVersion.join("; ")}`,
        "Finish the rolling upgrade: replace the older nodes.",
      ),
    ];
  }
  const isOther = nodes.length > 0 && nodes[0]?.schemaKnown !== SCHEMA_KNOWN;
  if (isOther) {
    return [
      warned(
        "nodes",
        `run ${versions[0]}, and this command knows schema ${SCHEMA_KNOWN}`,
        "Use the same version for commands and nodes.",
      ),
    ];
  }
  return nodes.length === 0
    ? []
    : [passed("nodes", `${count(nodes.length, "node")} with version ${versions[0]}`)];
}

function checkSilent(nodes: readonly NodeRecord[]): Finding[] {
  return nodes
    .filter((node) => findCondition(node) === "silent")
    .map((node) =>
      warned(
        "nodes",
        `${describeNode(node)} has sent no heartbeat for ${Math.round(node.sinceHeartbeatMs / 1_000)} s`,
        "If the node was killed, a running node removes it after a minute. Otherwise check its connection to the database.",
      ),
    );
}

function checkCoordinators(nodes: readonly NodeRecord[]): Finding[] {
  return nodes
    .filter(hasLostCoordinator)
    .map((node) =>
      warned(
        "coordinator",
        `${describeNode(node)} cannot reach the coordinator of limits: if another node reaches it, this one rejects requests with limits; otherwise \`on_coordinator_loss\` decides`,
        "Check Redis or PostgreSQL and the network of this node. Its log line coordinator_lost has the reason.",
      ),
    );
}

function checkClosedLimits(nodes: readonly NodeRecord[]): Finding[] {
  return nodes
    .filter(hasClosedLimits)
    .map((node) =>
      warned(
        "coordinator",
        `${describeNode(node)} rejects requests with limits: the coordinator has lost its state, and a registered node has not declared what it holds`,
        "The log line limits_closed names the processes that are missing. Stop them, or restore their connection to the coordinator.",
      ),
    );
}

async function checkClocks(db: Db, nodes: readonly NodeRecord[]): Promise<Finding[]> {
  const ownMs = await measureClockSkew(db, systemClock);
  const measured = [
    { name: "this machine", skewMs: ownMs },
    ...nodes.map((node) => ({ name: describeNode(node), skewMs: node.clockSkewMs ?? 0 })),
  ];
  const wrong = measured.filter(({ skewMs }) => hasWrongClock({ clockSkewMs: skewMs }));
  if (wrong.length === 0)
    return [
      passed(
        "clocks",
        `at most ${Math.max(...measured.map(({ skewMs }) => Math.abs(skewMs)))} ms from the database`,
      ),
    ];
  return wrong.map(({ name, skewMs }) =>
    warned(
      "clocks",
      `${name} is ${(Math.abs(skewMs) / 1_000).toFixed(1)} s ${skewMs > 0 ? "ahead of" : "behind"} the database`,
      "Synchronize the clocks of all machines (NTP).",
    ),
  );
}

async function checkPrivileges(db: Db): Promise<Finding[]> {
  const { data, schema } = await listMissingPrivileges(db);
  if (data.length > 0) {
    return [
      failed(
        "privileges",
        `the database role lacks ${data.join(", ")}`,
        "Grant SELECT, INSERT, UPDATE and DELETE on all tables of the schema to the role of DATABASE_URL.",
      ),
    ];
  }
  if (schema.length > 0) {
    return [
      warned(
        "privileges",
        `the database role cannot migrate: ${schema.join(", ")}`,
        "Upgrades need a role that owns the tables and may create others. Let such a role run the first start of a new version.",
      ),
    ];
  }
  return [passed("privileges", "the database role can read, write and migrate")];
}
