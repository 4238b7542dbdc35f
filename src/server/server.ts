/** The door: takes requests from the network, gives each its id, sends it to its place, and drains at the end. */

import type { Alarms } from "../alarms.ts";
import type { NewId } from "../clock.ts";
import { ApiError, asApiError, errorResponse } from "../errors.ts";
import { authenticate, type Caller } from "../gateway/authenticate.ts";
import { getModel, listModels } from "../gateway/catalogue.ts";
import type { Call, Gateway } from "../gateway/gateway.ts";
import { callModel } from "../gateway/pipeline.ts";
import { reportRequest } from "../gateway/request-report.ts";
import { callStoredResponse } from "../gateway/stored-response.ts";
import { reportUsage } from "../gateway/usage-report.ts";
import { logFault } from "../observe/log.ts";
import { type Destination, findDestination } from "./routes.ts";

export interface ServerOptions {
  gateway: Gateway;
  newId: NewId;
  hostname: string;
  port: number;
  /** For a connection that is doing nothing; requests under way have deadlines of their own. */
  idleTimeoutSeconds: number;
  alarms: Alarms;
  /** Whether the store answers. */
  isStoreReady(): Promise<boolean>;
}

export interface Server {
  readonly url: string;
  readonly port: number;
  /** Takes no new connections, lets requests under way finish, and cuts what is left after the time. */
  drain(timeoutMs: number): Promise<void>;
}

/** The runtime closes a connection only for being idle: this is the shortest time for that. */
const CUT_OFF_SECONDS = 1;

type BunServer = ReturnType<typeof Bun.serve>;

export function startServer(options: ServerOptions): Server {
  const { gateway } = options;
  let draining = false;

  async function handle(request: Request, server: BunServer): Promise<Response> {
    const requestId = options.newId("req");
    try {
      const url = request.url;
      checkHost(url, request.headers);
      const pathAt = url.indexOf("/", 8);
      const queryAt = url.indexOf("?", pathAt);
      const path = queryAt === -1 ? url.slice(pathAt) : url.slice(pathAt, queryAt);
      const destination = findDestination(request.method, path);
      const call: Call = {
        request,
        requestId,
        startedMs: gateway.clock.monotonicMs(),
        clientAddress: () => server.requestIP(request)?.address ?? "unknown",
        cutOff: () => server.timeout(request, CUT_OFF_SECONDS),
      };
      const query = queryAt === -1 ? "" : url.slice(queryAt + 1);
      const untimed = untimedIfSlow(request, server);
      try {
        const response = await go(call, destination, query);
        return draining && (response.ok || request.body === null) ? closing(response) : response;
      } finally {
        untimed.end();
      }
    } catch (thrown) {
      const error = asApiError(thrown);
      if (error.status === 500) logFault(gateway.log, requestId, thrown);
      return errorResponse(error, requestId);
    }
  }

  function go(call: Call, destination: Destination, query: string): Promise<Response> | Response {
    switch (destination.kind) {
      case "model_call":
        return callModel(gateway, call, destination.endpoint);
      case "stored_response":
        return callStoredResponse(gateway, call, {
          ...destination,
          method: methodOf(call.request),
          query: new URLSearchParams(query),
        });
      case "models":
        return answer(call, (caller) => listModels(caller.group));
      case "model":
        return answer(call, (caller) => getModel(caller.group, destination.id));
      case "usage":
        return answer(call, (caller) => reportUsage(gateway, caller, new URLSearchParams(query)));
      case "request":
        return answer(call, (caller) => reportRequest(gateway, caller, destination.id));
      case "responses_socket":
        return answer(call, () => {
          throw new ApiError(
            "upgrade_required",
            "This path takes a WebSocket upgrade, which this gateway does not offer. Use POST /v1/responses.",
            { headers: { upgrade: "websocket" } },
          );
        });
      case "health":
        return Response.json({ status: "ok" }, { headers: { "x-request-id": call.requestId } });
      case "readiness":
        return readiness(call.requestId);
    }
  }

  /**
   * The runtime's idle timer would cut a client that sends slowly or waits for a slow answer, so it is stopped when
   * half of its time is over. Once there is an answer it runs again, or an idle connection would be kept for ever.
   */
  function untimedIfSlow(request: Request, server: BunServer): { end(): void } {
    let untimed = false;
    const slow = options.alarms.set(options.idleTimeoutSeconds * 500, () => {
      untimed = true;
      server.timeout(request, 0);
    });
    return {
      end() {
        options.alarms.cancel(slow);
        if (untimed) server.timeout(request, options.idleTimeoutSeconds);
      },
    };
  }

  /** A small JSON answer for whoever holds a key. */
  async function answer(call: Call, make: (caller: Caller) => unknown): Promise<Response> {
    const caller = authenticate(
      call.request.headers,
      gateway.policy.snapshot(),
      gateway.auth,
      call.clientAddress,
    );
    return Response.json(await make(caller), { headers: { "x-request-id": call.requestId } });
  }

  async function readiness(requestId: string): Promise<Response> {
    const store = await options.isStoreReady();
    const ready = store && !draining;
    return Response.json(
      { status: ready ? "ready" : "not_ready", store: store ? "ok" : "unavailable", draining },
      { status: ready ? 200 : 503, headers: { "x-request-id": requestId } },
    );
  }

  const server = Bun.serve({
    hostname: options.hostname,
    port: options.port,
    // Bodies are counted where they are read; a refusal by the runtime would have no body and no id.
    maxRequestBodySize: 2 ** 40,
    idleTimeout: options.idleTimeoutSeconds,
    fetch: handle,
    error: (thrown) => errorResponse(asApiError(thrown), options.newId("req")),
  });

  return {
    url: `http://${server.hostname}:${server.port}`,
    port: server.port ?? options.port,
    async drain(timeoutMs) {
      draining = true;
      let timer: ReturnType<typeof setTimeout> | undefined;
      const cut = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, timeoutMs);
      });
      await Promise.race([server.stop(false), cut]);
      clearTimeout(timer);
      await server.stop(true);
    },
  };
}

/** The runtime joins repeated `Host` headers, and leaves one that is no host out of the address. */
function checkHost(url: string, headers: Headers): void {
  if (!url.startsWith("/") && !headers.get("host")?.includes(",")) return;
  throw new ApiError(
    "invalid_request",
    "The Host header is empty, repeated or not a host name. Send exactly one that names this gateway.",
  );
}

function methodOf(request: Request): "GET" | "POST" | "DELETE" {
  return request.method === "POST" || request.method === "DELETE" ? request.method : "GET";
}

/** Only after the request's body was read: closing on unread bytes would reset the connection. */
function closing(response: Response): Response {
  response.headers.set("connection", "close");
  return response;
}
