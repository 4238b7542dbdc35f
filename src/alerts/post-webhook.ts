/** Sends one POST to a webhook: to a checked address, without redirects or proxies, and within a deadline. */

import { createHmac } from "node:crypto";
import type { HttpClient, HttpFailure } from "../net/http-client/contract.ts";
import { DialError, type Dialer, type DialTarget } from "../net/http-client/dial.ts";

export interface WebhookClient {
  dialer: Dialer;
  http: HttpClient;
  /** From dialling to the response headers. */
  timeoutMs: number;
}

export interface WebhookRequest {
  url: string;
  privateNetwork: boolean;
  /** Names in lower case; values are printable ASCII. */
  headers: Readonly<Record<string, string>>;
  contentType: "application/json" | "application/x-ndjson";
  body: string;
}

/** `response`: a short phrase for administrators. It never repeats text of the receiver. */
export interface WebhookResponse {
  ok: boolean;
  response: string;
  /** Null if there was no response. */
  status: number | null;
  /** The header `x-gateway-cursor`, with which a receiver of usage names its position. */
  cursor: string | null;
}

export function buildFailure(response: string): WebhookResponse {
  return { ok: false, response, status: null, cursor: null };
}

/** The signature covers the time, so that a delivery cannot be replayed later. */
export function signBody(secret: string, body: string, nowMs: number): string {
  const seconds = Math.floor(nowMs / 1000);
  return `t=${seconds},v1=${createHmac("sha256", secret).update(`${seconds}.${body}`).digest("hex")}`;
}

export async function postWebhook(
  { dialer, http, timeoutMs }: WebhookClient,
  request: WebhookRequest,
): Promise<WebhookResponse> {
  const url = new URL(request.url);
  let target: DialTarget;
  try {
    target = await dialer.resolve(url.origin, request);
  } catch (error) {
    if (!(error instanceof DialError)) throw error;
    return buildFailure(DIAL_FAILURE_TEXTS[error.reason]);
  }
  const lines = Object.entries(request.headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const bytes = new TextEncoder().encode(request.body);
  return new Promise((resolve) => {
    const end = (response: WebhookResponse) => {
      clearTimeout(timeout);
      exchange.abort();
      resolve(response);
    };
    const exchange = http.send(
      {
        target,
        method: "POST",
        path: url.pathname + url.search,
        headers: `content-type: ${request.contentType}\r\n${lines.join("")}`,
        body: [{ bytes, start: 0, end: bytes.length }],
      },
      {
        // Only the status matters; the response body is ignored.
        head: (status, headers) =>
          end({
            ok: status >= 200 && status < 300,
            response: `HTTP ${status}`,
            status,
            cursor: headers.get("x-gateway-cursor"),
          }),
        data() {},
        end() {},
        fail: ({ kind }) => end(buildFailure(FAILURE_TEXTS[kind])),
      },
    );
    const timeout = setTimeout(() => end(buildFailure("no response in time")), timeoutMs);
  });
}

const FAILURE_TEXTS: Readonly<Record<HttpFailure["kind"], string>> = {
  refused: "the connection was refused",
  tls: "the certificate is not trusted",
  connect_timeout: "the connection timed out",
  reset: "the connection was lost",
  bad_http: "the response is not HTTP",
};

const DIAL_FAILURE_TEXTS: Readonly<Record<DialError["reason"], string>> = {
  bad_url: "the address is not valid",
  forbidden_address:
    "the address is in a private network; to allow it, set private_network in the configuration file",
  dns_failed: "the host name could not be resolved",
  dns_timeout: "the host name could not be resolved in time",
};
