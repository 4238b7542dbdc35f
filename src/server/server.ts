/** The door: takes requests from the network, gives each its id, sends it to its place, and drains at the end. */

import type { Alarms } from "../alarms.ts";
import type { NewId } from "../clock.ts";
import type { ApiDoor } from "../control/door.ts";
import { ApiError, asApiError, errorResponse } from "../errors.ts";
import { authenticate, type Caller } from "../gateway/authenticate.ts";
import { etagOf, getModel, listModels, listModelsForCodex } from "../gateway/catalogue.ts";
import type { Call, Gateway, HttpCall } from "../gateway/gateway.ts";
import { callModel } from "../gateway/pipeline.ts";
import { reportRequest } from "../gateway/request-report.ts";
import { callStoredResponse } from "../gateway/stored-response.ts";
import { reportUsage } from "../gateway/usage-report.ts";
import { logFault } from "../observe/log.ts";
import type { Session } from "../sockets/session.ts";
import type { Sockets } from "../sockets/sockets.ts";
import { answeredProtocol } from "../sockets/subprotocols.ts";
import { VERSION } from "../version.ts";
import { type Destination, findDestination, listRoutes, type SiteName } from "./routes.ts";
import type { Site } from "./site.ts";

export interface ServerOptions {
  gateway: Gateway;
  api: ApiDoor;
  sites: Readonly<Record<SiteName, Site>>;
  newId: NewId;
  hostname: string;
  port: number;
  /** For a connection that is doing nothing; requests under way have deadlines of their own. */
  idleTimeoutSeconds: number;
  alarms: Alarms;
  /** Without a trailing slash: how clients reach this gateway. */
  publicUrl: string;
  sockets: Sockets;
  /** A frame, and how long nothing may come from a socket. */
  frameBytesMax: number;
  socketIdleSeconds: number;
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

/** A frame longer than allowed by no more than this is read all the same, to be refused with words. */
const FRAME_BYTES_SLACK = 1024 * 1024;

type BunServer = Bun.Server<Session>;

export function startServer(options: ServerOptions): Server {
  const { gateway, sockets } = options;
  let draining = false;
  const leaving = new AbortController();

  /** Nothing is returned for a connection that has become a socket. */
  async function handle(request: Request, server: BunServer): Promise<Response | undefined> {
    const requestId = options.newId("req");
    try {
      const url = request.url;
      checkHost(url, request.headers);
      const pathAt = url.indexOf("/", 8);
      const queryAt = url.indexOf("?", pathAt);
      const path = queryAt === -1 ? url.slice(pathAt) : url.slice(pathAt, queryAt);
      const destination = findDestination(request.method, path);
      const call = new DoorCall(request, requestId, gateway.clock.monotonicMs(), server);
      if (destination.kind === "responses_socket") return upgrade(call, server);
      const query = queryAt === -1 ? "" : url.slice(queryAt + 1);
      const slow = options.alarms.set(options.idleTimeoutSeconds * 500, () => call.stopTiming());
      try {
        const response = await go(call, destination, path, query);
        return draining && (response.ok || request.body === null) ? closing(response) : response;
      } finally {
        options.alarms.cancel(slow);
        if (call.isUntimed) server.timeout(request, options.idleTimeoutSeconds);
      }
    } catch (thrown) {
      const error = asApiError(thrown);
      if (error.status === 500) logFault(gateway.log, requestId, thrown);
      return errorResponse(error, requestId);
    }
  }

  function go(
    call: HttpCall,
    destination: Exclude<Destination, { kind: "responses_socket" }>,
    path: string,
    query: string,
  ): Promise<Response> | Response {
    switch (destination.kind) {
      case "site":
        return options.sites[destination.site].answer(call.request, path);
      case "moved":
        // A path, not an address: behind a proxy it is the browser that knows the host.
        return new Response(null, { status: 302, headers: { location: destination.to } });
      case "api":
        return options.api({
          request: call.request,
          requestId: call.requestId,
          path,
          query,
          peerAddress: () => call.clientAddress(),
          leaving: leaving.signal,
        });
      case "model_call":
        return callModel(gateway, call, destination.endpoint);
      case "stored_response":
        return callStoredResponse(gateway, call, {
          ...destination,
          method: methodOf(call.request),
          query: new URLSearchParams(query),
        });
      case "models":
        return new URLSearchParams(query).has("client_version")
          ? answer(call, (caller) => listModelsForCodex(caller.group), etagOf)
          : answer(call, (caller) => listModels(caller.group));
      case "model":
        return answer(call, (caller) => getModel(caller.group, destination.id));
      case "usage":
        return answer(call, (caller) => reportUsage(gateway, caller, new URLSearchParams(query)));
      case "request":
        return answer(call, (caller) => reportRequest(gateway, caller, destination.id));
      case "openapi":
        return openApi(call.requestId);
      case "health":
        return Response.json({ status: "ok" }, { headers: { "x-request-id": call.requestId } });
      case "readiness":
        return readiness(call.requestId);
    }
  }

  function upgrade(call: HttpCall, server: BunServer): undefined {
    const data = sockets.admit(call);
    const headers = {
      "x-request-id": call.requestId,
      "sec-websocket-protocol": answeredProtocol(call.request.headers),
    };
    if (server.upgrade(call.request, { data, headers })) return;
    throw new ApiError("invalid_request", "The WebSocket upgrade is malformed. Use a WebSocket client.");
  }

  /** A small JSON answer for whoever holds a key. */
  async function answer<Made>(
    call: Call,
    make: (caller: Caller) => Made | Promise<Made>,
    headersOf: (made: Made) => Record<string, string> = () => ({}),
  ): Promise<Response> {
    const caller = authenticate(call.request.headers, gateway.policy.snapshot(), gateway.auth, call);
    const made = await make(caller);
    return Response.json(made, { headers: { "x-request-id": call.requestId, ...headersOf(made) } });
  }

  let document: Promise<string> | null = null;

  /** Its schemas are read with the first question. */
  async function makeDocument(): Promise<string> {
    const { openApiDocument } = await import("../description/openapi.ts");
    return JSON.stringify(openApiDocument(listRoutes(), { version: VERSION, publicUrl: options.publicUrl }));
  }

  async function openApi(requestId: string): Promise<Response> {
    document ??= makeDocument();
    return new Response(await document, {
      headers: { "content-type": "application/json", "x-request-id": requestId },
    });
  }

  async function readiness(requestId: string): Promise<Response> {
    const store = await options.isStoreReady();
    const ready = store && !draining;
    return Response.json(
      { status: ready ? "ready" : "not_ready", store: store ? "ok" : "unavailable", draining },
      { status: ready ? 200 : 503, headers: { "x-request-id": requestId } },
    );
  }

  const server = Bun.serve<Session>({
    hostname: options.hostname,
    port: options.port,
    // Bodies are counted where they are read; a refusal by the runtime would have no body and no id.
    maxRequestBodySize: 2 ** 40,
    idleTimeout: options.idleTimeoutSeconds,
    fetch: handle,
    websocket: {
      perMessageDeflate: false,
      maxPayloadLength: options.frameBytesMax + FRAME_BYTES_SLACK,
      idleTimeout: options.socketIdleSeconds,
      sendPings: true,
      // Held up long before, where somebody waits for room: nothing that was said is dropped.
      backpressureLimit: 2 ** 31 - 1,
      open(socket) {
        socket.data.opened(socket);
        sockets.opened(socket.data);
      },
      message: (socket, message) => socket.data.received(message),
      drain: (socket) => socket.data.drained(),
      close: (socket) => sockets.closed(socket.data),
    },
    error: (thrown) => errorResponse(asApiError(thrown), options.newId("req")),
  });

  return {
    url: `http://${server.hostname}:${server.port}`,
    port: server.port ?? options.port,
    async drain(timeoutMs) {
      draining = true;
      leaving.abort();
      let timer: ReturnType<typeof setTimeout> | undefined;
      const cut = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, timeoutMs);
      });
      await Promise.race([Promise.all([sockets.drain(), server.stop(false)]), cut]);
      clearTimeout(timer);
      sockets.cut();
      sockets.stop();
      await server.stop(true);
    },
  };
}

/** A class, so that a request costs one object here and no closures. */
class DoorCall implements HttpCall {
  readonly request: Request;
  readonly requestId: string;
  readonly startedMs: number;
  isUntimed = false;
  private readonly server: BunServer;

  constructor(request: Request, requestId: string, startedMs: number, server: BunServer) {
    this.request = request;
    this.requestId = requestId;
    this.startedMs = startedMs;
    this.server = server;
  }

  clientAddress(): string {
    return this.server.requestIP(this.request)?.address ?? "unknown";
  }

  cutOff(): void {
    this.server.timeout(this.request, CUT_OFF_SECONDS);
  }

  /**
   * The runtime's idle timer would cut a client that sends slowly or waits for a slow answer, so it is stopped when
   * half of its time is over. Once there is an answer it runs again, or an idle connection would be kept for ever.
   */
  stopTiming(): void {
    this.isUntimed = true;
    this.server.timeout(this.request, 0);
  }
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
