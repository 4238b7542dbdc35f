/**
 * One call to one account, from connecting to its end: it enforces the deadline, watches for a client that disconnects,
 * and maps every error to an `UpstreamFailure`.
 */

import { type UpstreamFailure, upstreamFailure } from "../../accounts/failure.ts";
import { forwardedMessagesHeaders, forwardedRequestHeaders } from "../../accounts/headers.ts";
import { credentialHeader, upstreamPath } from "../../accounts/upstream-address.ts";
import type { SocketClient, TurnFailure, TurnRequest } from "../../accounts/websocket/client.ts";
import type { AttemptCapture } from "../../capture/attempt-capture.ts";
import type {
  AnswerHeaders,
  HttpClient,
  HttpExchange,
  HttpFailure,
  ResponseSink,
} from "../../net/http-client/client.ts";
import { DialError, type Dialer, type DialTarget } from "../../net/http-client/dial.ts";
import type { Backpressure } from "../../net/wire/body-sink.ts";
import type { Deadline, Deadlines } from "../../net/wire/deadlines.ts";
import type { HeaderReader } from "../../net/wire/http-fields.ts";
import type { Part } from "../../net/wire/parts.ts";
import type { PolicyAccount } from "../../policy/snapshot.ts";
import type { UpstreamBody } from "../../protocols/shared/request.ts";
import { CLIENT_DISCONNECTED, CLIENT_DISCONNECTED_UNSENT, failureByMessage } from "./upstream-failure.ts";

export interface OutboundRequest {
  http: HttpClient;
  sockets: SocketClient;
  deadlines: Deadlines;
  dialer: Dialer;
  nowMs(): number;
  userAgent: string;
  errorBytesMax: number;
  responseBytesMax: number;
}

/**
 * The receiver of the response. Its signal fires when it disconnects. The runtime creates the signal on first access,
 * which is a cost that fast responses avoid: access it late.
 */
export interface Client extends Pick<Request, "signal"> {
  /**
   * The real client, if this object counts as connected after the disconnect. No attempt starts for a client that
   * disconnected.
   */
  readonly realClient?: Client;
}

export interface UpstreamExchange {
  account: PolicyAccount;
  method: "GET" | "POST" | "DELETE";
  /** The path of the API, appended to the base URL. */
  path: string;
  upstreamModel: string;
  clientHeaders: HeaderReader;
  /** Additional lines of the request head, of a translated request. */
  headerLines?: string;
  /** Header lines that continue the distributed trace; empty if the account does not receive it. */
  traceLines?: string;
  body: { contentType: string; content: UpstreamBody } | null;
  /** The turn of a client's WebSocket, sent by WebSocket if the account supports it. */
  turn?: Omit<TurnRequest, "wholeBody"> | null;
  wantsEvents: boolean;
  /** The time to the head of a stream, or to the last byte of a whole response. */
  deadlineMs: number;
  client: Client;
  /** Null unless the request is captured. */
  capture?: AttemptCapture | null;
}

/** The call of a response that is read as a stream. */
export interface StreamCall extends Backpressure {
  /** The reader of the response now notices a client that disconnects. */
  stopWatching(): void;
}

/** When to start watching for a disconnect: a fast response costs less than the watch. */
const WATCH_CLIENT_AFTER_MS = 100;

/** If the client disconnects, the call fails with `CLIENT_DISCONNECTED` or `CLIENT_DISCONNECTED_UNSENT`. */
export class UpstreamCall implements StreamCall, ResponseSink<TurnFailure> {
  private readonly out: OutboundRequest;
  private readonly exchange: UpstreamExchange;
  private readonly sink: ResponseSink<UpstreamFailure>;
  private target: DialTarget | null = null;
  private httpExchange: HttpExchange | null = null;
  private deadline: Deadline | null = null;
  private clientSignal: AbortSignal | null = null;
  private disconnectListener: (() => void) | null = null;
  private hasDeadline = true;
  private isOver = false;

  constructor(out: OutboundRequest, exchange: UpstreamExchange, sink: ResponseSink<UpstreamFailure>) {
    this.out = out;
    this.exchange = exchange;
    this.sink = exchange.capture ? exchange.capture.tap(sink) : sink;
  }

