/** Routes for the nodes of the installation. */

import { z } from "zod";
import { isSharedServer } from "../../store/engine/dialect.ts";
import { findCondition, listNodes, NODE_CONDITIONS } from "../../store/nodes/nodes.ts";
import { forAdmins } from "../http/route.ts";

const nodeResponse = z.object({
  id: z.string(),
  /** Host name and port; null until the node listens. */
  address: z.string().nullable(),
  host: z.string(),
  pid: z.number(),
  condition: z.enum(NODE_CONDITIONS),
  version: z.string().nullable(),
  schema: z.number().nullable(),
  started_at: z.number(),
  since_heartbeat_ms: z.number(),
  /** The clock of the node minus the clock of the database. */
  clock_skew_ms: z.number().nullable(),
  /** Where the node counts limits: `memory`, or a coordinator that all nodes share. */
  coordinator: z.string().nullable(),
  /** Jobs that the node runs for all nodes. */
  jobs: z.array(z.string()),
});

export const adminNodeRoutes = {
  "admin.nodes.list": forAdmins({
    method: "GET",
    path: "/api/admin/nodes",
    summary: "List the nodes that run on this database, oldest first",
    response: z.object({
      /** Whether several nodes can use the database. */
      is_shared: z.boolean(),
      data: z.array(nodeResponse),
      next: z.null(),
    }),
    async run({ installation: { db, clock } }) {
      const nodes = await listNodes(db, clock);
      const data = nodes.map((node) => ({
        id: node.id,
        address: node.address,
        host: node.hostName,
        pid: node.pid,
        condition: findCondition(node),
        version: node.version,
        schema: node.schemaKnown,
        started_at: node.startedAtMs,
        since_heartbeat_ms: node.sinceHeartbeatMs,
        clock_skew_ms: node.clockSkewMs,
        coordinator: node.coordinator,
        jobs: [...node.jobs],
      }));
      return { is_shared: isSharedServer(db), data, next: null };
    },
  }),
};
