/**
 * The HTTP front end of the gateway: accepts requests, assigns request ids, routes them to their endpoint, and drains
 * at shutdown.
 */

import type { ApiHandler } from "../console-api/handler.ts";
import { isProxy } from "../console-api/http/origin.ts";
import { parseQuery } from "../console-api/http/query.ts";
import { ApiError, asApiError, errorResponse } from "../errors.ts";
import { authenticate, type Caller } from "../gateway/admission/authenticate.ts";
import { computeEtag, getModel, listModels, listModelsForCodex } from "../gateway/endpoints/models.ts";
import { reportRequest } from "../gateway/endpoints/request-report.ts";
import { buildErrorResponse, JSON_LINES } from "../gateway/endpoints/responses.ts";
import { callStoredResponse } from "../gateway/endpoints/stored-response.ts";
import { reportUsage } from "../gateway/endpoints/usage-report.ts";
import type { Call, Gateway, HttpCall } from "../gateway/gateway.ts";
import { handleHttpModelRequest } from "../gateway/pipeline.ts";
import { type IncomingRequest, Upgrade } from "../net/http-server/incoming-request.ts";
import { type ListenOptions, listen } from "../net/http-server/listen.ts";
import type { RequestFault } from "../net/http-server/request-head.ts";
import { upgradeHead } from "../net/websocket/upgrade.ts";
import type { NewId } from "../net/wire/clock.ts";
import {
  type HttpResponse,
  type IncomingHttpRequest,
  type SharedResponse,
  WholeResponse,
} from "../net/wire/http-message.ts";
import { jsonDocument, type StaticDocument } from "../net/wire/static-document.ts";
import { logFault } from "../observe/log.ts";
import { ByteBudget, type ByteLimits } from "../responses-websocket/byte-budget.ts";
import { openWebSockets } from "../responses-websocket/connection.ts";
import type { Session } from "../responses-websocket/session.ts";
import type { Sockets } from "../responses-websocket/sockets.ts";
import { chooseSubprotocol } from "../responses-websocket/subprotocols.ts";
import { VERSION } from "../version.ts";
import { findBaseUrl } from "./base-url.ts";
import { misdirectedRequest, openHostCheck } from "./own-host.ts";
import { type Destination, findDestination, listRoutes, type SiteName } from "./routes.ts";
import { errorPage, type Site } from "./site.ts";
import { UnknownUrl } from "./unknown-url.ts";

export interface ServerOptions {
  gateway: Gateway;
  api: ApiHandler;
  sites: Readonly<Record<SiteName, Site>>;
  newId: NewId;
  hostname: string;
  port: number;
  connections: ListenOptions["limits"];
  /** How clients reach this gateway, without a trailing slash. */
  publicUrl: string;
  /** Additional host names under which the pages and the console API are served. */
  allowedHosts: readonly string[];
  sockets: Sockets;
  /** Maximum size of a WebSocket frame. */
  frameBytesMax: number;
  /** Memory limits for incomplete frames. */
  unfinishedFrames: ByteLimits;
  socketIdleSeconds: number;
  /** Whether the database responds. */
  isStoreReady(): Promise<boolean>;
}

export interface Server {
  readonly url: string;
  readonly port: number;
  /**
   * Stops accepting connections, lets requests in flight finish, and closes the remaining connections after the
   * timeout.
   */
  drain(timeoutMs: number): Promise<void>;
}

type OtherDestination = Exclude<Destination, { kind: "model_call" | "responses_socket" }>;
/** Destinations for browsers: pages, and the console API behind them. */
type BrowserDestination = Extract<Destination, { kind: "site" | "moved" | "api" }>;

/**
 * Neither path exposes anything to another site: `/` only redirects, and metrics are collected under any host name.
 */
const FOR_ANY_HOST: ReadonlySet<string> = new Set(["/", "/metrics"]);

/** One year, without subdomains: the gateway does not decide for other hosts of the domain. */
const STRICT_TRANSPORT = "max-age=31536000";

/**
 * A frame that exceeds the limit by at most this much is still read, so that it can be rejected with an error
 * message.
 */
const FRAME_BYTES_SLACK = 1024 * 1024;

const HEALTHY = Buffer.from(JSON.stringify({ status: "ok" }));

