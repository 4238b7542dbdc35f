/**
 * A call to one account from dialling to its end: its deadline, its client that may leave, and every way it can go wrong
 * under one name.
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
 * Whoever waits for the answer; its signal fires when it leaves. The runtime makes the signal when it is first
 * asked for, at a cost that a prompt answer need not pay: ask late.
 */
export interface Client extends Pick<Request, "signal"> {
  /** The real client, where this one only counts as present after it left: no account begins anything for it. */
  readonly inPerson?: Client;
}

export interface UpstreamExchange {
  account: PolicyAccount;
  method: "GET" | "POST" | "DELETE";
  /** An OpenAI path below the base URL. */
  path: string;
  upstreamModel: string;
  clientHeaders: HeaderReader;
  body: { contentType: string; content: UpstreamBody } | null;
  /** A turn on a client's socket, which an account that speaks WebSocket is asked over one. */
  turn?: Omit<TurnRequest, "whole"> | null;
  wantsEvents: boolean;
  /** Until the head of a stream, or until the last byte of a whole answer. */
  deadlineMs: number;
  client: Client;
}

/** What becomes of an answer, as it comes. Either `end`, `failed` or `left` is the last call, and comes once. */
export interface UpstreamListener {
  head(status: number, headers: AnswerHeaders): void;
  data(piece: Part): void;
  end(): void;
  failed(failure: UpstreamFailure): void;
  /** The client is gone; so is the exchange. `wasSent`: the account has something of it. */
  left(wasSent: boolean): void;
}

/** The listener's hold on an exchange under way. */
export interface UpstreamLine {
  pause(): void;
  resume(): void;
  /** Ends it; nothing more is heard of it. */
  hangUp(): void;
  /** Somebody reads the answer on the client's behalf, and will notice when it leaves. */
  stopWatching(): void;
}

/** From here on a client that leaves is noticed; a prompt answer costs less than watching for that would. */
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
      // Less than a closure costs: nearly none of them rings.
      this.watchClient.bind(this),
    );
    try {
      const target = out.dialer.resolve(account.baseUrl, account.privateNetwork);
      if (target instanceof Promise) this.beginLater(target);
      else this.begin(target);
    } catch (thrown) {
      this.beginLater(Promise.reject(thrown));
    }
  }

  private beginLater(target: Promise<DialTarget>): void {
    target.then(
      (found) => this.begin(found),
      (thrown: unknown) => this.fail(dialFailure(thrown)),
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
        path: pathOf(exchange),
        headers: headerLines(out, exchange),
        body: exchange.body === null ? null : exchange.body.content,
      },
      this,
    );
  }

  /** False when it is not to be asked that way. */
  private overSocket(target: DialTarget): boolean {
    const { out, exchange } = this;
    const { account, body, turn = null } = exchange;
    if (turn === null || !account.websocket || body === null || "open" in body.content) return false;
    if (!out.sockets.speaks(account)) return false;
    const headers = headerLines(out, { ...exchange, body: null, wantsEvents: false });
    this.wire = out.sockets.send(
      { ...turn, account, target, path: pathOf(exchange), headers, whole: body.content },
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
    this.fail(failureOf(failure));
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

  /** The answer has begun: from here on silence is judged by the stream's own timers. */
  stopDeadline(): void {
    this.hasDeadline = false;
    // Before the client is watched the alarm is for that alone.
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

/** What all requests of a kind to an account have in common, written once. */
const commonLines = new WeakMap<PolicyAccount, Map<string, string>>();
const commonPaths = new WeakMap<PolicyAccount, Map<string, string>>();

function keptFor(
  account: PolicyAccount,
  kept: WeakMap<PolicyAccount, Map<string, string>>,
): Map<string, string> {
  let texts = kept.get(account);
  if (texts === undefined) {
    texts = new Map();
    kept.set(account, texts);
  }
  return texts;
}

/** The same string object for the same path, so that caches keyed by it hit. */
function pathOf({ account, path, upstreamModel, body }: UpstreamExchange): string {
  // Without a body the path names a stored response, and of those there is no end: they are not cached.
  if (account.kind === "azure" || body === null) return upstreamPath(account, path, upstreamModel);
  const paths = keptFor(account, commonPaths);
  let found = paths.get(path);
  if (found === undefined) {
    found = upstreamPath(account, path, upstreamModel);
    paths.set(path, found);
  }
  return found;
}

/** The headers of an exchange, and no more than are needed. */
function headerLines(
  { userAgent }: OutboundRequest,
  { account, body, wantsEvents, clientHeaders }: UpstreamExchange,
): string {
  const byKind = keptFor(account, commonLines);
  const contentType = body === null ? "" : body.contentType;
  // The type of a form names its boundary, which is another each time.
  const kind =
    contentType.length > JSON_TYPE.length ? null : wantsEvents ? `${contentType} events` : contentType;
  let lines = kind === null ? undefined : byKind.get(kind);
  if (lines === undefined) {
    const credential = credentialHeader(account);
    // Packing would make us open what a hostile account packed, and hold a stream's events back.
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

function dialFailure(thrown: unknown): UpstreamFailure {
  return upstreamFailure("connect", thrown instanceof DialError ? `dial: ${thrown.reason}` : "dial");
}

function failureOf({ kind }: HttpFailure): UpstreamFailure {
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
