/** Receives a stream of Amazon Bedrock and passes it on as the server-sent events of Messages. */

import type { Part } from "../../base/parts.ts";
import type { ResponseHeaders, ResponseSink } from "../../net/http-client/contract.ts";
import type { EventFrameFault } from "../../net/wire/event-frames.ts";
import { BedrockEventDecoder, EVENT_FRAMES_TYPE } from "../../protocols/messages/bedrock-events.ts";
import { type UpstreamFailure, upstreamFailure } from "../failure.ts";
import type { FramingOptions } from "./kind-definition.ts";

export class BedrockStreamSink implements ResponseSink<UpstreamFailure> {
  readonly #sink: ResponseSink<UpstreamFailure>;
  readonly #options: FramingOptions;
  /** Null for a response that is not a stream, such as an error. */
  #decoder: BedrockEventDecoder | null = null;

  constructor(sink: ResponseSink<UpstreamFailure>, options: FramingOptions) {
    this.#sink = sink;
    this.#options = options;
  }

  head(status: number, headers: ResponseHeaders): void {
    const isStream = headers.get("content-type")?.toLowerCase().startsWith(EVENT_FRAMES_TYPE) === true;
    if (isStream) this.#decoder = new BedrockEventDecoder(this.#options);
    this.#sink.head(status, isStream ? withEventsType(headers) : headers);
  }

  data(piece: Part): void {
    if (this.#decoder === null) {
      this.#sink.data(piece);
      return;
    }
    const { events, fault } = this.#decoder.decode(piece);
    if (events !== null) this.#sink.data(events);
    if (fault !== null) this.#options.onFault(describeFault(fault));
  }

  end(): void {
    this.#sink.end();
  }

  fail(failure: UpstreamFailure): void {
    this.#sink.fail(failure);
  }
}

function withEventsType(headers: ResponseHeaders): ResponseHeaders {
  return {
    get: (name) => (name === "content-type" ? "text/event-stream" : headers.get(name)),
    has: (name) => headers.has(name),
  };
}

function describeFault(fault: EventFrameFault): UpstreamFailure {
  return fault === "too_large"
    ? upstreamFailure("too_large", "an event was larger than allowed")
    : upstreamFailure("bad_answer", "a corrupt event stream", 200);
}