export function startServer(options: ServerOptions): Server {
  const { gateway, sockets } = options;
  const isOwnHost = openHostCheck(options.publicUrl, options.allowedHosts);
  const isPublicHttps = options.publicUrl.startsWith("https:");
  let draining = false;
  const shutdown = new AbortController();
  const webSockets = openWebSockets<Session>({
    messageBytesMax: options.frameBytesMax + FRAME_BYTES_SLACK,
    silenceMs: options.socketIdleSeconds * 1_000,
    unfinished: new ByteBudget(options.unfinishedFrames),
    message: (session, kind, bytes) => session.received(kind, bytes),
    drained: (session) => session.drained(),
    closed: (session) => sockets.closed(session),
  });

  function serve(request: IncomingRequest): HttpResponse | Upgrade | Promise<HttpResponse | Upgrade> {
    const requestId = options.newId("req");
    try {
      const { target } = request;
      const queryAt = target.indexOf("?");
      const path = queryAt === -1 ? target : target.slice(0, queryAt);
      const destination = findDestination(request.method, path);
      const call = new ServerCall(request, requestId, gateway.clock.monotonicMs());
      // The hot path converts its own errors to responses.
      if (destination.kind === "model_call")
        return handleHttpModelRequest(gateway, call, destination.endpoint);
      if (destination.kind === "responses_socket") return upgrade(call);
      return serveOther(call, destination, path, queryAt === -1 ? "" : target.slice(queryAt + 1));
    } catch (thrown) {
      if (!(thrown instanceof UnknownUrl)) return rejectRequest(thrown, requestId);
      return rejectRequest(thrown.withBaseUrl(findBaseUrl(request.headers, options.publicUrl)), requestId);
    }
  }

  async function serveOther(
    call: HttpCall,
    destination: OtherDestination,
    path: string,
    query: string,
  ): Promise<HttpResponse> {
    try {
      return await respondOther(call, destination, path, query);
    } catch (thrown) {
      return rejectRequest(thrown, call.requestId);
    }
  }

  function rejectRequest(thrown: unknown, requestId: string): HttpResponse {
    const error = asApiError(thrown);
    if (error.status === 500) logFault(gateway.log, requestId, thrown);
    return buildErrorResponse(error, requestId);
  }

  function respondOther(
    call: HttpCall,
    destination: OtherDestination,
    path: string,
    query: string,
  ): Promise<HttpResponse> | HttpResponse {
    switch (destination.kind) {
      case "site":
      case "moved":
      case "api":
        return respondToBrowser(call, destination, path, query);
      case "stored_response":
        return callStoredResponse(gateway, call, {
          ...destination,
          method: readMethod(call.request),
          query: parseQuery(query),
        });
      case "models":
        return parseQuery(query).has("client_version")
          ? respondToCaller(call, (caller) => listModelsForCodex(caller.group), computeEtag)
          : respondToCaller(call, (caller) => listModels(caller.group));
      case "model":
        return respondToCaller(call, (caller) => getModel(caller.group, destination.id));
      case "usage":
        return respondToCaller(call, (caller) => reportUsage(gateway, caller, parseQuery(query)));
      case "request":
        return respondToCaller(call, (caller) => reportRequest(gateway, caller, destination.id));
      case "openapi":
        return openApi(call);
      case "health":
        return new WholeResponse(200, `${JSON_LINES}x-request-id: ${call.requestId}\r\n`, HEALTHY);
      case "readiness":
        return readiness(call.requestId);
    }
  }

  async function respondToBrowser(
    call: HttpCall,
    destination: BrowserDestination,
    path: string,
    query: string,
  ): Promise<Response | SharedResponse> {
    const host = call.request.headers.get("host");
    const isServed = FOR_ANY_HOST.has(path) || isOwnHost(host);
    const response = isServed
      ? await sendToBrowser(call, destination, path, query)
      : rejectHost(call, destination, host);
    if (isServed && isPublicHttps) response.headers.set("strict-transport-security", STRICT_TRANSPORT);
    return response;
  }

  function rejectHost(
    { requestId }: Call,
    { kind }: BrowserDestination,
    host: string | null,
  ): Response | SharedResponse {
    const error = misdirectedRequest(host);
    const response =
      kind === "api" ? errorResponse(error, requestId) : errorPage(error.status, error.message);
    response.headers.set("x-request-id", requestId);
    return response;
  }

  function sendToBrowser(
    call: HttpCall,
    destination: BrowserDestination,
    path: string,
    query: string,
  ): Promise<Response | SharedResponse> | Response {
    switch (destination.kind) {
      case "site":
        return sendPage(call, destination.site, path);
      case "moved":
        // A path instead of a URL: behind a proxy, only the browser knows the host.
        return new Response(null, {
          status: 302,
          headers: { location: destination.to, "x-request-id": call.requestId },
        });
      case "api":
        return options.api({
          request: call.request,
          requestId: call.requestId,
          path,
          query,
          peerAddress: () => call.clientAddress(),
          authenticated: () => call.authenticated(),
          leaving: shutdown.signal,
        });
    }
  }

  async function sendPage(
    { request, requestId }: Call,
    site: SiteName,
    path: string,
  ): Promise<SharedResponse> {
    const page = await options.sites[site].answer(request.headers, path);
    page.headers.set("x-request-id", requestId);
    return page;
  }

  function upgrade(call: ServerCall): Upgrade {
    const { headers, head: requestHead } = call.request;
    const session = sockets.admit(call);
    const head = upgradeHead({ headers, requestId: call.requestId, protocol: chooseSubprotocol(headers) });
    if (head === null || requestHead.asked.isHttp10 || requestHead.framing !== 0) {
      throw new ApiError("invalid_request", "The WebSocket upgrade is malformed. Use a WebSocket client.");
    }
    return new Upgrade(head, (writer) => {
      const socket = webSockets.open(writer, session, session.digest);
      session.opened(socket);
      sockets.opened(session);
      return socket;
    });
  }

  /** Returns a small JSON response to an authenticated caller. */
  async function respondToCaller<Body>(
    call: Call,
    buildBody: (caller: Caller) => Body | Promise<Body>,
    buildHeaders: (body: Body) => Record<string, string> = () => ({}),
  ): Promise<Response> {
    const caller = authenticate(call.request.headers, gateway.policy.snapshot(), gateway.auth, call);
    const body = await buildBody(caller);
    return Response.json(body, { headers: { "x-request-id": call.requestId, ...buildHeaders(body) } });
  }

  let document: Promise<StaticDocument> | null = null;

  /** Loads the modules at the first request for the document. */
  async function buildDocument(): Promise<StaticDocument> {
    const { openApiDocument } = await import("../public-api/openapi.ts");
    const built = openApiDocument(listRoutes(), { version: VERSION, publicUrl: options.publicUrl });
    return jsonDocument(built);
  }

  async function openApi({ request, requestId }: Call): Promise<SharedResponse> {
    document ??= buildDocument();
    const response = (await document).respond(request.headers);
    response.headers.set("x-request-id", requestId);
    return response;
  }

  async function readiness(requestId: string): Promise<Response> {
    const store = await options.isStoreReady();
    const ready = store && !draining;
    return Response.json(
      { status: ready ? "ready" : "not_ready", store: store ? "ok" : "unavailable", draining },
      { status: ready ? 200 : 503, headers: { "x-request-id": requestId } },
    );
  }

  const listening = listen({
    hostname: options.hostname,
    port: options.port,
    limits: options.connections,
    isProxy: (address) => isProxy(address, options.publicUrl),
    monotonicMs: gateway.clock.monotonicMs,
    nowMs: gateway.clock.nowMs,
    serve,
    refuse: (fault) => buildErrorResponse(parseError(fault), options.newId("req")),
    fault: (thrown) => logFault(gateway.log, null, thrown),
  });

  return {
    url: `http://${listening.hostname}:${listening.port}`,
    port: listening.port,
    async drain(timeoutMs) {
      draining = true;
      shutdown.abort();
      let timer: ReturnType<typeof setTimeout> | undefined;
      const timedOut = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, timeoutMs);
      });
      await Promise.race([Promise.all([sockets.drain(), listening.close()]), timedOut]);
      clearTimeout(timer);
      sockets.cut();
      sockets.stop();
      webSockets.stop();
      listening.cut();
    },
  };
}

