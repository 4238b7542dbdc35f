/**
 * The capture of one request in flight: copies of the request, of what was sent upstream, and of the response. It
 * copies bytes and delays nothing. If the memory is full, the capture is dropped and the request continues.
 */

import { type Part, wholePart } from "../base/parts.ts";
import type { HeaderReader } from "../net/wire/http-fields.ts";
import type { StreamSink } from "../net/wire/http-message.ts";
import type { UsageRow } from "../store/usage/usage-row.ts";
import { AttemptCapture, type AttemptTarget } from "./attempt-capture.ts";
import { CappedBytes, type CaptureMemory } from "./capped-bytes.ts";
import { CAPTURED_REQUEST_HEADERS, readHeaders } from "./captured-headers.ts";
import type { CaptureDraft, HeaderList } from "./document.ts";

/** How the request ended, for the list of captures. */
type CaptureEnding = Readonly<
  Pick<UsageRow, "requestId" | "atMs" | "durationMs" | "keyId" | "userId" | "groupId" | "endpoint"> &
    Pick<UsageRow, "publicModel" | "status" | "outcome">
>;

export interface FinishedCapture {
  readonly ending: CaptureEnding;
  readonly draft: CaptureDraft;
  /** Secrets that are removed wherever they occur. */
  readonly secrets: readonly string[];
  readonly heldBytes: number;
}

interface CaptureOptions {
  readonly memory: CaptureMemory;
  /** The limit of each body. */
  readonly bodyBytesMax: number;
  /** Called once, unless the capture is discarded. `dropped`: there was no memory for it. */
  onEnd(
    end: { kind: "finished"; capture: FinishedCapture } | { kind: "dropped" } | { kind: "discarded" },
  ): void;
}

export interface ArrivedRequest {
  readonly path: string;
  readonly transport: "http" | "websocket";
  readonly headers: HeaderReader;
  readonly secret: string | null;
}

type State =
  | { readonly kind: "open" }
  /** The request is settled. The last event of its stream is still to come. */
  | { readonly kind: "settled"; readonly ending: CaptureEnding }
  | { readonly kind: "over" };

/** Counts the memory of one capture, so that all of it can be released at once. */
class OwnMemory implements CaptureMemory {
  heldBytes = 0;
  readonly #shared: CaptureMemory;

  constructor(shared: CaptureMemory) {
    this.#shared = shared;
  }

  reserve(bytes: number): boolean {
    if (!this.#shared.reserve(bytes)) return false;
    this.heldBytes += bytes;
    return true;
  }

  release(bytes: number): void {
    this.heldBytes -= bytes;
    this.#shared.release(bytes);
  }
}

export class RequestCapture {
  readonly #options: CaptureOptions;
  readonly #memory: OwnMemory;
  readonly #path: string;
  readonly #transport: "http" | "websocket";
  readonly #headers: HeaderList;
  readonly #secrets: string[] = [];
  readonly #attempts: AttemptCapture[] = [];
  #body: CappedBytes | null = null;
  #response: CappedBytes | null = null;
  #responseStatus: number | null = null;
  /** The terminal event of the stream has not been written. */
  #isStreaming = false;
  #isStream = false;
  #isClientGone = false;
  #state: State = { kind: "open" };

  constructor({ path, transport, headers, secret }: ArrivedRequest, options: CaptureOptions) {
    this.#options = options;
    this.#memory = new OwnMemory(options.memory);
    this.#path = path;
    this.#transport = transport;
    this.#headers = readHeaders(headers, CAPTURED_REQUEST_HEADERS);
    if (secret !== null) this.#secrets.push(secret);
  }

