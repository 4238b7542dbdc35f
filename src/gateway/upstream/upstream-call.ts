/**
 * One call to one account, from connecting to its end: it enforces the deadline, watches for a client that disconnects,
 * and maps every error to an `UpstreamFailure`.
 */

import { AccessTokenError, type AccessTokens } from "../../accounts/cloud/access-tokens.ts";
import { type UpstreamFailure, upstreamFailure } from "../../accounts/failure.ts";
import { KINDS } from "../../accounts/kinds/table.ts";
import type { SocketClient, TurnFailure } from "../../accounts/websocket/client.ts";
import type { Deadline, Deadlines } from "../../base/deadlines.ts";
import type { Part } from "../../base/parts.ts";
import type { AttemptCapture } from "../../capture/attempt-capture.ts";
import type {
  HttpClient,
  HttpExchange,
  HttpFailure,
  ResponseHeaders,
  ResponseSink,
} from "../../net/http-client/contract.ts";
import { DialError, type Dialer, type DialTarget } from "../../net/http-client/dial.ts";
import type { Backpressure } from "../../net/wire/body-sink.ts";
import { CLIENT_DISCONNECTED, CLIENT_DISCONNECTED_UNSENT } from "../client-disconnect.ts";
import { headerLines, JSON_TYPE, lookUpPath } from "./request-head.ts";
import type { UpstreamAttempt } from "./upstream-attempt.ts";
import { failureByMessage } from "./upstream-failure.ts";

export interface OutboundRequest {
  http: HttpClient;
  sockets: SocketClient;
  deadlines: Deadlines;
  dialer: Dialer;
  accessTokens: AccessTokens;
  nowMs(): number;
  userAgent: string;
  errorBytesMax: number;
  responseBytesMax: number;
  eventBytesMax: number;
}

export interface StreamCall extends Backpressure {
  /** The reader of the response now notices a client that disconnects. */
  stopWatching(): void;
}

/** When to start watching for a disconnect: a fast response costs less than the watch. */
const WATCH_CLIENT_AFTER_MS = 100;

/** If the client disconnects, the call fails with `CLIENT_DISCONNECTED` or `CLIENT_DISCONNECTED_UNSENT`. */
export class UpstreamCall implements StreamCall, ResponseSink<TurnFailure> {
  readonly #out: OutboundRequest;
  readonly #attempt: UpstreamAttempt;
  readonly #sink: ResponseSink<UpstreamFailure>;
  #target: DialTarget | null = null;
  /** The access token of an account whose credential is exchanged for one. */
  #token: string | null = null;
  /** A rejected token is replaced once. */
  #mayRenewToken = true;
  #httpExchange: HttpExchange | null = null;
  #deadline: Deadline | null = null;
  #clientSignal: AbortSignal | null = null;
  #disconnectListener: (() => void) | null = null;
  #hasDeadline = true;
  #isOver = false;

  constructor(out: OutboundRequest, attempt: UpstreamAttempt, sink: ResponseSink<UpstreamFailure>) {
    this.#out = out;
    this.#attempt = attempt;
    const observed = attempt.capture ? attempt.capture.tap(sink) : sink;
    const { framing } = KINDS[attempt.account.kind];
    this.#sink =
      framing !== null && attempt.wantsEvents
        ? framing.open(observed, {
            eventBytesMax: out.eventBytesMax,
            onFault: (failure) => this.#failWith(failure),
          })
        : observed;
  }