  start(): void {
    const { out, exchange } = this;
    const { account, deadlineMs } = exchange;
    this.deadline = out.deadlines.set(
      Math.min(WATCH_CLIENT_AFTER_MS, deadlineMs),
      // `bind` is cheaper than a closure, and nearly no deadline expires.
      this.watchClient.bind(this),
    );
    try {
      const target = out.dialer.resolve(account.baseUrl, account);
      if (target instanceof Promise) this.beginLater(target);
      else this.begin(target);
    } catch (cause) {
      this.beginLater(Promise.reject(cause));
    }
  }

  private beginLater(target: Promise<DialTarget>): void {
    target.then(
      (resolved) => this.begin(resolved),
      (cause: unknown) => this.failWith(dialFailure(cause)),
    );
  }

  private begin(target: DialTarget): void {
    if (this.isOver) return;
    this.target = target;
    if (!this.sendOverSocket(target)) this.sendOverHttp(target);
  }

  private sendOverHttp(target: DialTarget): void {
    const { out, exchange } = this;
    const path = lookUpPath(exchange);
    const headers = headerLines(out, exchange);
    if (exchange.capture) captureSent(exchange.capture, exchange, { transport: "http", path, headers });
    this.httpExchange = out.http.send(
      {
        target,
        method: exchange.method,
        path,
        headers,
        body: exchange.body === null ? null : exchange.body.content,
      },
      this,
    );
  }

  /** Returns false if the request cannot be sent by WebSocket. */
  private sendOverSocket(target: DialTarget): boolean {
    const { out, exchange } = this;
    const { account, body, turn = null } = exchange;
    if (turn === null || !account.websocket || body === null || "open" in body.content) return false;
    if (!out.sockets.isSupported(account)) return false;
    const headers = headerLines(out, { ...exchange, body: null, wantsEvents: false });
    const path = lookUpPath(exchange);
    if (exchange.capture) captureSent(exchange.capture, exchange, { transport: "websocket", path, headers });
    this.httpExchange = out.sockets.send(
      { ...turn, account, target, path, headers, wholeBody: body.content },
      this,
    );
    return true;
  }

  head(status: number, headers: AnswerHeaders): void {
    this.sink.head(status, headers);
  }

  data(piece: Part): void {
    this.sink.data(piece);
  }

  end(): void {
    this.isOver = true;
    this.stopWatching();
    this.sink.end();
  }

  fail(failure: TurnFailure): void {
    const { target, out } = this;
    switch (failure.kind) {
      case "unsupported":
        if (!this.isOver && target !== null) this.sendOverHttp(target);
        return;
      case "error_message":
        this.failWith(failureByMessage(failure.status, failure.headers, failure.body, out.nowMs()));
        return;
      case "connect_timeout":
        if (target !== null) out.dialer.markUnreachable(target);
        break;
    }
    this.failWith(toUpstreamFailure(failure));
  }

  pause(): void {
    this.httpExchange?.pause();
  }

  resume(): void {
    this.httpExchange?.resume();
  }

  abort(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.stopWatching();
    this.httpExchange?.abort();
  }

  /** The response has begun: from here on the timers of the stream detect silence. */
  stopDeadline(): void {
    this.hasDeadline = false;
    // Until the client is watched, the deadline only serves to start the watch.
    if (this.clientSignal !== null) this.cancelDeadline();
  }

  stopWatching(): void {
    this.cancelDeadline();
    if (this.clientSignal === null || this.disconnectListener === null) return;
    this.clientSignal.removeEventListener("abort", this.disconnectListener);
    this.clientSignal = null;
  }

  private cancelDeadline(): void {
    if (this.deadline !== null) this.out.deadlines.cancel(this.deadline);
    this.deadline = null;
  }

  private watchClient(): void {
    const { out, exchange } = this;
    this.deadline = this.hasDeadline
      ? out.deadlines.set(exchange.deadlineMs - WATCH_CLIENT_AFTER_MS, () => this.failWith(timedOut()))
      : null;
    this.clientSignal = exchange.client.signal;
    if (this.clientSignal.aborted) {
      this.handleDisconnect();
      return;
    }
    this.disconnectListener = () => this.handleDisconnect();
    this.clientSignal.addEventListener("abort", this.disconnectListener);
  }

