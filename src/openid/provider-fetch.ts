/**
 * The `fetch` with which the OpenID Connect library reaches a provider: to checked addresses only, without redirects,
 * with a bounded body and a deadline. Bodies of client errors are returned, because the library reads their codes.
 */

import { joinParts, type Part, wholePart } from "../base/parts.ts";
import type { HttpClient, HttpFailure, OutgoingRequest } from "../net/http-client/contract.ts";
import { DialError, type Dialer, type DialTarget } from "../net/http-client/dial.ts";
import { findDocumentFault } from "./document-bounds.ts";

/** The provider could not be reached or did not respond as it should. The message names no secret. */
export class ProviderUnreachable extends Error {
  override readonly name = "ProviderUnreachable";
}

export interface ProviderConnections {
  readonly dialer: Dialer;
  readonly http: HttpClient;
  readonly responseBytesMax: number;
  /** JSON values of a response, and of each part of a token in it. */
  readonly responseValuesMax: number;
  readonly responseTimeoutMs: number;
}

interface FetchOptions {
  readonly method: string;
  readonly headers: Record<string, string>;
  readonly body?: unknown;
}

type ProviderFetch = (url: string, options: FetchOptions) => Promise<Response>;

const KEPT_HEADERS = ["content-type", "date"];

/** The bodies of statuses without one must be null. */
const NO_BODY: ReadonlySet<number> = new Set([204, 205, 304]);

export function openProviderFetch(
  connections: ProviderConnections,
  permission: { privateNetwork: boolean },
): ProviderFetch {
  return async (address, { method, headers, body }) => {
    if (method !== "GET" && method !== "POST") throw new ProviderUnreachable(`${method} is not supported`);
    const url = new URL(address);
    const lines = Object.entries({ ...headers, "accept-encoding": "identity" });
    const target = await dial(connections.dialer, url, permission);
    return exchange(connections, url.host, {
      target,
      method,
      path: url.pathname + url.search,
      headers: lines.map(([name, value]) => `${name}: ${value}\r\n`).join(""),
      body: body === undefined || body === null ? null : wholePart(new TextEncoder().encode(String(body))),
    });
  };
}

async function dial(dialer: Dialer, url: URL, permission: { privateNetwork: boolean }): Promise<DialTarget> {
  try {
    return await dialer.resolve(url.origin, permission);
  } catch (error) {
    if (!(error instanceof DialError)) throw error;
    const hint =
      error.reason === "forbidden_address" ? "; private_network in the configuration file allows it" : "";
    throw new ProviderUnreachable(`${url.host}: ${error.message}${hint}`);
  }
}

function exchange(
  { http, responseBytesMax, responseValuesMax, responseTimeoutMs }: ProviderConnections,
  host: string,
  request: OutgoingRequest,
): Promise<Response> {
  return new Promise((resolve, reject) => {
    let status = 0;
    const headers = new Headers();
    const pieces: Part[] = [];
    let bytes = 0;
    const stop = () => {
      clearTimeout(timer);
      sent.abort();
    };
    const fail = (reason: string) => {
      stop();
      reject(new ProviderUnreachable(`${host}: ${reason}`));
    };
    const sent = http.send(request, {
      head(code, received) {
        status = code;
        for (const name of KEPT_HEADERS) {
          const value = received.get(name);
          if (value !== null) headers.set(name, value);
        }
        if (code >= 500) fail(`HTTP ${code}`);
        else if (code >= 300 && code < 400) fail(`HTTP ${code}: redirects are not followed`);
      },
      data(piece) {
        bytes += piece.end - piece.start;
        if (bytes > responseBytesMax) fail(`the response is longer than ${responseBytesMax} bytes`);
        else pieces.push(piece);
      },
      end() {
        stop();
        const body = new Uint8Array(joinParts(pieces));
        const fault = findDocumentFault(
          { body, contentType: headers.get("content-type") },
          responseValuesMax,
        );
        if (fault === null) resolve(new Response(NO_BODY.has(status) ? null : body, { status, headers }));
        else fail(fault);
      },
      fail: ({ kind }: HttpFailure) => fail(FAILURES[kind]),
    });
    const timer = setTimeout(
      () => fail(`no complete response within ${responseTimeoutMs} ms`),
      responseTimeoutMs,
    );
  });
}

const FAILURES: Readonly<Record<HttpFailure["kind"], string>> = {
  refused: "the connection was refused",
  tls: "the certificate is not trusted",
  connect_timeout: "the connection timed out",
  reset: "the connection was lost",
  bad_http: "the response is not HTTP",
};