  start(): void {
    const out = this.#out;
    const { account, deadlineMs } = this.#attempt;
    this.#deadline = out.deadlines.set(
      Math.min(WATCH_CLIENT_AFTER_MS, deadlineMs),
      // `bind` is cheaper than a closure, and nearly no deadline expires.
      this.#watchClient.bind(this),
    );
    try {
      const target = out.dialer.resolve(account.baseUrl, account);
      if (target instanceof Promise) this.#beginLater(target);
      else this.#begin(target);
    } catch (cause) {
      this.#beginLater(Promise.reject(cause));
    }
  }

  #beginLater(target: Promise<DialTarget>): void {
    target.then(
      (resolved) => this.#begin(resolved),
      (cause: unknown) => this.#failWith(dialFailure(cause)),
    );
  }

  #begin(target: DialTarget): void {
    if (this.#isOver) return;
    this.#target = target;
    if (KINDS[this.#attempt.account.kind].credential === "service_account") this.#beginWithToken(target);
    else if (!this.#sendOverSocket(target)) this.#sendOverHttp(target);
  }

  #beginWithToken(target: DialTarget): void {
    const token = this.#out.accessTokens.get(this.#attempt.account);
    if (typeof token === "string") this.#sendWithToken(target, token);
    else
      token.then(
        (text) => this.#sendWithToken(target, text),
        (cause: unknown) => this.#failWith(tokenFailure(cause)),
      );
  }

  #sendWithToken(target: DialTarget, token: string): void {
    if (this.#isOver) return;
    this.#token = token;
    this.#sendOverHttp(target);
  }

  /** The upstream did not process a request whose token it rejected, so the request is sent again with a new one. */
  #renewToken(): boolean {
    const token = this.#token;
    const target = this.#target;
    if (token === null || target === null || !this.#mayRenewToken) return false;
    this.#mayRenewToken = false;
    this.#httpExchange?.abort();
    this.#out.accessTokens.discard(this.#attempt.account, token);
    this.#beginWithToken(target);
    return true;
  }

  #sendOverHttp(target: DialTarget): void {
    const out = this.#out;
    const attempt = this.#attempt;
    const path = lookUpPath(attempt);
    const headers = headerLines(out.userAgent, attempt, this.#token);
    if (attempt.capture) captureSent(attempt.capture, attempt, { transport: "http", path, headers });
    this.#httpExchange = out.http.send(
      {
        target,
        method: attempt.method,
        path,
        headers,
        body: attempt.body === null ? null : attempt.body.content,
        beforeWrite: attempt.beforeWrite ?? null,
      },
      this,
    );
  }

  /** Returns false if the request cannot be sent by WebSocket. */
  #sendOverSocket(target: DialTarget): boolean {
    const out = this.#out;
    const attempt = this.#attempt;
    const { account, body, turn = null, beforeWrite = null } = attempt;
    if (turn === null || !account.websocket || body === null || "open" in body.content) return false;
    if (!out.sockets.isSupported(account, body.content)) return false;
    const headers = headerLines(out.userAgent, { ...attempt, body: null, wantsEvents: false }, null);
    const path = lookUpPath(attempt);
    if (attempt.capture) captureSent(attempt.capture, attempt, { transport: "websocket", path, headers });
    this.#httpExchange = out.sockets.send(
      { ...turn, account, target, path, headers, wholeBody: body.content, beforeWrite },
      this,
    );
    return true;
  }

  head(status: number, headers: ResponseHeaders): void {
    if (status === 401 && this.#renewToken()) return;
    this.#sink.head(status, headers);
  }

  data(piece: Part): void {
    this.#sink.data(piece);
  }

  end(): void {
    this.#isOver = true;
    this.stopWatching();
    this.#sink.end();
  }

  fail(failure: TurnFailure): void {
    const target = this.#target;
    const out = this.#out;
    switch (failure.kind) {
      case "unsupported":
        if (!this.#isOver && target !== null) this.#sendOverHttp(target);
        return;
      case "error_message":
        this.#failWith(failureByMessage(failure.status, failure.headers, failure.body, out.nowMs()));
        return;
      case "connect_timeout":
        if (target !== null) out.dialer.markUnreachable(target);
        break;
    }
    this.#failWith(toUpstreamFailure(failure));
  }

  pause(): void {
    this.#httpExchange?.pause();
  }

  resume(): void {
    this.#httpExchange?.resume();
  }

  abort(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.stopWatching();
    this.#httpExchange?.abort();
  }

  /** The response has begun: from here on the timers of the stream detect silence. */
  stopDeadline(): void {
    this.#hasDeadline = false;
    // Until the client is watched, the deadline only serves to start the watch.
    if (this.#clientSignal !== null) this.#cancelDeadline();
  }

  stopWatching(): void {
    this.#cancelDeadline();
    if (this.#clientSignal === null || this.#disconnectListener === null) return;
    this.#clientSignal.removeEventListener("abort", this.#disconnectListener);
    this.#clientSignal = null;
  }

  #cancelDeadline(): void {
    if (this.#deadline !== null) this.#out.deadlines.cancel(this.#deadline);
    this.#deadline = null;
  }

  #watchClient(): void {
    const attempt = this.#attempt;
    this.#deadline = this.#hasDeadline
      ? this.#out.deadlines.set(attempt.deadlineMs - WATCH_CLIENT_AFTER_MS, () => this.#failWith(timedOut()))
      : null;
    this.#clientSignal = attempt.client.signal;
    if (this.#clientSignal.aborted) {
      this.#handleDisconnect();
      return;
    }
    this.#disconnectListener = () => this.#handleDisconnect();
    this.#clientSignal.addEventListener("abort", this.#disconnectListener);
  }

  #failWith(failure: UpstreamFailure): void {
    if (this.#isOver) return;
    this.abort();
    this.#sink.fail(failure);
  }

  #handleDisconnect(): void {
    this.#failWith(this.#httpExchange?.hasBegun ? CLIENT_DISCONNECTED : CLIENT_DISCONNECTED_UNSENT);
  }
}

/** A body that is read from disk is a form, whose files are not captured. */
function captureSent(
  capture: AttemptCapture,
  { account, method, body }: UpstreamAttempt,
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

function dialFailure(cause: unknown): UpstreamFailure {
  if (!(cause instanceof DialError)) return upstreamFailure("connect", "dial");
  const todo = cause.reason === "forbidden_address" ? FORBIDDEN_ADDRESS_TODO : "";
  return upstreamFailure("connect", `dial: ${cause.reason}${todo}`);
}

/** For operators: the reason is in the log, in `explain` and in the console. */
const FORBIDDEN_ADDRESS_TODO =
  ", allowed only by private_network: true for the account in the configuration file";

function tokenFailure(cause: unknown): UpstreamFailure {
  return cause instanceof AccessTokenError ? cause.failure : upstreamFailure("server", "access token");
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
