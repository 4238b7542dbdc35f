/** The response to a stream that still waits for its limits: keep-alive comments first, then the stream itself. */

import { type Part, wholePart } from "../../base/parts.ts";
import type { ApiError } from "../../errors.ts";
import {
  type HttpResponse,
  StreamedResponse,
  type StreamSink,
  type StreamSource,
} from "../../net/wire/http-message.ts";
import type { KeepAliveTimer } from "./keep-alive-timer.ts";

interface WaitingStreamOptions {
  /** The response once the limits are reserved and an account is selected. */
  serving: Promise<HttpResponse>;
  /** Closes the record of a request that failed meanwhile. Returns the error for the client. */
  close(cause: unknown): Promise<ApiError>;
  /** Builds the terminal event of a failed stream. */
  describe(error: ApiError): readonly Part[];
  /** Called once, when the request no longer waits. */
  onEnd(): void;
  /** Written while the request waits. */
  keepAlive: Uint8Array;
  waitingSinceMs: number;
  keepAliveMs: number;
  keepAliveTimer: KeepAliveTimer;
}

type ClientState =
  /** The client has not begun to read. */
  | { readonly kind: "absent" }
  | { readonly kind: "reading"; readonly sink: StreamSink }
  | { readonly kind: "disconnected" };

type RequestState =
  | { readonly kind: "waiting" }
  | { readonly kind: "served"; readonly source: StreamSource }
  | { readonly kind: "failed"; readonly last: readonly Part[] };

export class WaitingStream implements StreamSource {
  readonly #options: WaitingStreamOptions;
  readonly #stopTicks: () => void;
  #client: ClientState = { kind: "absent" };
  #request: RequestState = { kind: "waiting" };
  #lastWriteMs: number;

  constructor(options: WaitingStreamOptions) {
    this.#options = options;
    this.#lastWriteMs = options.waitingSinceMs;
    this.#stopTicks = options.keepAliveTimer.add((nowMs) => this.#tick(nowMs));
    void this.#awaitServing();
  }

  flowTo(sink: StreamSink): void {
    if (this.#client.kind !== "absent") return;
    this.#client = { kind: "reading", sink };
    this.#handOver();
  }

  /** Keep-alives are too few to fill the buffer of a slow client, so only the served stream is paused. */
  pause(): void {
    if (this.#request.kind === "served") this.#request.source.pause();
  }

  resume(): void {
    if (this.#request.kind === "served") this.#request.source.resume();
  }

  abort(): void {
    this.#client = { kind: "disconnected" };
    this.#handOver();
  }

  /** Also runs without a client: the reservations of the request must be released. */
  async #awaitServing(): Promise<void> {
    const { serving, close, describe, onEnd } = this.#options;
    try {
      const response = await serving;
      if (!(response instanceof StreamedResponse))
        throw new Error("expected a stream, received a whole response");
      this.#request = { kind: "served", source: response.source };
    } catch (cause) {
      this.#request = { kind: "failed", last: describe(await close(cause)) };
    }
    this.#stopTicks();
    onEnd();
    this.#handOver();
  }

  #handOver(): void {
    const request = this.#request;
    const client = this.#client;
    if (request.kind === "served") {
      if (client.kind === "disconnected") request.source.abort();
      else if (client.kind === "reading") request.source.flowTo(client.sink);
    } else if (request.kind === "failed" && client.kind === "reading") client.sink.end(request.last);
  }

  #tick(nowMs: number): void {
    const client = this.#client;
    if (client.kind !== "reading" || nowMs - this.#lastWriteMs < this.#options.keepAliveMs) return;
    this.#lastWriteMs = nowMs;
    client.sink.data(wholePart(this.#options.keepAlive));
  }
}
