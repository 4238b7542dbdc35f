/** Endpoints for browsers: the pages, and the console API behind them. They are served only under the gateway's hosts. */

import type { ApiHandler } from "../console-api/handler.ts";
import { errorResponse } from "../errors.ts";
import type { SharedResponse } from "../net/wire/http-message.ts";
import { type HostCheck, misdirectedRequest, openHostCheck } from "./host-check.ts";
import type { Destination, SiteName } from "./routes.ts";
import type { ServerCall } from "./server-call.ts";
import { errorPage, type Site } from "./site.ts";

type BrowserDestination = Extract<Destination, { kind: "site" | "moved" | "api" }>;

export interface BrowserEndpointsOptions {
  api: ApiHandler;
  sites: Readonly<Record<SiteName, Site>>;
  /** How clients reach this gateway, without a trailing slash. */
  publicUrl: string;
  /** Additional host names under which the pages and the console API are served. */
  allowedHosts: readonly string[];
  shutdownSignal: AbortSignal;
}

/** Neither path exposes anything: `/` only redirects, and metrics are collected by any host name. */
const FOR_ANY_HOST: ReadonlySet<string> = new Set(["/", "/metrics"]);

/** One year, without subdomains: the gateway does not decide for other hosts of the domain. */
const STRICT_TRANSPORT = "max-age=31536000";

export class BrowserEndpoints {
  readonly #options: BrowserEndpointsOptions;
  readonly #isOwnHost: HostCheck;
  readonly #isPublicHttps: boolean;

  constructor(options: BrowserEndpointsOptions) {
    this.#options = options;
    this.#isOwnHost = openHostCheck(options.publicUrl, options.allowedHosts);
    this.#isPublicHttps = options.publicUrl.startsWith("https:");
  }

  async respond(call: ServerCall, destination: BrowserDestination): Promise<Response | SharedResponse> {
    const host = call.request.headers.get("host");
    if (!FOR_ANY_HOST.has(call.path) && !this.#isOwnHost(host)) return rejectHost(call, destination, host);
    const response = await this.#respond(call, destination);
    if (this.#isPublicHttps) response.headers.set("strict-transport-security", STRICT_TRANSPORT);
    return response;
  }

  #respond(call: ServerCall, destination: BrowserDestination): Promise<Response | SharedResponse> | Response {
    switch (destination.kind) {
      case "site":
        return this.#sendPage(call, destination.site);
      case "moved":
        // A path instead of a URL: behind a proxy, only the browser knows the host.
        return new Response(null, {
          status: 302,
          headers: {
            location: destination.to + (call.query === "" ? "" : `?${call.query}`),
            "x-request-id": call.requestId,
          },
        });
      case "api":
        return this.#callApi(call);
    }
  }

  async #sendPage({ request, requestId, path }: ServerCall, site: SiteName): Promise<SharedResponse> {
    const page = await this.#options.sites[site].respond(request.headers, path);
    page.headers.set("x-request-id", requestId);
    return page;
  }

  #callApi(call: ServerCall): Promise<Response | SharedResponse> {
    return this.#options.api({
      request: call.request,
      requestId: call.requestId,
      path: call.path,
      query: call.query,
      peerAddress: () => call.clientAddress(),
      authenticated: () => call.authenticated(),
      shutdownSignal: this.#options.shutdownSignal,
    });
  }
}

function rejectHost(
  { requestId }: ServerCall,
  { kind }: BrowserDestination,
  host: string | null,
): Response | SharedResponse {
  const error = misdirectedRequest(host);
  const response = kind === "api" ? errorResponse(error, requestId) : errorPage(error.status, error.message);
  response.headers.set("x-request-id", requestId);
  return response;
}
