/**
 * One response over a WebSocket. For its sink it is an exchange like any other, with a response head and an event
 * stream. It hides what is specific to sockets: stale sockets, and sockets whose upstream no longer has the previous
 * response.
 */

import { type Part, wholeBytesPart } from "../../base/parts.ts";
import { isObject, parseJson } from "../../json/parse.ts";
import type {
  HttpExchange,
  HttpFailure,
  ResponseHeaders,
  ResponseSink,
} from "../../net/http-client/contract.ts";
import { findResponseId } from "../../protocols/responses/response-id.ts";
import { EventText, readMessageKind } from "./event-text.ts";
import {
  type SocketAddress,
  type SocketSetting,
  type SocketUser,
  type UpstreamLane,
  UpstreamSocket,
} from "./upstream-socket.ts";
import type { SocketSet, WarmSockets } from "./warm-sockets.ts";

export type TurnFailure =
  | HttpFailure
  /** An error message in place of a response, or of the rest of one. */
  | UpstreamErrorMessage
  /** The upstream does not accept WebSocket upgrades. No request was sent. */
  | { readonly kind: "unsupported"; readonly status: number };

interface UpstreamErrorMessage {
  readonly kind: "error_message";
  readonly code: unknown;
  /** Null if the message has no status. */
  readonly status: number | null;
  readonly headers: ResponseHeaders;
  /** Null if it is longer than an error is read. */
  readonly body: Uint8Array | null;
}

export interface TurnRequest {
  readonly upstreamLane: UpstreamLane;
  /** The complete request, as the JSON of `POST /responses`. */
  readonly wholeBody: readonly Part[];
  /** The request without the part before the response that it continues; null if it continues none. */
  readonly tail: TurnTail | null;
  /** See `OutgoingRequest.beforeWrite`. A handshake is not a part of the request. */
  readonly beforeWrite?: (() => void) | null;
}

interface TurnTail {
  readonly responseId: string;
  /** Null if the two parts cannot be separated. */
  body(): readonly Part[] | null;
}

interface TurnContext {
  readonly setting: SocketSetting;
  readonly warm: WarmSockets;
  readonly socketSet: SocketSet;
  /** Throws when the target is not a valid URL. */
  address(): SocketAddress;
  /** WebSocket is not used for this upstream for a while. */
  onUnsupported(status: number): void;
}

/**
 * A free socket that its upstream closed at the same moment breaks within this time, and the request was not
 * processed.
 */
const STALE_MS = 250;
/** Handshake statuses that only mean that the upstream does not support WebSocket. */
const UNSUPPORTED_STATUSES: ReadonlySet<number> = new Set([400, 404, 405, 426, 501]);

const CREATE = Buffer.from('{"type":"response.create",');

export class UpstreamTurn implements HttpExchange, SocketUser {
  hasBegun = false;
  readonly #context: TurnContext;
  readonly #request: TurnRequest;
  readonly #sink: ResponseSink<TurnFailure>;
  readonly #text = new EventText();
  #socket: UpstreamSocket | null = null;
  /** The socket has served a response before: if it breaks now, the upstream may still be healthy. */
  #isReused = false;
  #hasSentTail = false;
  #hasReceived = false;
  #hasEvents = false;
  #hasHead = false;
  /** The turn has moved once to another socket, because the first one reached its age limit. */
  #hasMoved = false;
  /** The id of this turn's response. */
  #createdId: string | null = null;
  /** The socket may still receive messages of this turn or an earlier one, so it must not be reused. */
  #isSocketUnusable = false;
  #isPaused = false;
  /** The turn has returned its socket. */
  #isOver = false;
  /** The sink receives no further call. */
  #isAborted = false;
  #sentAtMs = 0;
  /** The last event has arrived, and the sink was not notified yet. */
  #hasEnded = false;
  #error: UpstreamErrorMessage | null = null;

  constructor(context: TurnContext, request: TurnRequest, sink: ResponseSink<TurnFailure>) {
    this.#context = context;
    this.#request = request;
    this.#sink = sink;
  }

