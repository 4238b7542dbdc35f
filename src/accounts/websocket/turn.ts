/**
 * One response over a socket. To its taker it is an exchange like any other, with the head of an answer and its event
 * stream. What is peculiar to sockets stays in here: ones that were kept too long, and ones that have forgotten.
 */

import { isObject, parseJson } from "../../json/parse.ts";
import type {
  AnswerHeaders,
  HttpExchange,
  HttpFailure,
  ResponseHandler,
} from "../../net/http-client/contract.ts";
import { type Part, wholeBytesPart } from "../../net/wire/parts.ts";
import { findResponseId } from "../../protocols/responses/response-id.ts";
import { EventText, readMessageKind } from "./event-text.ts";
import {
  type SocketAddress,
  type SocketConversation,
  type SocketSetting,
  type SocketUser,
  UpstreamSocket,
} from "./upstream-socket.ts";
import type { SocketShelf, WarmSockets } from "./warm-sockets.ts";

export interface UpstreamTurnHandler extends ResponseHandler {
  /** A message in place of an answer, or of the rest of one. The last call. The status is null when it tells none. */
  toldError(status: number | null, headers: AnswerHeaders, body: Uint8Array): void;
  /** The upstream does not make WebSockets of connections. The last call: nothing was asked of it. */
  unspoken(status: number): void;
}

export interface TurnRequest {
  readonly thread: SocketConversation;
  /** The whole request, as the JSON of `POST /responses`. */
  readonly whole: readonly Part[];
  /** The same without what came before the response that it goes on from; null when it goes on from none. */
  readonly tail: ConversationTail | null;
}

export interface ConversationTail {
  readonly responseId: string;
  /** Null when it cannot be told apart. */
  body(): readonly Part[] | null;
}

export interface TurnContext {
  readonly setting: SocketSetting;
  readonly warm: WarmSockets;
  readonly shelf: SocketShelf;
  /** Throws when there is nowhere to go. */
  address(): SocketAddress;
  /** Not to be asked again for a while. */
  noteUnspoken(status: number): void;
}

/** A kept socket that its upstream closed at the same moment breaks at once, and the request was not looked at. */
const STALE_MS = 250;
/** An answer to the handshake that says no more than that WebSocket is not spoken here. */
const UNSPOKEN: ReadonlySet<number> = new Set([400, 404, 405, 426, 501]);

const CREATE = Buffer.from('{"type":"response.create",');

export class UpstreamTurn implements HttpExchange, SocketUser {
  hasBegun = false;
  private readonly context: TurnContext;
  private readonly request: TurnRequest;
  private readonly taker: UpstreamTurnHandler;
  private readonly text = new EventText();
  private socket: UpstreamSocket | null = null;
  /** The socket had served before: that it breaks now says nothing about the upstream. */
  private isReused = false;
  private hasSentTail = false;
  private hasHeard = false;
  private hasEvents = false;
  private hasHead = false;
  /** The socket was let go once for its age. */
  private hasMoved = false;
  /** The id of this turn's response. */
  private createdId: string | null = null;
  /** The socket may still say something of this turn, or of one before: nobody else is to hear it. */
  private isSpent = false;
  private isPaused = false;
  /** The turn has given its socket back. */
  private isOver = false;
  /** The taker wants to hear no more. */
  private isAborted = false;
  private sentAtMs = 0;
  /** The last event has come, and the taker is to hear of it. */
  private hasEnded = false;
  private error: ToldError | null = null;

  constructor(context: TurnContext, request: TurnRequest, taker: UpstreamTurnHandler) {
    this.context = context;
    this.request = request;
    this.taker = taker;
  }

  start(): void {
    const { warm, shelf } = this.context;
    const free = warm.take(shelf, this.request.thread);
    if (free === null) {
      this.open();
      return;
    }
    this.isReused = true;
    free.user = this;
    this.ask(free);
  }

