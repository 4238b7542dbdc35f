/** One exchange with one account: ask, and turn every way it can go wrong into a named failure. */

import type { Alarm, Alarms } from "../alarms.ts";
import { ApiError } from "../errors.ts";
import type { UpstreamBody } from "../interfaces/request.ts";
import { readUpstreamError } from "../interfaces/upstream-error.ts";
import type { Account } from "../policy/snapshot.ts";
import { credentialHeader, upstreamPath } from "../upstreams/address.ts";
import { DialError, type Dialer, type Target } from "../upstreams/dial.ts";
import { classifyError, failed, type UpstreamFailure } from "../upstreams/failure.ts";
import { headersUp } from "../upstreams/headers.ts";
import type { AnswerHeaders } from "../upstreams/http/answer-head.ts";
import type { HttpClient, HttpExchange, HttpFailure } from "../upstreams/http/client.ts";
import { resetOfUsedUp, retryAfterMs } from "../upstreams/rate-limit.ts";
import { unpack } from "../upstreams/unpack.ts";
import { parseJson } from "../wire/json-parse.ts";

export interface Outbound {
  http: HttpClient;
  alarms: Alarms;
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
export type Client = Pick<Request, "signal">;

export interface Exchange {
  account: Account;
  method: "GET" | "POST" | "DELETE";
  /** An OpenAI path below the base URL. */
  path: string;
  upstreamModel: string;
  clientHeaders: Headers;
  body: { contentType: string; content: UpstreamBody } | null;
  wantsEvents: boolean;
  /** Until the head of a stream, or until the last byte of a whole answer. */
  deadlineMs: number;
  client: Client;
}

export type Whole =
  | { kind: "answered"; headers: AnswerHeaders; bytes: Uint8Array }
  | { kind: "failed"; failure: UpstreamFailure };

/** What becomes of an answer, as it comes. Either `end`, `failed` or `left` is the last call, and comes once. */
interface Listener {
  head(status: number, headers: AnswerHeaders): void;
  data(bytes: Uint8Array): void;
  end(): void;
  failed(failure: UpstreamFailure): void;
  /** The client is gone; so is the exchange. */
  left(): void;
}

/** The listener's hold on an exchange under way. */
export interface Line {
  pause(): void;
  resume(): void;
  /** Ends it; nothing more is heard of it. */
  hangUp(): void;
  /** The answer has begun: from here on silence is judged by the stream's own timers. */
  stopDeadline(): void;
  /** Somebody reads the answer on the client's behalf, and will notice when it leaves. */
  stopWatching(): void;
}

/** The whole answer, bounded. Rejects when the client leaves before it is there. */
export function ask(out: Outbound, exchange: Exchange): Promise<Whole> {
  return new Promise((resolve, reject) => {
    const body = gather(out.responseBytesMax);
    let good = false;
    let status = 0;
    let headers: AnswerHeaders;
    const finish = () => {
      if (!good) resolve({ kind: "failed", failure: readFailure(out, status, headers, body.take()) });
      else resolve(readGood(headers, body.take(), out.responseBytesMax));
    };
    const line = openLine(out, exchange, {
      head(answered, told) {
        status = answered;
        headers = told;
        good = isGood(status);
        if (!good) body.bytesMax = out.errorBytesMax;
      },
      data(bytes) {
        if (body.add(bytes)) return;
        line.hangUp();
        finish();
      },
      end: finish,
      failed: (failure) => resolve({ kind: "failed", failure }),
      left: () => reject(clientGone()),
    });
  });
}

/** Takes the body of a streamed answer. */
export interface StreamIntake {
  data(bytes: Uint8Array): void;
  end(): void;
  broke(failure: UpstreamFailure): void;
}

export interface StreamListener {
  /** The account has begun to answer; from now on the intake hears of it. */
  begin(headers: AnswerHeaders, line: Line): StreamIntake;
  /** It did not come that far. */
  failed(failure: UpstreamFailure): void;
  left(): void;
}

export function askForStream(out: Outbound, exchange: Exchange, listener: StreamListener): void {
  let intake: StreamIntake | null = null;
  const error = gather(out.errorBytesMax);
  let status = 0;
  let headers: AnswerHeaders;
  const finishError = () => listener.failed(readFailure(out, status, headers, error.take()));
  const line = openLine(out, exchange, {
    head(answered, told) {
      status = answered;
      headers = told;
      if (!isGood(status)) return;
      line.stopDeadline();
      intake = listener.begin(told, line);
    },
    data(bytes) {
      if (intake !== null) intake.data(bytes);
      else if (!error.add(bytes)) {
        line.hangUp();
        finishError();
      }
    },
    end() {
      if (intake !== null) intake.end();
      else finishError();
    },
    failed(failure) {
      if (intake !== null) intake.broke(failure);
      else listener.failed(failure);
    },
    left() {
      if (intake !== null) intake.broke(failed("reset", "the client left"));
      else listener.left();
    },
  });
}

export function clientGone(): ApiError {
  return new ApiError(
    "client_closed_request",
    "The client closed the connection before the answer was ready.",
  );
}

/** From here on a client that leaves is noticed; a prompt answer costs less than watching for that would. */
const WATCH_CLIENT_AFTER_MS = 100;

function openLine(out: Outbound, exchange: Exchange, listener: Listener): Line {
  const { alarms } = out;
  let over = false;
  let wire: HttpExchange | null = null;
  let alarm: Alarm | null = null;
  let hasDeadline = true;
  let watched: AbortSignal | null = null;

  function quiet(): void {
    if (alarm !== null) alarms.cancel(alarm);
    alarm = null;
    watched?.removeEventListener("abort", leave);
    watched = null;
  }

  function hangUp(): void {
    if (over) return;
    over = true;
    quiet();
    wire?.abort();
  }

  function fail(failure: UpstreamFailure): void {
    if (over) return;
    hangUp();
    listener.failed(failure);
  }

  function leave(): void {
    if (over) return;
    hangUp();
    listener.left();
  }

  function watchClient(): void {
    alarm = hasDeadline
      ? alarms.set(exchange.deadlineMs - WATCH_CLIENT_AFTER_MS, () => fail(timedOut()))
      : null;
    watched = exchange.client.signal;
    if (watched.aborted) leave();
    else watched.addEventListener("abort", leave);
  }

  function begin(target: Target): void {
    if (over) return;
    wire = out.http.send(
      {
        target,
        method: exchange.method,
        path: upstreamPath(exchange.account, exchange.path, exchange.upstreamModel),
        headers: headerLines(out, exchange),
        body: exchange.body === null ? null : exchange.body.content,
      },
      {
        head: listener.head,
        data: listener.data,
        end() {
          over = true;
          quiet();
          listener.end();
        },
        failed(failure) {
          if (failure.kind === "connect_timeout") out.dialer.unreachable(target);
          fail(failureOf(failure));
        },
      },
    );
  }

  alarm = alarms.set(Math.min(WATCH_CLIENT_AFTER_MS, exchange.deadlineMs), watchClient);
  try {
    const target = out.dialer.resolve(exchange.account.baseUrl, exchange.account.privateNetwork);
    if (target instanceof Promise) target.then(begin, (thrown: unknown) => fail(dialFailure(thrown)));
    else begin(target);
  } catch (thrown) {
    const failure = dialFailure(thrown);
    queueMicrotask(() => fail(failure));
  }

  return {
    pause: () => wire?.pause(),
    resume: () => wire?.resume(),
    hangUp,
    stopDeadline() {
      hasDeadline = false;
      // Before the client is watched the alarm is for that alone.
      if (watched === null || alarm === null) return;
      alarms.cancel(alarm);
      alarm = null;
    },
    stopWatching: quiet,
  };
}

/** What all requests to an account have in common, written once. */
const accountLines = new WeakMap<Account, string>();

/** No more than is needed. Without `accept-encoding` an answer comes as it is. */
function headerLines(
  { userAgent }: Outbound,
  { account, body, wantsEvents, clientHeaders }: Exchange,
): string {
  let lines = accountLines.get(account);
  if (lines === undefined) {
    const credential = credentialHeader(account);
    lines = `user-agent: ${userAgent}\r\n`;
    if (credential !== null) lines += `${credential[0]}: ${credential[1]}\r\n`;
    accountLines.set(account, lines);
  }
  if (body !== null) lines += `content-type: ${body.contentType}\r\n`;
  if (wantsEvents) lines += "accept: text/event-stream\r\n";
  return lines + headersUp(clientHeaders);
}

function isGood(status: number): boolean {
  return status >= 200 && status < 300;
}

function readGood(headers: AnswerHeaders, bytes: Uint8Array | null, bytesMax: number): Whole {
  const plain = bytes && unpack(bytes, headers.get("content-encoding"), bytesMax);
  if (plain !== null) return { kind: "answered", headers, bytes: plain };
  return {
    kind: "failed",
    failure: failed("bad_answer", "the answer was too large, or packed in a way that cannot be opened"),
  };
}

function readFailure(
  out: Outbound,
  status: number,
  headers: AnswerHeaders,
  bytes: Uint8Array | null,
): UpstreamFailure {
  if (status < 400) return failed("bad_answer", `status ${status}`, status);
  const error = bytes === null ? null : readUpstreamError(parseJson(bytes));
  return classifyError(status, error, retryAfterMs(headers, out.nowMs()), resetOfUsedUp(headers));
}

function dialFailure(thrown: unknown): UpstreamFailure {
  return failed("connect", thrown instanceof DialError ? `dial: ${thrown.reason}` : "dial");
}

function failureOf({ kind }: HttpFailure): UpstreamFailure {
  switch (kind) {
    case "refused":
    case "tls":
      return failed("connect", kind);
    case "connect_timeout":
      return failed("connect", "no connection");
    case "reset":
      return failed("reset", "the connection broke");
    case "bad_http":
      return failed("bad_answer", "the answer was not HTTP");
  }
}

function timedOut(): UpstreamFailure {
  return failed("timeout", "no answer within the deadline");
}

interface Gathering {
  bytesMax: number;
  /** False when there is more than allowed. */
  add(bytes: Uint8Array): boolean;
  /** Null when there was more than allowed. */
  take(): Uint8Array | null;
}

const NOTHING = new Uint8Array(0);

/** Most answers come in one piece, which then is not copied. */
function gather(bytesMax: number): Gathering {
  let first: Uint8Array | null = null;
  let more: Uint8Array[] | null = null;
  let total = 0;
  const gathering: Gathering = {
    bytesMax,
    add(bytes) {
      total += bytes.length;
      if (total > gathering.bytesMax) return false;
      if (first === null) first = bytes;
      else if (more === null) more = [first, bytes];
      else more.push(bytes);
      return true;
    },
    take() {
      if (total > gathering.bytesMax) return null;
      return more === null ? (first ?? NOTHING) : Buffer.concat(more, total);
    },
  };
  return gathering;
}