  start(): void {
    const { warm, socketSet } = this.#context;
    const free = warm.take(socketSet, this.#request.upstreamLane);
    if (free === null) {
      this.#open();
      return;
    }
    this.#isReused = true;
    free.user = this;
    this.#sendRequest(free);
  }

  #open(): void {
    this.#isReused = false;
    this.#isSocketUnusable = false;
    let address: SocketAddress;
    try {
      address = this.#context.address();
    } catch {
      queueMicrotask(() => this.#fail({ kind: "refused", reason: "the target is not an address" }));
      return;
    }
    this.#socket = new UpstreamSocket(this.#context.setting, address, this);
    this.#context.warm.add(this.#context.socketSet, this.#socket);
  }

  onOpen(socket: UpstreamSocket): void {
    if (!this.#isOver) this.#sendRequest(socket);
  }

  #sendRequest(socket: UpstreamSocket): void {
    const { upstreamLane, tail, wholeBody } = this.#request;
    this.#socket = socket;
    const canContinue =
      tail !== null &&
      upstreamLane.last?.socket === socket &&
      upstreamLane.last.responseId === tail.responseId;
    const body = canContinue ? tail.body() : null;
    // Whatever the outcome of this turn, the previous response is no longer the last one on this socket.
    socket.reservedLane?.clear();
    upstreamLane.clear();
    socket.lastLane = upstreamLane;
    this.#hasSentTail = body !== null;
    this.#send(socket, body ?? wholeBody);
  }

  #send(socket: UpstreamSocket, body: readonly Part[]): void {
    this.hasBegun = true;
    this.#hasReceived = false;
    this.#sentAtMs = this.#context.setting.monotonicMs();
    this.#request.beforeWrite?.();
    socket.send(buildMessage(body));
  }

  pause(): void {
    if (this.#isOver) return;
    this.#isPaused = true;
    this.#socket?.pause();
  }

  resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#socket?.resume();
  }