  private open(): void {
    this.isReused = false;
    this.isSpent = false;
    let address: SocketAddress;
    try {
      address = this.context.address();
    } catch {
      queueMicrotask(() => this.fail({ kind: "refused", reason: "the target is no address" }));
      return;
    }
    this.socket = new UpstreamSocket(this.context.setting, address, this);
    this.context.warm.add(this.context.shelf, this.socket);
  }

  opened(socket: UpstreamSocket): void {
    if (!this.isOver) this.ask(socket);
  }

  private ask(socket: UpstreamSocket): void {
    const { thread, tail, whole } = this.request;
    this.socket = socket;
    const isKnown =
      tail !== null && thread.last?.socket === socket && thread.last.responseId === tail.responseId;
    const body = isKnown ? tail.body() : null;
    // Whatever becomes of this turn, the previous response is no longer the last one on this socket.
    socket.thread?.forget();
    thread.forget();
    socket.askedBy = thread;
    this.hasSentTail = body !== null;
    this.send(socket, body ?? whole);
  }

  private send(socket: UpstreamSocket, body: readonly Part[]): void {
    this.hasBegun = true;
    this.hasHeard = false;
    this.sentAtMs = this.context.setting.monotonicMs();
    socket.send(asMessage(body));
  }

  pause(): void {
    if (this.isOver) return;
    this.isPaused = true;
    this.socket?.pause();
  }

  resume(): void {
    if (!this.isPaused) return;
    this.isPaused = false;
    this.socket?.resume();
  }

  /** There is no message that ends a response early: its socket ends with it. */
  abort(): void {
    this.isAborted = true;
    if (this.isOver) return;
    const { socket } = this;
    this.isOver = true;
    this.dropSocket();
    socket?.close();
  }

  message(bytes: Uint8Array, start: number, end: number): void {
    if (this.isOver) return;
    if (this.hasEnded || this.error !== null) {
      if (readMessageKind(bytes, start, end) !== "private") this.isSpent = true;
      return;
    }
    this.hasHeard = true;
    const kind = this.text.add(bytes, start, end);
    if (kind === "private") return;
    if (kind === "error") {
      this.takeError(bytes.subarray(start, end));
      return;
    }
    if (kind === "created") this.createdId ??= findResponseId(bytes, start, end);
    if (this.isReused && this.createdId === null) {
      // Left over from the turn before.
      this.text.forget();
      this.isSpent = true;
      return;
    }
    this.hasEvents = true;
    if (kind === "terminal") this.takeTerminal(findResponseId(bytes, start, end));
  }

  private takeTerminal(responseId: string | null): void {
    const { socket, request } = this;
    const isOwn = responseId !== null && responseId === this.createdId;
    if (!isOwn && this.isReused) {
      this.abort();
      this.taker.failed({ kind: "bad_http", reason: "the end of another response" });
      return;
    }
    this.hasEnded = true;
    if (isOwn && socket !== null) request.thread.note(socket, responseId);
    // Where responses are not told by their ids, what comes late could not be told from the next.
    else this.isSpent = true;
  }

  readEnded(): void {
    if (this.isOver) return;
    try {
      this.tell();
    } catch {
      // Only the taker can have thrown. It may still hold a request open: it hears of the end.
      this.abort();
      this.taker.failed({ kind: "reset", reason: "the taker of the answer threw" });
    }
  }

  private tell(): void {
    const { socket, taker, error } = this;
    const bytes = this.text.take();
    // Before the taker is told, so that what it sends next finds the socket.
    if (this.hasEnded || error !== null) this.giveBack();
    if (bytes !== null) {
      if (!this.hasHead) taker.head(200, streamHeaders(socket?.headers ?? null, this.isReused));
      this.hasHead = true;
      if (!this.isAborted) taker.data(wholeBytesPart(bytes));
    }
    if (this.isAborted) return;
    if (error !== null) taker.toldError(error.status, error.headers, error.body);
    else if (this.hasEnded) taker.end();
  }

