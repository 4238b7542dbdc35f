/** Starts the HTTP server with its WebSocket sessions and built pages. */

import { join } from "node:path";
import type { ApiHandler } from "../console-api/handler.ts";
import type { ToolEndpoints } from "../console-api/tools/oauth-endpoints.ts";
import type { Gateway } from "../gateway/gateway.ts";
import { openSockets } from "../responses-websocket/sockets.ts";
import { processReadiness } from "../server/readiness.ts";
import type { SiteName } from "../server/routes.ts";
import { type Server, type ServerOptions, startServer } from "../server/server.ts";
import { openSite, type Site } from "../server/site.ts";
import type { BillingServices } from "./billing.ts";
import type { NodeStatus } from "./node-status.ts";
import { openOtherProcesses } from "./other-processes.ts";
import type { ProcessContext } from "./process-context.ts";

interface HttpServices {
  readonly gateway: Gateway;
  readonly billing: BillingServices;
  readonly api: ApiHandler;
  readonly tools: ToolEndpoints;
  /** Output folder of `npm run build`. */
  readonly builtDir: string;
  readonly status: NodeStatus;
}

export function startHttpServer(context: ProcessContext, services: HttpServices): Server {
  const { installation, settings, limits, closers } = context;
  const { gateway, billing, api, tools, builtDir, status } = services;
  const sockets = openSockets({
    gateway,
    newId: installation.newId,
    allowedOrigins: settings.allowedOrigins,
    publicUrl: settings.publicUrl,
    limits,
  });
  closers.add(() => sockets.stop());
  const server = startServer({
    gateway,
    api,
    tools,
    toolTelemetry: limits.toolSignIn,
    sites: openSites(builtDir, limits.siteCacheBytesMax),
    newId: installation.newId,
    hostname: settings.host,
    port: settings.port,
    isPortShared: settings.process !== null,
    connections: limits.connections,
    publicUrl: settings.publicUrl,
    allowedHosts: settings.allowedHosts,
    sockets,
    frameBytesMax: limits.jsonBodyBytesMax,
    unfinishedFrames: {
      bytesMax: limits.socketsUnfinishedBytesMax,
      keyBytesMax: limits.socketsUnfinishedKeyBytesMax,
    },
    socketIdleSeconds: limits.socketIdleSeconds,
    others: openOtherProcesses(context, "/readiness", ({ process, body }) => ({
      process,
      state: body === null ? null : processReadiness.parse(JSON.parse(body)),
    })),
    isStoreReady: async () =>
      (await billing.isReady()) && status.isSupported && gateway.limitBorrower?.isReady !== false,
  });
  // If the port is shared, other processes accept the connections that this one no longer accepts.
  const silentMs = settings.process === null ? 0 : limits.processes.silentMs;
  closers.add(() => server.drain({ silentMs, timeoutMs: limits.drainTimeoutMs }));
  return server;
}

function openSites(builtDir: string, cachedBytesMax: number): ServerOptions["sites"] {
  const open = (name: SiteName, { isOnePage }: { isOnePage: boolean }): Site =>
    openSite({ base: `/${name}/`, folder: join(builtDir, name), isOnePage, cachedBytesMax });
  return {
    console: open("console", { isOnePage: true }),
    explorer: open("explorer", { isOnePage: true }),
    docs: open("docs", { isOnePage: false }),
  };
}
