/** The nodes of an installation: the facts that each running process publishes about itself. */

import type { Clock } from "../../base/clock.ts";
import type { Db } from "../engine/db.ts";
import { readServerClock } from "../engine/dialect.ts";
import { COORDINATION_KIND } from "../engine/limit-coordination.ts";
import { integer, integerOrNull, text, textOrNull } from "../engine/row.ts";
import { listJobs } from "./job-leases.ts";

const NODE_STATES = ["starting", "ready", "draining"] as const;
type NodeState = (typeof NODE_STATES)[number];

/** What a process publishes besides its heartbeat. */
export interface NodeFacts {
  readonly version: string;
  /** Host name and port; null until the process listens. */
  readonly address: string | null;
  readonly state: NodeState;
  /**
   * Where the node counts the limits of keys, users, groups and accounts: `memory`, or a shared coordinator, with what
   * `nameCoordinator` adds.
   */
  readonly coordinator: string;
  readonly clockSkewMs: number;
}

export interface NodeRecord {
  readonly id: string;
  readonly hostName: string;
  readonly pid: number;
  readonly startedAtMs: number;
  /** By the clock of the database. */
  readonly sinceHeartbeatMs: number;
  /** Null for a process of another version that does not publish it; the same for the fields below. */
  readonly schemaKnown: number | null;
  readonly version: string | null;
  readonly address: string | null;
  readonly state: NodeState | null;
  readonly coordinator: string | null;
  readonly clockSkewMs: number | null;
  /** Names of the jobs that this node runs for all nodes. */
  readonly jobs: readonly string[];
}

/** `silent`: no heartbeat for some time. `unknown`: a version that does not publish its state. */
export const NODE_CONDITIONS = [...NODE_STATES, "silent", "unknown"] as const;
export type NodeCondition = (typeof NODE_CONDITIONS)[number];

/** Three heartbeats. Only for display: a node is dead when its heartbeat was observed unchanged for longer. */
const SILENT_AFTER_MS = 15_000;

export function findCondition({ state, sinceHeartbeatMs }: NodeRecord): NodeCondition {
  return sinceHeartbeatMs > SILENT_AFTER_MS ? "silent" : (state ?? "unknown");
}

/** `_lost` is what nodes of the versions before know. */
const CONTACT_SUFFIXES = { up: "", closed: "_closed", lost: "_lost", left: "_left_lost" } as const;

/**
 * `closed`: it lends nothing until all nodes have declared what they hold. `lost`: the node cannot reach it. `left`: the
 * same, and the node holds nothing of concurrency and of minutes.
 */
export function nameCoordinator(kind: string, contact: keyof typeof CONTACT_SUFFIXES): string {
  return kind + CONTACT_SUFFIXES[contact];
}

/** Limits are closed for the node, although it reaches the coordinator. */
export function hasClosedLimits({ coordinator }: Pick<NodeRecord, "coordinator">): boolean {
  return coordinator?.endsWith(CONTACT_SUFFIXES.closed) ?? false;
}

export function hasLostCoordinator({ coordinator }: Pick<NodeRecord, "coordinator">): boolean {
  return coordinator?.endsWith(CONTACT_SUFFIXES.lost) ?? false;
}

/** Limits and windows use the clock of the database, but log lines, links and one-time codes use the node's. */
const CLOCK_SKEW_MAX_MS = 2_000;

export function hasWrongClock({ clockSkewMs }: Pick<NodeRecord, "clockSkewMs">): boolean {
  return Math.abs(clockSkewMs ?? 0) > CLOCK_SKEW_MAX_MS;
}

/** Does nothing if another process has deleted the row as dead: the next heartbeat creates it again. */
export async function publishFacts(db: Db, id: string, facts: NodeFacts): Promise<void> {
  const { version, address, state, coordinator, clockSkewMs } = facts;
  await db.sql`
    UPDATE process SET version = ${version}, address = ${address}, state = ${state},
      coordinator = ${coordinator}, clock_skew_ms = ${clockSkewMs}
    WHERE id = ${id}`;
}

/** Oldest first. */
export async function listNodes(db: Db, clock: Pick<Clock, "nowMs">): Promise<NodeRecord[]> {
  const nowMs = (await readServerClock(db)) ?? clock.nowMs();
  const jobs = await listJobs(db, nowMs);
  const rows = await db.sql`
    SELECT id, host, pid, started_at_ms, beat_at_ms, schema_known, version, address, state, coordinator, clock_skew_ms
    FROM process ORDER BY started_at_ms, id`;
  return rows.map((row) => {
    const id = text(row, "id");
    return {
      id,
      // The host is followed by the ids of its boot and its PID namespace.
      hostName: text(row, "host").split(" ")[0] ?? "",
      pid: integer(row, "pid"),
      startedAtMs: integer(row, "started_at_ms"),
      sinceHeartbeatMs: Math.max(0, nowMs - integer(row, "beat_at_ms")),
      schemaKnown: integerOrNull(row, "schema_known"),
      version: textOrNull(row, "version"),
      address: textOrNull(row, "address"),
      state: NODE_STATES.find((state) => state === row.state) ?? null,
      coordinator: textOrNull(row, "coordinator"),
      clockSkewMs: integerOrNull(row, "clock_skew_ms"),
      jobs: jobs.filter(({ holder }) => holder === id).map(({ name }) => name),
    };
  });
}

/** The schema of the first version that borrows limits. */
const LEASES_SCHEMA = 8;

/** As the column names the coordinators that nodes share, for a node that reaches them. */
const REACHED: readonly string[] = ["redis", COORDINATION_KIND].flatMap((kind) => [
  kind,
  nameCoordinator(kind, "closed"),
]);

/** Five heartbeats. An older one may be of a node that was killed: what it published says nothing about now. */
const REACHES_WITHIN_MS = 10_000;

/**
 * All registered processes, whether they are known to reach the coordinator of limits now or to have left it, and
 * whether they are of a version that has another one.
 */
export async function listCoordinatedNodes(
  db: Db,
  clock: Pick<Clock, "nowMs">,
): Promise<{ id: string; reachesCoordinator: boolean; hasLeft: boolean; isOlder: boolean }[]> {
  const nowMs = (await readServerClock(db)) ?? clock.nowMs();
  const rows = await db.sql`SELECT id, coordinator, schema_known, beat_at_ms FROM process ORDER BY id`;
  return rows.map((row) => {
    const isFresh = nowMs - integer(row, "beat_at_ms") < REACHES_WITHIN_MS;
    const coordinator = textOrNull(row, "coordinator") ?? "";
    return {
      id: text(row, "id"),
      reachesCoordinator: isFresh && REACHED.includes(coordinator),
      hasLeft: coordinator.endsWith(CONTACT_SUFFIXES.left),
      isOlder: (integerOrNull(row, "schema_known") ?? LEASES_SCHEMA) < LEASES_SCHEMA,
    };
  });
}

/** The clock of this process minus the clock of the database, without half of the round trip. */
export async function measureClockSkew(db: Db, clock: Pick<Clock, "nowMs">): Promise<number> {
  const sentAtMs = clock.nowMs();
  const storeMs = await readServerClock(db);
  if (storeMs === null) return 0;
  return Math.round((sentAtMs + clock.nowMs()) / 2 - storeMs);
}