  /** The protocol has no message that ends a response early, so the socket is closed. */
  abort(): void {
    this.#isAborted = true;
    if (this.#isOver) return;
    const socket = this.#socket;
    this.#isOver = true;
    this.#dropSocket();
    socket?.close();
  }

  onMessage(bytes: Uint8Array, start: number, end: number): void {
    if (this.#isOver) return;
    if (this.#hasEnded || this.#error !== null) {
      if (readMessageKind(bytes, start, end) !== "private") this.#isSocketUnusable = true;
      return;
    }
    this.#hasReceived = true;
    const kind = this.#text.add(bytes, start, end);
    if (kind === "private") return;
    if (kind === "error") {
      this.#handleError(bytes.subarray(start, end));
      return;
    }
    if (kind === "created") this.#createdId ??= findResponseId(bytes, start, end);
    if (this.#isReused && this.#createdId === null) {
      if (kind === "created") {
        // Only a socket whose responses have ids is reused. All further messages would be dropped.
        this.abort();
        this.#sink.fail({ kind: "bad_http", reason: "received the start of a response without an id" });
        return;
      }
      // A message of the previous turn.
      this.#text.clear();
      this.#isSocketUnusable = true;
      return;
    }
    this.#hasEvents = true;
    if (kind === "terminal") this.#handleTerminal(findResponseId(bytes, start, end));
  }

  #handleTerminal(responseId: string | null): void {
    const socket = this.#socket;
    const isOwn = responseId !== null && responseId === this.#createdId;
    if (!isOwn && this.#isReused) {
      this.abort();
      this.#sink.fail({ kind: "bad_http", reason: "received the end of another response" });
      return;
    }
    this.#hasEnded = true;
    if (isOwn && socket !== null) this.#request.upstreamLane.recordResponse(socket, responseId);
    // Without response ids, a late message could not be distinguished from the next response.
    else this.#isSocketUnusable = true;
  }

  onReadEnd(): void {
    if (this.#isOver) return;
    try {
      this.#deliver();
    } catch {
      // Only the sink can have thrown. It may still hold a request open, so it is notified of the end.
      this.abort();
      this.#sink.fail({ kind: "reset", reason: "the response sink threw an error" });
    }
  }

  #deliver(): void {
    const socket = this.#socket;
    const sink = this.#sink;
    const error = this.#error;
    const bytes = this.#text.take();
    // Before the sink is called, so that its next request can use the socket.
    if (this.#hasEnded || error !== null) this.#returnSocket();
    if (bytes !== null) {
      if (!this.#hasHead) sink.head(200, streamHeaders(socket?.headers ?? null, this.#isReused));
      this.#hasHead = true;
      if (!this.#isAborted) sink.data(wholeBytesPart(bytes));
    }
    if (this.#isAborted) return;
    if (error !== null) sink.fail(error);
    else if (this.#hasEnded) sink.end();
  }

  #handleError(body: Uint8Array): void {
    const error = readError(body, this.#context.setting.errorBytesMax);
    const socket = this.#socket;
    if (socket === null) return;
    if (!this.#hasEvents && this.#hasSentTail && error.code === "previous_response_not_found") {
      this.#hasSentTail = false;
      this.#send(socket, this.#request.wholeBody);
    } else if (!this.#hasEvents && !this.#hasMoved && error.code === "websocket_connection_limit_reached") {
      this.#hasMoved = true;
      this.#dropSocket();
      socket.close();
      this.#open();
    } else {
      this.#error = error;
      // The response that the error is about may still continue.
      if (this.#hasEvents) this.#isSocketUnusable = true;
    }
  }

  onReject(status: number, headers: ResponseHeaders, body: Uint8Array | null): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#dropSocket();
    const sink = this.#sink;
    if (UNSUPPORTED_STATUSES.has(status) || status < 400) {
      this.#context.onUnsupported(status);
      sink.fail({ kind: "unsupported", status });
      return;
    }
    sink.head(status, headers);
    if (body !== null) sink.data(wholeBytesPart(body));
    sink.end();
  }

  onClose(socket: UpstreamSocket, failure: HttpFailure): void {
    if (this.#isOver || socket !== this.#socket) return;
    if (this.#mayResend()) {
      this.#dropSocket();
      this.#open();
    } else this.#fail(failure);
  }

  #mayResend(): boolean {
    const socket = this.#socket;
    if (!this.#isReused || this.#hasReceived || this.#hasHead || !socket?.isClosedByUpstream) return false;
    return !socket.isSent || this.#context.setting.monotonicMs() - this.#sentAtMs < STALE_MS;
  }

  #fail(failure: HttpFailure): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#dropSocket();
    this.#sink.fail(failure);
  }

  #returnSocket(): void {
    const socket = this.#socket;
    this.#isOver = true;
    this.#socket = null;
    if (socket === null) return;
    const { warm, socketSet } = this.#context;
    if (this.#isSocketUnusable) warm.discard(socketSet, socket);
    else warm.free(socketSet, socket);
  }

  #dropSocket(): void {
    const socket = this.#socket;
    if (socket === null) return;
    this.#socket = null;
    this.#context.warm.drop(this.#context.socketSet, socket);
  }
}

/** Turns the JSON of a request into a `response.create` message. */
function buildMessage(body: readonly Part[]): Part[] {
  const [first, ...rest] = body;
  if (first === undefined) throw new Error("the request has no body");
  const open = first.bytes.indexOf(0x7b, first.start);
  return [
    { bytes: CREATE, start: 0, end: CREATE.length },
    { bytes: first.bytes, start: open + 1, end: first.end },
    ...rest,
  ];
}

/** The head of an HTTP stream. Rate limits in the handshake's headers are used only while they are fresh. */
function streamHeaders(handshake: ResponseHeaders | null, isReused: boolean): ResponseHeaders {
  const read = (name: string) =>
    name === "content-type"
      ? "text/event-stream"
      : isReused && name !== "x-request-id"
        ? null
        : (handshake?.get(name) ?? null);
  return { get: read, has: (name) => read(name) !== null };
}

function readError(message: Uint8Array, bytesMax: number): UpstreamErrorMessage {
  const body = message.length > bytesMax ? null : message;
  const json = body === null ? null : parseJson(body);
  const fields = isObject(json) ? json : {};
  const status = fields.status ?? fields.status_code;
  return {
    kind: "error_message",
    code: isObject(fields.error) ? fields.error.code : fields.code,
    status: typeof status === "number" && status >= 400 && status <= 599 ? status : null,
    headers: readHeaders(fields.headers),
    body,
  };
}

/** Header values may also be numbers. */
function readHeaders(json: unknown): ResponseHeaders {
  const byName = new Map<string, string>();
  for (const [name, value] of Object.entries(isObject(json) ? json : {})) {
    if (typeof value === "string" || typeof value === "number") byName.set(name.toLowerCase(), String(value));
  }
  return { get: (name) => byName.get(name) ?? null, has: (name) => byName.has(name) };
}
