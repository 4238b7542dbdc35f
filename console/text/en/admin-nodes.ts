/** English texts: the page of nodes. */

import { plural } from "../plural.ts";

export const adminNodes = {
  title: "Nodes",
  about: "The gateway processes that share this database.",
  oneNode: "This installation uses SQLite, which has one node. To run several nodes, use PostgreSQL.",
  node: "Node",
  condition: "Status",
  conditions: {
    ready: "Ready",
    starting: "Starting",
    draining: "Draining",
    silent: "No heartbeat",
    unknown: "Earlier version",
  },
  silentSince: (duration: string) => `for ${duration}`,
  version: "Version",
  schema: (schema: number) => `schema ${schema}`,
  started: "Started",
  clock: "Clock",
  clockTitle: "The clock of the node minus the clock of the database",
  limits: "Limits",
  coordinators: {
    memory: "Per node",
    postgres: "PostgreSQL",
    redis: "Redis",
    postgres_lost: "Own share (PostgreSQL not responding)",
    redis_lost: "Own share (Redis not responding)",
  } as Record<string, string>,
  jobs: "Jobs for all nodes",
  noJobs: "none",
  jobNames: {
    captures: "Captures",
    idempotency: "Idempotency keys",
    reconciliation: "Reconciliation",
    retention: "Retention",
    roll_up: "Roll-ups",
    sessions: "Sessions",
    stored_responses: "Stored responses",
    usage_export: "Usage export",
  } as Record<string, string>,
  none: { title: "No nodes", text: "A node is listed from its start to its end." },
  mixed: {
    title: "The nodes run different versions",
    text: "This is normal during a rolling upgrade. Replace the nodes of the earlier version to finish it.",
  },
  silent: {
    title: (count: number) => plural(count, "1 node sends no heartbeat", "# nodes send no heartbeat"),
    text: "A node that was killed is removed after about a minute, and its requests are settled. If the node runs, check its connection to the database.",
  },
  skewed: {
    title: "The clocks of the nodes differ",
    text: "A clock is more than 2 seconds away from the clock of the database. Synchronize the clocks of all machines (NTP).",
  },
};
