/** Sends one batch to a collector: OTLP over HTTP, as JSON, compressed if the operator wants it. */

import { gzip } from "node:zlib";
import { joinParts, type Part, wholeBytesPart } from "../base/parts.ts";
import type { HttpClient, ResponseHeaders, ResponseSink } from "../net/http-client/contract.ts";
import { DialError, type Dialer, type DialTarget } from "../net/http-client/dial.ts";

interface OtlpClientOptions {
  readonly dialer: Pick<Dialer, "resolve">;
  readonly http: Pick<HttpClient, "send">;
  readonly nowMs: () => number;
  /** The whole URL, with `/v1/traces`. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly compression: "gzip" | "none";
  /** From dialling to the end of the response. */
  readonly timeoutMs: number;
  readonly userAgent: string;
}

/** `reason`: a short phrase for the log. It never repeats text of the collector. */
export type OtlpResult =
  | { readonly kind: "accepted"; readonly rejectedSpans: number }
  | { readonly kind: "rejected"; readonly reason: string }
  | { readonly kind: "unavailable"; readonly reason: string; readonly retryAfterMs: number | null };

/** The specification names these. Every other error means that the batch itself is not accepted. */
const RETRIED_STATUSES: ReadonlySet<number> = new Set([429, 502, 503, 504]);
const RESPONSE_BYTES_MAX = 65_536;
/** The fastest level: spans repeat so much that higher levels gain little. */
const GZIP_LEVEL = 1;

export class OtlpClient {
  readonly #options: OtlpClientOptions;
  readonly #url: URL;
  readonly #headerLines: string;

  constructor(options: OtlpClientOptions) {
    this.#options = options;
    this.#url = new URL(options.url);
    const own = [
      ["content-type", "application/json"],
      ["user-agent", options.userAgent],
      ...(options.compression === "gzip" ? [["content-encoding", "gzip"]] : []),
    ];
    const lines = [...own, ...Object.entries(options.headers)];
    this.#headerLines = lines.map(([name, value]) => `${name}: ${value}\r\n`).join("");
  }

  /** The bytes must stay unchanged until the result is known. */
  async send(message: Uint8Array): Promise<OtlpResult> {
    const { dialer, compression } = this.#options;
    const body = compression === "gzip" ? await compress(message) : message;
    let target: DialTarget;
    try {
      // The operator configures the collector, which usually runs beside the gateway.
      target = await dialer.resolve(this.#url.origin, { privateNetwork: true });
    } catch (error) {
      if (!(error instanceof DialError)) throw error;
      return unavailable(error.reason);
    }
    return this.#post(target, body);
  }

  #post(target: DialTarget, body: Uint8Array): Promise<OtlpResult> {
    const { http, timeoutMs, nowMs } = this.#options;
    return new Promise((resolve) => {
      const end = (result: OtlpResult) => {
        clearTimeout(timeout);
        resolve(result);
      };
      const exchange = http.send(
        {
          target,
          method: "POST",
          path: this.#url.pathname + this.#url.search,
          headers: this.#headerLines,
          body: [wholeBytesPart(body)],
        },
        new ResultSink(nowMs, end),
      );
      const timeout = setTimeout(() => {
        exchange.abort();
        end(unavailable("no response in time"));
      }, timeoutMs);
    });
  }
}

function compress(plain: Uint8Array): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    // The runtime compresses on another thread, so that no request waits for it.
    gzip(plain, { level: GZIP_LEVEL }, (error, packed) => (error === null ? resolve(packed) : reject(error)));
  });
}

function unavailable(reason: string, retryAfterMs: number | null = null): OtlpResult {
  return { kind: "unavailable", reason, retryAfterMs };
}

/** Reads the response of a collector. */
class ResultSink implements ResponseSink {
  readonly #nowMs: () => number;
  readonly #end: (result: OtlpResult) => void;
  readonly #pieces: Part[] = [];
  #bytes = 0;
  #status = 0;
  #headers: ResponseHeaders | null = null;

  constructor(nowMs: () => number, end: (result: OtlpResult) => void) {
    this.#nowMs = nowMs;
    this.#end = end;
  }

  head(status: number, headers: ResponseHeaders): void {
    this.#status = status;
    this.#headers = headers;
  }

  data(piece: Part): void {
    this.#bytes += piece.end - piece.start;
    if (this.#bytes <= RESPONSE_BYTES_MAX) this.#pieces.push(piece);
  }

  end(): void {
    const status = this.#status;
    if (status >= 200 && status < 300) this.#end({ kind: "accepted", rejectedSpans: this.#readRejected() });
    else if (RETRIED_STATUSES.has(status)) this.#end(unavailable(`HTTP ${status}`, this.#retryAfterMs()));
    else this.#end({ kind: "rejected", reason: `HTTP ${status}` });
  }

  fail({ kind }: { readonly kind: string }): void {
    this.#end(unavailable(kind));
  }

  #readRejected(): number {
    if (this.#bytes === 0 || this.#bytes > RESPONSE_BYTES_MAX) return 0;
    return readRejectedSpans(new TextDecoder().decode(joinParts(this.#pieces)));
  }

  #retryAfterMs(): number | null {
    const value = this.#headers?.get("retry-after") ?? null;
    if (value === null) return null;
    if (/^\d{1,6}$/.test(value)) return Number(value) * 1_000;
    const atMs = Date.parse(value);
    return Number.isNaN(atMs) ? null : Math.max(0, atMs - this.#nowMs());
  }
}

/** A collector may accept a batch and reject some of its spans. They are not sent again. */
function readRejectedSpans(text: string): number {
  try {
    const rejected = Number(JSON.parse(text)?.partialSuccess?.rejectedSpans ?? 0);
    return Number.isSafeInteger(rejected) && rejected > 0 ? rejected : 0;
  } catch {
    return 0;
  }
}
