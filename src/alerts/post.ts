/** Sends one POST to a webhook: to a checked address, without redirects or proxies, and within a deadline. */

import type { HttpClient, HttpFailure } from "../net/http-client/client.ts";
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
  body: string;
}

/** `answer`: a short phrase for administrators. It never repeats text of the receiver. */
export interface WebhookResponse {
  ok: boolean;
  answer: string;
}

export async function post(
  { dialer, http, timeoutMs }: WebhookClient,
  request: WebhookRequest,
): Promise<WebhookResponse> {
  const url = new URL(request.url);
  let target: DialTarget;
  try {
    target = await dialer.resolve(url.origin, request.privateNetwork);
  } catch (error) {
    if (!(error instanceof DialError)) throw error;
    return { ok: false, answer: DIAL_ANSWERS[error.reason] };
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
        headers: `content-type: application/json\r\n${lines.join("")}`,
        body: [{ bytes, start: 0, end: bytes.length }],
      },
      {
        // Only the status matters; the response body is ignored.
        head: (status) => end({ ok: status >= 200 && status < 300, answer: `HTTP ${status}` }),
        data() {},
        end() {},
        failed: ({ kind }) => end({ ok: false, answer: ANSWERS[kind] }),
      },
    );
    const timeout = setTimeout(() => end({ ok: false, answer: "no answer in time" }), timeoutMs);
  });
}

const ANSWERS: Readonly<Record<HttpFailure["kind"], string>> = {
  refused: "nobody listens there",
  tls: "its certificate is not trusted",
  connect_timeout: "no connection in time",
  reset: "the connection broke",
  bad_http: "what answered is not HTTP",
};

const DIAL_ANSWERS: Readonly<Record<DialError["reason"], string>> = {
  bad_url: "the address is not valid",
  forbidden_address: "the address is in a private network, which only the configuration file can allow",
  dns_failed: "its host name could not be looked up",
  dns_timeout: "its host name could not be looked up in time",
};
