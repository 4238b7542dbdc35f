/**
 * One call to one account, from connecting to its end: it enforces the deadline, watches for a client that disconnects,
 * and maps every error to an `UpstreamFailure`.
 */

import { credentialHeader, upstreamPath } from "../../accounts/address.ts";
import { type UpstreamFailure, upstreamFailure } from "../../accounts/failure.ts";
import { headersUp } from "../../accounts/headers.ts";
import type { SocketClient, TurnRequest, UpstreamTurnHandler } from "../../accounts/websocket/client.ts";
import type { AnswerHeaders, HttpClient, HttpExchange, HttpFailure } from "../../net/http-client/client.ts";
import { DialError, type Dialer, type DialTarget } from "../../net/http-client/dial.ts";
import type { Deadline, Deadlines } from "../../net/wire/deadlines.ts";
import type { HeaderReader } from "../../net/wire/http-fields.ts";
import type { Part } from "../../net/wire/parts.ts";
import type { PolicyAccount } from "../../policy/snapshot.ts";
import type { UpstreamBody } from "../../protocols/shared/request.ts";
import { failureByMessage } from "./upstream-failure.ts";

export interface OutboundRequest {
  http: HttpClient;
  sockets: SocketClient;
  alarms: Deadlines;
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
  readonly inPerson?: Client;
}

export interface UpstreamExchange {
  account: PolicyAccount;
  method: "GET" | "POST" | "DELETE";
  /** An OpenAI path, appended to the base URL. */
  path: string;
  upstreamModel: string;
  clientHeaders: HeaderReader;
  body: { contentType: string; content: UpstreamBody } | null;
  /** The turn of a client's WebSocket, sent by WebSocket if the account supports it. */
  turn?: Omit<TurnRequest, "whole"> | null;
  wantsEvents: boolean;
  /** The time to the head of a stream, or to the last byte of a whole response. */
  deadlineMs: number;
  client: Client;
}

/** Receives a response as it arrives. Exactly one of `end`, `failed` or `left` is called, as the last call. */
export interface UpstreamListener {
  head(status: number, headers: AnswerHeaders): void;
  data(piece: Part): void;
  end(): void;
  failed(failure: UpstreamFailure): void;
  /**
   * The client disconnected and the exchange is aborted. `wasSent`: the account received at least part of the request.
   */
  left(wasSent: boolean): void;
}

/** Controls an exchange in flight. */
export interface UpstreamLine {
  pause(): void;
  resume(): void;
  /** Aborts the exchange. The listener gets no further calls. */
  hangUp(): void;
  /** The reader of the response now notices a client that disconnects. */
  stopWatching(): void;
}

/** When to start watching for a disconnect: a fast response costs less than the watch. */
const WATCH_CLIENT_AFTER_MS = 100;

export class UpstreamCall implements UpstreamLine, UpstreamTurnHandler {
  private readonly out: OutboundRequest;
  private readonly exchange: UpstreamExchange;
  private readonly listener: UpstreamListener;
  private target: DialTarget | null = null;
  private wire: HttpExchange | null = null;
  private alarm: Deadline | null = null;
  private watched: AbortSignal | null = null;
  private onLeave: (() => void) | null = null;
  private hasDeadline = true;
  private isOver = false;

  constructor(out: OutboundRequest, exchange: UpstreamExchange, listener: UpstreamListener) {
    this.out = out;
    this.exchange = exchange;
    this.listener = listener;
  }

  start(): void {
    const { out, exchange } = this;
    const { account, deadlineMs } = exchange;
    this.alarm = out.alarms.set(
      Math.min(WATCH_CLIENT_AFTER_MS, deadlineMs),
      // `bind` is cheaper than a closure, and nearly no deadline expires.
      this.watchClient.bind(this),
    );
    try {
      const target = out.dialer.resolve(account.baseUrl, account.privateNetwork);
      if (target instanceof Promise) this.beginLater(target);
      else this.begin(target);
    } catch (cause) {
      this.beginLater(Promise.reject(cause));
    }
  }

