/** Assigns a request id to each request, routes it to its endpoint, and converts errors to responses. */

import type { NewId } from "../base/clock.ts";
import type { ToolEndpoints } from "../console-api/tools/oauth-endpoints.ts";
import { asApiError } from "../errors.ts";
import type { HttpCall } from "../gateway/call.ts";
import { buildErrorResponse, JSON_LINES } from "../gateway/endpoints/error-response.ts";
import type { Gateway } from "../gateway/gateway.ts";
import { Pipeline } from "../gateway/pipeline.ts";
import { HTTP } from "../gateway/transport.ts";
import type { IncomingRequest, Upgrade } from "../net/http-server/incoming-request.ts";
import type { RequestFault } from "../net/http-server/request-head.ts";
import { type HttpResponse, WholeResponse } from "../net/wire/http-message.ts";
import { logFault } from "../observe/log.ts";
import type { Endpoint } from "../protocols/shared/endpoint.ts";
import { findBaseUrl } from "./base-url.ts";
import { BrowserEndpoints, type BrowserEndpointsOptions } from "./browser-endpoints.ts";
import { CallerEndpoints } from "./caller-endpoints.ts";
import { findErrorApi } from "./error-interface.ts";
import { checkGeminiQuery } from "./gemini-query.ts";
import { OpenApiEndpoint } from "./openapi-endpoint.ts";
import type { Readiness } from "./readiness.ts";
import { requestFaultError } from "./request-fault.ts";
import { type Destination, findDestination } from "./routes.ts";
import { ServerCall } from "./server-call.ts";
import type { SocketUpgrades } from "./socket-upgrades.ts";
import { respondToTool, type TelemetryBounds } from "./tool-endpoints.ts";
import { UnknownUrl } from "./unknown-url.ts";

export interface RouterOptions extends BrowserEndpointsOptions {
  gateway: Gateway;
  newId: NewId;
  readiness: Readiness;
  tools: ToolEndpoints;
  toolTelemetry: TelemetryBounds;
}

type OtherDestination = Exclude<Destination, { kind: "model_call" | "responses_socket" }>;

const HEALTHY = Buffer.from(JSON.stringify({ status: "ok" }));

export class Router {
  readonly #options: RouterOptions;
  readonly #gateway: Gateway;
  readonly #pipeline: Pipeline<HttpCall, HttpResponse>;
  readonly #upgrades: SocketUpgrades;
  readonly #browserEndpoints: BrowserEndpoints;
  readonly #callerEndpoints: CallerEndpoints;
  readonly #openApi: OpenApiEndpoint;

  constructor(options: RouterOptions, upgrades: SocketUpgrades) {
    this.#options = options;
    this.#gateway = options.gateway;
    this.#pipeline = new Pipeline(options.gateway, HTTP);
    this.#upgrades = upgrades;
    this.#browserEndpoints = new BrowserEndpoints(options);
    this.#callerEndpoints = new CallerEndpoints(options.gateway);
    this.#openApi = new OpenApiEndpoint(options.publicUrl);
  }

  serve(request: IncomingRequest): HttpResponse | Upgrade | Promise<HttpResponse | Upgrade> {
    const call = new ServerCall(request, this.#options.newId("req"), this.#gateway.clock.monotonicMs());
    try {
      const destination = findDestination(request.method, call.path);
      // The hot path converts its own errors to responses.
      if (destination.kind === "model_call") return this.#serveModelCall(call, destination.endpoint);
      if (destination.kind === "responses_socket") return this.#upgrades.upgrade(call);
      this.#gateway.loop.enter(destination.kind, call.requestId);
      return this.#serveOther(call, destination);
    } catch (thrown) {
      if (!(thrown instanceof UnknownUrl)) return this.#reject(thrown, call);
      const baseUrl = findBaseUrl(request.headers, this.#options.publicUrl);
      return this.#reject(thrown.withBaseUrl(baseUrl), call);
    }
  }

  /** Returns the response to a request that could not be parsed. */
  reject(fault: RequestFault): WholeResponse {
    return buildErrorResponse(requestFaultError(fault), this.#options.newId("req"));
  }

  #serveModelCall(call: ServerCall, endpoint: Endpoint): Promise<HttpResponse> | HttpResponse {
    if (endpoint.model !== undefined) checkGeminiQuery(endpoint, call.query);
    return this.#pipeline.handle(call, endpoint);
  }

  async #serveOther(call: ServerCall, destination: OtherDestination): Promise<HttpResponse> {
    try {
      return await this.#respond(call, destination);
    } catch (thrown) {
      return this.#reject(thrown, call);
    }
  }

  #respond(call: ServerCall, destination: OtherDestination): Promise<HttpResponse> | HttpResponse {
    switch (destination.kind) {
      case "site":
      case "moved":
      case "api":
        return this.#browserEndpoints.respond(call, destination);
      case "stored_response":
      case "count_tokens":
      case "models":
      case "model":
      case "gemini_models":
      case "gemini_model":
      case "usage":
      case "request":
        return this.#callerEndpoints.respond(call, destination);
      case "tool_sign_in":
      case "managed_settings":
      case "tool_telemetry":
        return respondToTool(this.#options, call, destination);
      case "openapi":
        return this.#openApi.respond(call);
      case "health":
        return new WholeResponse(200, `${JSON_LINES}x-request-id: ${call.requestId}\r\n`, HEALTHY);
      case "readiness":
        return this.#reportReadiness(call.requestId);
    }
  }

  async #reportReadiness(requestId: string): Promise<Response> {
    const report = await this.#options.readiness.report();
    return Response.json(report, {
      status: report.status === "ready" ? 200 : 503,
      headers: { "x-request-id": requestId },
    });
  }

  #reject(thrown: unknown, { path, request, requestId }: ServerCall): HttpResponse {
    const error = asApiError(thrown);
    if (error.rule !== null) this.#gateway.policyActions.add(error.rule, "reject");
    if (error.status === 500) logFault(this.#gateway.log, { request_id: requestId }, thrown);
    return buildErrorResponse(error, requestId, findErrorApi(path, request.headers));
  }
}