/** A class, so that a request costs one object here and no closures. */
class ServerCall implements HttpCall {
  readonly request: IncomingRequest;
  readonly requestId: string;
  readonly startedMs: number;
  readonly conversation = null;

  constructor(request: IncomingRequest, requestId: string, startedMs: number) {
    this.request = request;
    this.requestId = requestId;
    this.startedMs = startedMs;
  }

  clientAddress(): string {
    return this.request.peer.address;
  }

  authenticated(): void {
    this.request.peer.authenticated();
  }

  cutOff(): void {
    this.request.peer.terminate();
  }
}

/** The error for a client whose request could not be parsed. */
function parseError({ kind, reason }: RequestFault): ApiError {
  switch (kind) {
    case "malformed":
      return new ApiError("invalid_request", `The request is not proper HTTP/1.1: ${reason}.`);
    case "head_too_large":
      return new ApiError(
        "request_header_fields_too_large",
        `The headers of the request are too large: ${reason}. Send fewer or shorter ones.`,
      );
    case "version":
      return new ApiError("http_version_not_supported", `The request cannot be read: ${reason}.`);
    case "expectation":
      return new ApiError("expectation_failed", `The Expect header cannot be met: ${reason}.`);
    case "late":
      return new ApiError("request_timeout", `The request arrived too slowly: ${reason}.`);
  }
}

function readMethod(request: IncomingHttpRequest): "GET" | "POST" | "DELETE" {
  return request.method === "POST" || request.method === "DELETE" ? request.method : "GET";
}