  private takeError(body: Uint8Array): void {
    const error = readError(body, this.context.setting.errorBytesMax);
    const { socket } = this;
    if (socket === null) return;
    if (!this.hasEvents && this.hasSentTail && error.code === "previous_response_not_found") {
      this.hasSentTail = false;
      this.send(socket, this.request.whole);
    } else if (!this.hasEvents && !this.hasMoved && error.code === "websocket_connection_limit_reached") {
      this.hasMoved = true;
      this.dropSocket();
      socket.close();
      this.open();
    } else {
      this.error = error;
      // The response that the error is about may go on all the same.
      if (this.hasEvents) this.isSpent = true;
    }
  }

  refused(status: number, headers: AnswerHeaders, body: Uint8Array | null): void {
    if (this.isOver) return;
    this.isOver = true;
    this.dropSocket();
    const { taker } = this;
    if (UNSPOKEN.has(status) || status < 400) {
      this.context.noteUnspoken(status);
      taker.unspoken(status);
      return;
    }
    taker.head(status, headers);
    if (body !== null) taker.data(wholeBytesPart(body));
    taker.end();
  }

  closed(socket: UpstreamSocket, failure: HttpFailure): void {
    if (this.isOver || socket !== this.socket) return;
    if (this.mayRepeat()) {
      this.dropSocket();
      this.open();
    } else this.fail(failure);
  }

  private mayRepeat(): boolean {
    const { socket } = this;
    if (!this.isReused || this.hasHeard || this.hasHead || !socket?.hasLeft) return false;
    return !socket.isSent || this.context.setting.monotonicMs() - this.sentAtMs < STALE_MS;
  }

  private fail(failure: HttpFailure): void {
    if (this.isOver) return;
    this.isOver = true;
    this.dropSocket();
    this.taker.failed(failure);
  }

  private giveBack(): void {
    const { socket } = this;
    this.isOver = true;
    this.socket = null;
    if (socket === null) return;
    const { warm, shelf } = this.context;
    if (this.isSpent) warm.discard(shelf, socket);
    else warm.free(shelf, socket);
  }

  private dropSocket(): void {
    const { socket } = this;
    if (socket === null) return;
    this.socket = null;
    this.context.warm.drop(this.context.shelf, socket);
  }
}

/** The JSON of a request, with the word in front that makes a message of it. */
function asMessage(body: readonly Part[]): Part[] {
  const [first, ...rest] = body;
  if (first === undefined) throw new Error("a request without a body");
  const open = first.bytes.indexOf(0x7b, first.start);
  return [
    { bytes: CREATE, start: 0, end: CREATE.length },
    { bytes: first.bytes, start: open + 1, end: first.end },
    ...rest,
  ];
}

/** The head that a stream over HTTP would have. Limits in the handshake's headers hold only while they are fresh. */
function streamHeaders(handshake: AnswerHeaders | null, isReused: boolean): AnswerHeaders {
  const kept = (name: string) =>
    name === "content-type"
      ? "text/event-stream"
      : isReused && name !== "x-request-id"
        ? null
        : (handshake?.get(name) ?? null);
  return { get: kept, has: (name) => kept(name) !== null };
}

interface ToldError {
  readonly code: unknown;
  readonly status: number | null;
  readonly headers: AnswerHeaders;
  readonly body: Uint8Array;
}

function readError(body: Uint8Array, bytesMax: number): ToldError {
  const json = body.length > bytesMax ? null : parseJson(body);
  const told = isObject(json) ? json : {};
  const status = told.status ?? told.status_code;
  return {
    code: isObject(told.error) ? told.error.code : told.code,
    status: typeof status === "number" && status >= 400 && status <= 599 ? status : null,
    headers: headersIn(told.headers),
    body,
  };
}

/** Values may also be numbers. */
function headersIn(json: unknown): AnswerHeaders {
  const byName = new Map<string, string>();
  for (const [name, value] of Object.entries(isObject(json) ? json : {})) {
    if (typeof value === "string" || typeof value === "number") byName.set(name.toLowerCase(), String(value));
  }
  return { get: (name) => byName.get(name) ?? null, has: (name) => byName.has(name) };
}
