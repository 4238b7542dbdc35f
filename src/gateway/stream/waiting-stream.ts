/** The response to a stream that still waits for its limits: keep-alive comments first, then the stream itself. */

import type { ApiError } from "../../errors.ts";
import {
  type ClientSink,
  type HttpResponse,
  StreamedResponse,
  type StreamSource,
} from "../../net/wire/http-message.ts";
import { type Part, wholePart } from "../../net/wire/parts.ts";
import { KEEP_ALIVE } from "../../net/wire/sse-write.ts";
import type { KeepAliveTimer } from "./relay.ts";

export interface WaitingStreamOptions {
  /** The response once the limits are reserved and an account is selected. */
  serving: Promise<HttpResponse>;
  /** Closes the record of a request that failed meanwhile. Returns the error for the client. */
  close(cause: unknown): Promise<ApiError>;
  /** Builds the terminal event of a failed stream. */
  describe(error: ApiError): readonly Part[];
  /** Called once, when the request no longer waits. */
  ended(): void;
  waitingSinceMs: number;
  keepAliveMs: number;
  pulse: KeepAliveTimer;
}

type State =
  | { kind: "waiting" }
  | { kind: "served"; source: StreamSource }
  | { kind: "failed"; last: readonly Part[] };

export class WaitingStream implements StreamSource {
  private readonly options: WaitingStreamOptions;
  private readonly stopBeat: () => void;
  private state: State = { kind: "waiting" };
  private sink: ClientSink | null = null;
  private lastWriteMs: number;
  private isGone = false;

  constructor(options: WaitingStreamOptions) {
    this.options = options;
    this.lastWriteMs = options.waitingSinceMs;
    this.stopBeat = options.pulse.add((nowMs) => this.beat(nowMs));
    void this.follow();
  }

  flowTo(sink: ClientSink): void {
    this.sink = sink;
    this.handOver();
  }

  leave(): void {
    this.isGone = true;
    if (this.state.kind === "served") this.state.source.leave();
  }

  /** Also runs without a client: the reservations of the request must be released. */
  private async follow(): Promise<void> {
    const { serving, close, describe, ended } = this.options;
    try {
      const answer = await serving;
      if (!(answer instanceof StreamedResponse))
        throw new Error("a stream was asked for and a whole answer came");
      this.state = { kind: "served", source: answer.source };
    } catch (cause) {
      this.state = { kind: "failed", last: describe(await close(cause)) };
    }
    this.stopBeat();
    ended();
    this.handOver();
  }

  private handOver(): void {
    const { state, sink } = this;
    if (state.kind === "served" && this.isGone) state.source.leave();
    if (state.kind === "waiting" || sink === null) return;
    if (state.kind === "served") state.source.flowTo(sink);
    else if (!this.isGone) sink.end(state.last);
  }

  private beat(nowMs: number): void {
    if (this.sink === null || this.isGone || nowMs - this.lastWriteMs < this.options.keepAliveMs) return;
    this.lastWriteMs = nowMs;
    this.sink.write(wholePart(KEEP_ALIVE));
  }
}