  private beginLater(target: Promise<DialTarget>): void {
    target.then(
      (resolved) => this.begin(resolved),
      (cause: unknown) => this.fail(dialFailure(cause)),
    );
  }

  private begin(target: DialTarget): void {
    if (this.isOver) return;
    this.target = target;
    if (!this.overSocket(target)) this.overHttp(target);
  }

  private overHttp(target: DialTarget): void {
    const { out, exchange } = this;
    this.wire = out.http.send(
      {
        target,
        method: exchange.method,
        path: lookUpPath(exchange),
        headers: headerLines(out, exchange),
        body: exchange.body === null ? null : exchange.body.content,
      },
      this,
    );
  }

  /** Returns false if the request cannot be sent by WebSocket. */
  private overSocket(target: DialTarget): boolean {
    const { out, exchange } = this;
    const { account, body, turn = null } = exchange;
    if (turn === null || !account.websocket || body === null || "open" in body.content) return false;
    if (!out.sockets.speaks(account)) return false;
    const headers = headerLines(out, { ...exchange, body: null, wantsEvents: false });
    this.wire = out.sockets.send(
      { ...turn, account, target, path: lookUpPath(exchange), headers, whole: body.content },
      this,
    );
    return true;
  }

  head(status: number, headers: AnswerHeaders): void {
    this.listener.head(status, headers);
  }

  data(piece: Part): void {
    this.listener.data(piece);
  }

  end(): void {
    this.isOver = true;
    this.stopWatching();
    this.listener.end();
  }

  failed(failure: HttpFailure): void {
    if (failure.kind === "connect_timeout" && this.target !== null) this.out.dialer.unreachable(this.target);
    this.fail(toUpstreamFailure(failure));
  }

  toldError(status: number | null, headers: AnswerHeaders, message: Uint8Array): void {
    this.fail(failureByMessage(status, headers, message, this.out.nowMs()));
  }

  unspoken(): void {
    if (!this.isOver && this.target !== null) this.overHttp(this.target);
  }

  pause(): void {
    this.wire?.pause();
  }

  resume(): void {
    this.wire?.resume();
  }

  hangUp(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.stopWatching();
    this.wire?.abort();
  }

  /** The response has begun: from here on the timers of the stream detect silence. */
  stopDeadline(): void {
    this.hasDeadline = false;
    // Until the client is watched, the deadline only serves to start the watch.
    if (this.watched !== null) this.stopAlarm();
  }

  stopWatching(): void {
    this.stopAlarm();
    if (this.watched === null || this.onLeave === null) return;
    this.watched.removeEventListener("abort", this.onLeave);
    this.watched = null;
  }

  private stopAlarm(): void {
    if (this.alarm !== null) this.out.alarms.cancel(this.alarm);
    this.alarm = null;
  }

  private watchClient(): void {
    const { out, exchange } = this;
    this.alarm = this.hasDeadline
      ? out.alarms.set(exchange.deadlineMs - WATCH_CLIENT_AFTER_MS, () => this.fail(timedOut()))
      : null;
    this.watched = exchange.client.signal;
    if (this.watched.aborted) {
      this.leave();
      return;
    }
    this.onLeave = () => this.leave();
    this.watched.addEventListener("abort", this.onLeave);
  }

  private fail(failure: UpstreamFailure): void {
    if (this.isOver) return;
    this.hangUp();
    this.listener.failed(failure);
  }

  private leave(): void {
    if (this.isOver) return;
    this.hangUp();
    this.listener.left(this.wire?.hasBegun ?? false);
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
  if (account.kind === "azure" || body === null) return upstreamPath(account, path, upstreamModel);
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
  { account, body, wantsEvents, clientHeaders }: UpstreamExchange,
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
  const forwarded = headersUp(clientHeaders);
  return forwarded === "" ? lines : lines + forwarded;
}

const JSON_TYPE = "application/json";

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
      return upstreamFailure("reset", "the connection broke");
    case "bad_http":
      return upstreamFailure("bad_answer", "the answer broke the protocol");
  }
}

function timedOut(): UpstreamFailure {
  return upstreamFailure("timeout", "no answer within the deadline");
}
