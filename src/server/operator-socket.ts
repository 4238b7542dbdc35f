/**
 * A local socket for the operator's command line: a socket file in the data folder that only its owner can open. It
 * reports state that only the running process has, and flushes pending billing. Other processes on the same port use it,
 * too.
 */

import { chmodSync, rmSync } from "node:fs";
import { z } from "zod";
import { lookUpGroup } from "../gateway/admission/authenticate.ts";
import { callerSubjects } from "../gateway/admission/caller-limits.ts";
import type { Gateway } from "../gateway/gateway.ts";
import type { LimitStatus } from "../limits/limiter-types.ts";
import type { MetricFamily } from "../observe/metrics-text.ts";
import type { Candidate } from "../pool/pool.ts";
import { INTERFACES } from "../records/interfaces.ts";
import type { ProcessReadiness } from "./readiness.ts";

/** What would happen to a request now: the state of its limits, and the accounts that could serve it. */
export interface LiveExplanation {
  limits: { scope: string; standing: LimitStatus }[];
  candidates: Candidate[];
}

const explainRequest = z.object({
  keyId: z.string(),
  model: z.string(),
  interface: z.enum(INTERFACES),
});

const flushRequest = z.object({ userId: z.string().nullable() });

/** What the other processes of the machine ask. */
export interface ProcessReports {
  readiness(): Promise<ProcessReadiness>;
  metrics(): Promise<readonly MetricFamily[]>;
}

interface OperatorSocketOptions {
  readonly gateway: Gateway;
  readonly socketFile: string;
  readonly reports: ProcessReports;
}

interface OperatorSocket {
  /** Deletes the socket file, if this process created one. */
  close(): void;
}

/**
 * The gateway runs without this socket, too: the path may be too long for a socket, the file system may not support
 * sockets, or another process on this folder may own it.
 */
export async function openOperatorSocket(options: OperatorSocketOptions): Promise<OperatorSocket> {
  const { gateway, socketFile } = options;
  try {
    if (await isInUse(socketFile))
      throw new Error("another process on this data folder uses the operator socket");
    rmSync(socketFile, { force: true });
    return listen(options);
  } catch (error) {
    gateway.log.warn("operator_socket_failed", {
      reason: error instanceof Error ? error.message : "unknown",
    });
    return { close() {} };
  }
}

/** A killed process leaves the file behind, and no process accepts connections on it. */
async function isInUse(socketFile: string): Promise<boolean> {
  try {
    const connection = await Bun.connect({ unix: socketFile, socket: { data() {} } });
    connection.end();
    return true;
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : null;
    if (code === "ECONNREFUSED" || code === "ENOENT") return false;
    throw error;
  }
}

function listen({ gateway, socketFile, reports }: OperatorSocketOptions): OperatorSocket {
  const server = Bun.serve({
    unix: socketFile,
    async fetch(request) {
      const body: unknown = await request.json().catch(() => null);
      const { pathname } = new URL(request.url);
      if (pathname === "/health") return Response.json({});
      if (pathname === "/readiness") return Response.json(await reports.readiness());
      if (pathname === "/metrics") return Response.json(await reports.metrics());
      const explain = pathname === "/explain" ? explainRequest.safeParse(body) : null;
      if (explain?.success) return Response.json(explainLive(gateway, explain.data));
      const flushUser = pathname === "/settle-up" ? flushRequest.safeParse(body) : null;
      if (flushUser?.success) return flushBilling(gateway, flushUser.data.userId);
      return new Response("invalid request", { status: 400 });
    },
  });
  chmodSync(socketFile, 0o600);
  return {
    close() {
      void server.stop(true);
    },
  };
}

function explainLive(gateway: Gateway, query: z.output<typeof explainRequest>): LiveExplanation {
  const key = gateway.policy.keys.get(query.keyId);
  const group = key && lookUpGroup(key, gateway.policy.snapshot());
  if (!key || !group) return { limits: [], candidates: [] };
  const routes = group.models.get(query.model)?.routes.get(query.interface) ?? [];
  return {
    limits: callerSubjects({ key, group }).map((subject) => ({
      scope: subject.scope,
      standing: gateway.limiter.readStatus(subject),
    })),
    candidates: routes.map((route) => gateway.dispatcher.pool.describe(route)),
  };
}

/** Flushes billing. Afterwards the database has the user's balance and holds, or, for all users, all charges. */
function flushBilling({ billingEngine: billing }: Gateway, userId: string | null): Promise<Response> {
  const flushed = userId === null ? billing.flush() : billing.flushUser(userId);
  return flushed.then(
    () => Response.json({}),
    () => new Response("the database rejects writes", { status: 503 }),
  );
}
