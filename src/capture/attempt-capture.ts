/** The capture of one upstream attempt: the request as it was sent, and the response as it arrived. */

import type { Part } from "../base/parts.ts";
import type { BodySink } from "../net/wire/body-sink.ts";
import type { HeaderReader } from "../net/wire/http-fields.ts";
import { CappedBytes, type CaptureMemory } from "./capped-bytes.ts";
import { CAPTURED_RESPONSE_HEADERS, readHeaders } from "./captured-headers.ts";
import type { AttemptDraft, CapturedStep, HeaderList } from "./document.ts";

export interface AttemptTarget {
  readonly account: string;
  readonly upstreamModel: string;
  readonly credential: string | null;
  /** Null if the request has no fallback. */
  readonly step: CapturedStep | null;
}

interface SentRequest {
  readonly transport: "http" | "websocket";
  readonly method: string;
  readonly url: string;
  readonly headerLines: string;
  /** Null if there is no body, or if it is read from disk. */
  readonly body: readonly Part[] | null;
}

/** The response of an attempt, as the call to the account reports it. */
interface ResponseEvents<Failure> extends BodySink<Part, Failure> {
  head(status: number, headers: HeaderReader): void;
}

interface AttemptOptions {
  readonly memory: CaptureMemory;
  readonly bodyBytesMax: number;
  isOver(): boolean;
  /** There is no memory for the capture. */
  onFull(): void;
}

const UNSENT: SentRequest = { transport: "http", method: "POST", url: "", headerLines: "", body: null };

export class AttemptCapture {
  readonly #target: AttemptTarget;
  readonly #options: AttemptOptions;
  #sent: SentRequest = UNSENT;
  #body: CappedBytes | null = null;
  #status: number | null = null;
  #responseHeaders: HeaderList = [];
  #response: CappedBytes | null = null;
  #failure: string | null = null;

  constructor(target: AttemptTarget, options: AttemptOptions) {
    this.#target = target;
    this.#options = options;
  }

  /** A request that a WebSocket did not accept is sent again by HTTP: the last one counts. */
  addSent(sent: SentRequest): void {
    if (this.#options.isOver()) return;
    this.#sent = { ...sent, body: null };
    if (sent.body === null) return;
    this.#body = new CappedBytes(this.#options.memory, this.#options.bodyBytesMax);
    this.#check(this.#body.appendAll(sent.body));
  }

  /** Copies the response on its way to the sink. */
  tap<Failure extends { readonly class: string; readonly reason: string }>(
    sink: ResponseEvents<Failure>,
  ): ResponseEvents<Failure> {
    return {
      head: (status, headers) => {
        this.#addHead(status, headers);
        sink.head(status, headers);
      },
      data: (piece) => {
        this.#addData(piece);
        sink.data(piece);
      },
      end: () => sink.end(),
      fail: (failure) => {
        this.fail(failure);
        sink.fail(failure);
      },
    };
  }

  fail({ class: kind, reason }: { readonly class: string; readonly reason: string }): void {
    this.#failure = `${kind}: ${reason}`;
  }

  take(): AttemptDraft {
    const { transport, method, url, headerLines } = this.#sent;
    const draft: AttemptDraft = {
      account: this.#target.account,
      upstreamModel: this.#target.upstreamModel,
      step: this.#target.step,
      transport,
      method,
      url,
      headerLines,
      body: this.#body?.take() ?? null,
      status: this.#status,
      responseHeaders: this.#responseHeaders,
      response: this.#response?.take() ?? null,
      failure: this.#failure,
    };
    this.#body = null;
    this.#response = null;
    return draft;
  }

  #addHead(status: number, headers: HeaderReader): void {
    if (this.#options.isOver()) return;
    this.#status = status;
    this.#responseHeaders = readHeaders(headers, CAPTURED_RESPONSE_HEADERS);
    this.#response = new CappedBytes(this.#options.memory, this.#options.bodyBytesMax);
  }

  #addData(piece: Part): void {
    if (this.#response === null || this.#options.isOver()) return;
    this.#check(this.#response.append(piece));
  }

  #check(hasRoom: boolean): void {
    if (!hasRoom) this.#options.onFull();
  }
}