  addBody(body: Part): void {
    if (this.#isOver()) return;
    this.#body = new CappedBytes(this.#memory, this.#options.bodyBytesMax);
    this.#check(this.#body.append(body));
  }

  beginAttempt(target: AttemptTarget): AttemptCapture {
    if (target.credential !== null) this.#secrets.push(target.credential);
    const attempt = new AttemptCapture(target, {
      memory: this.#memory,
      bodyBytesMax: this.#options.bodyBytesMax,
      isOver: () => this.#isOver(),
      onFull: () => this.#drop(),
    });
    if (!this.#isOver()) this.#attempts.push(attempt);
    return attempt;
  }

  /** The last attempt failed, perhaps only when its response was read. */
  failAttempt(failure: { readonly class: string; readonly reason: string }): void {
    this.#attempts.at(-1)?.fail(failure);
  }

  addWholeResponse(status: number, body: readonly Part[]): void {
    if (this.#isOver()) return;
    this.#responseStatus = status;
    this.#response = new CappedBytes(this.#memory, this.#options.bodyBytesMax);
    this.#check(this.#response.appendAll(body));
  }

  addErrorResponse(status: number, body: object): void {
    this.addWholeResponse(status, wholePart(new TextEncoder().encode(JSON.stringify(body))));
  }

  /** Copies what is written to the client. */
  tapStream(sink: StreamSink): StreamSink {
    if (this.#isOver()) return sink;
    this.#isStream = true;
    this.#isStreaming = true;
    this.#response = new CappedBytes(this.#memory, this.#options.bodyBytesMax);
    return {
      data: (parts) => {
        this.#addEvents(parts);
        sink.data(parts);
      },
      end: (last) => {
        this.#addEvents(last);
        sink.end(last);
        this.#endStream();
      },
      fail: (thrown) => {
        sink.fail(thrown);
        this.#endStream();
      },
    };
  }

  /** The client of the stream disconnected: no last event is written. Called before the settlement. */
  endWithoutClient(): void {
    this.#isStreaming = false;
    this.#isClientGone = true;
  }

  /** A stream whose client is connected is finished with its last event, which follows the settlement. */
  settle(ending: CaptureEnding): void {
    if (this.#state.kind !== "open") return;
    this.#state = { kind: "settled", ending };
    if (!this.#isStreaming) this.#finish(ending);
  }

  /** The request ended without a record: a repeat that received a stored response. */
  discard(): void {
    if (this.#isOver()) return;
    this.#releaseAll();
    this.#options.onEnd({ kind: "discarded" });
  }

  #isOver(): boolean {
    return this.#state.kind === "over";
  }

  #addEvents(parts: readonly Part[]): void {
    if (this.#isOver() || this.#response === null) return;
    this.#check(this.#response.appendAll(parts));
  }

  #endStream(): void {
    this.#isStreaming = false;
    if (this.#state.kind === "settled") this.#finish(this.#state.ending);
  }

  #check(hasRoom: boolean): void {
    if (!hasRoom) this.#drop();
  }

  #drop(): void {
    if (this.#isOver()) return;
    this.#releaseAll();
    this.#options.onEnd({ kind: "dropped" });
  }

  #finish(ending: CaptureEnding): void {
    const isComplete = !this.#isClientGone && ending.outcome !== "client_gone";
    const draft: CaptureDraft = {
      request: {
        method: "POST",
        path: this.#path,
        transport: this.#transport,
        headers: this.#headers,
        body: this.#body?.take() ?? null,
      },
      attempts: this.#attempts.map((attempt) => attempt.take()),
      response: {
        status: this.#responseStatus ?? ending.status,
        stream: this.#isStream,
        body: this.#response?.take() ?? null,
        isComplete,
      },
    };
    this.#state = { kind: "over" };
    const { heldBytes } = this.#memory;
    this.#options.onEnd({
      kind: "finished",
      capture: { ending, draft, secrets: [...new Set(this.#secrets)], heldBytes },
    });
  }

  #releaseAll(): void {
    this.#state = { kind: "over" };
    this.#memory.release(this.#memory.heldBytes);
    this.#body = null;
    this.#response = null;
    for (const attempt of this.#attempts) attempt.take();
    this.#attempts.length = 0;
  }
}