  private failWith(failure: UpstreamFailure): void {
    if (this.isOver) return;
    this.abort();
    this.sink.fail(failure);
  }

  private handleDisconnect(): void {
    this.failWith(this.httpExchange?.hasBegun ? CLIENT_DISCONNECTED : CLIENT_DISCONNECTED_UNSENT);
  }
}

/** Header lines and paths that all requests of a kind to an account share, built once. */
const commonLines = new WeakMap<PolicyAccount, Map<string, string>>();
const commonPaths = new WeakMap<PolicyAccount, Map<string, string>>();

function cacheFor(
  account: PolicyAccount,
  cache: WeakMap<PolicyAccount, Map<string, string>>,
): Map<string, string> {
  let texts = cache.get(account);
  if (texts === undefined) {
    texts = new Map();
    cache.set(account, texts);
  }
  return texts;
}

/** Returns the same string object for the same path, so that caches keyed by it hit. */
function lookUpPath({ account, path, upstreamModel, body }: UpstreamExchange): string {
  // Without a body the path contains the id of a stored response. Their number is unbounded, so they are not cached.
  if (account.kind === "azure" || body === null || path.includes("{model}"))
    return upstreamPath(account, path, upstreamModel);
  const paths = cacheFor(account, commonPaths);
  let resolved = paths.get(path);
  if (resolved === undefined) {
    resolved = upstreamPath(account, path, upstreamModel);
    paths.set(path, resolved);
  }
  return resolved;
}

/** The headers of an exchange: only those that are needed. */
function headerLines(
  { userAgent }: OutboundRequest,
  {
    account,
    path,
    body,
    wantsEvents,
    clientHeaders,
    traceLines = "",
    headerLines: additional = "",
  }: UpstreamExchange,
): string {
  const byKind = cacheFor(account, commonLines);
  const contentType = body === null ? "" : body.contentType;
  // A multipart content type contains its boundary, which differs for each request, so it is not cached.
  const kind =
    contentType.length > JSON_TYPE.length ? null : wantsEvents ? `${contentType} events` : contentType;
  let lines = kind === null ? undefined : byKind.get(kind);
  if (lines === undefined) {
    const credential = credentialHeader(account);
    // Compression would delay the events of a stream, and a hostile account could send a decompression bomb.
    lines = `user-agent: ${userAgent}\r\naccept-encoding: identity\r\n`;
    if (credential !== null) lines += `${credential[0]}: ${credential[1]}\r\n`;
    if (body !== null) lines += `content-type: ${contentType}\r\n`;
    if (wantsEvents) lines += "accept: text/event-stream\r\n";
    if (kind !== null) byKind.set(kind, lines);
  }
  const forwarded = path.startsWith(MESSAGES_PATH)
    ? forwardedMessagesHeaders(clientHeaders)
    : forwardedRequestHeaders(clientHeaders);
  const extra = forwarded + traceLines + additional;
  return extra === "" ? lines : lines + extra;
}

/** A body that is read from disk is a form, whose files are not captured. */
function captureSent(
  capture: AttemptCapture,
  { account, method, body }: UpstreamExchange,
  { transport, path, headers }: { transport: "http" | "websocket"; path: string; headers: string },
): void {
  const { origin } = new URL(account.baseUrl);
  const content = body?.contentType === JSON_TYPE ? body.content : null;
  capture.addSent({
    transport,
    method,
    url: origin + path,
    headerLines: headers,
    body: content === null || "open" in content ? null : content,
  });
}

const JSON_TYPE = "application/json";
const MESSAGES_PATH = "/messages";

function dialFailure(cause: unknown): UpstreamFailure {
  return upstreamFailure("connect", cause instanceof DialError ? `dial: ${cause.reason}` : "dial");
}

function toUpstreamFailure({ kind }: HttpFailure): UpstreamFailure {
  switch (kind) {
    case "refused":
    case "tls":
      return upstreamFailure("connect", kind);
    case "connect_timeout":
      return upstreamFailure("connect", "no connection");
    case "reset":
      return upstreamFailure("reset", "the connection was lost");
    case "bad_http":
      return upstreamFailure("bad_answer", "the response violated the HTTP protocol");
  }
}

function timedOut(): UpstreamFailure {
  return upstreamFailure("timeout", "no response within the deadline");
}
