/** One HTTP exchange with one account: dial, ask, and turn every way it can go wrong into a named failure. */

import type { Alarm, Alarms } from "../alarms.ts";
import { ApiError } from "../errors.ts";
import type { UpstreamBody } from "../interfaces/request.ts";
import { readUpstreamError } from "../interfaces/upstream-error.ts";
import type { Account } from "../policy/snapshot.ts";
import { credentialHeader, upstreamPath } from "../upstreams/address.ts";
import { classifyFetchError, DIRECT, DialError, type Dialer } from "../upstreams/dial.ts";
import type { Reach } from "../upstreams/dial-reach.ts";
import { classifyError, failed, type UpstreamFailure } from "../upstreams/failure.ts";
import { headersUp } from "../upstreams/headers.ts";
import { resetOfUsedUp, retryAfterMs } from "../upstreams/rate-limit.ts";
import { unpack } from "../upstreams/unpack.ts";
import { parseJson } from "../wire/json-parse.ts";

export interface Outbound {
  alarms: Alarms;
  dialer: Dialer;
  reach: Reach;
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
  /** Until the status line of a stream, or until the last byte of a whole answer. */
  deadlineMs: number;
  client: Client;
}

export type Sent =
  | { kind: "answered"; response: Response; hangUp: HangUp }
  | { kind: "failed"; failure: UpstreamFailure };

/** Ends the exchange early; `settle` when it is over, so that its deadline and listeners are let go. */
export interface HangUp {
  abort(): void;
  /** The answer has begun: from here on silence is judged by the stream's own timers. */
  stopDeadline(): void;
  settle(): void;
  /** Why the exchange was ended from this side, if it was. */
  endedBy(): UpstreamFailure | null;
}

export async function send(out: Outbound, exchange: Exchange): Promise<Sent> {
  const { account, body } = exchange;
  const hangUp = openHangUp(exchange.client, out.alarms);
  try {
    const dialled = out.dialer.resolve(account.baseUrl, account.privateNetwork);
    const target = dialled instanceof Promise ? await dialled : dialled;
    hangUp.startDeadline(exchange.deadlineMs, async () => {
      const reachable = await out.reach.isReachable(target);
      if (!reachable) out.dialer.unreachable(target);
      return reachable;
    });
    // No more than is needed: each header costs the client half a microsecond. Without `accept-encoding` an answer
    // comes as it is.
    const headers: Record<string, string> = { "user-agent": out.userAgent };
    if (exchange.wantsEvents) headers.accept = "text/event-stream";
    if (target.hostHeader !== null) headers.host = target.hostHeader;
    if (body !== null) headers["content-type"] = body.contentType;
    if (body?.content.contentLength != null) headers["content-length"] = String(body.content.contentLength);
    const credential = credentialHeader(account);
    if (credential !== null) headers[credential[0]] = credential[1];
    headersUp(exchange.clientHeaders, headers);
    const response = await fetch(
      target.origin + upstreamPath(account, exchange.path, exchange.upstreamModel),
      {
        method: exchange.method,
        headers,
        body: body === null ? null : body.content.content,
        ...DIRECT,
        signal: hangUp.signal,
        ...(target.tls === null ? {} : { tls: target.tls }),
      },
    );
    hangUp.heard();
    if (response.status >= 200 && response.status < 300) return { kind: "answered", response, hangUp };
    const failure = await readFailure(out, response);
    hangUp.settle();
    return { kind: "failed", failure };
  } catch (thrown) {
    hangUp.settle();
    if (exchange.client.signal.aborted) throw clientGone();
    return { kind: "failed", failure: hangUp.endedBy() ?? failureOf(thrown) };
  }
}

/** The whole body of an answer, bounded; a failure when it is cut, too large or packed in an unknown way. */
export async function readWhole(
  out: Outbound,
  response: Response,
  hangUp: HangUp,
  client: Client,
): Promise<Uint8Array | UpstreamFailure> {
  try {
    const bytes = await readBounded(response, out.responseBytesMax);
    const plain = bytes && unpack(bytes, response.headers.get("content-encoding"), out.responseBytesMax);
    if (plain !== null) return plain;
    hangUp.abort();
    return failed("bad_answer", "the answer was too large, or packed in a way that cannot be opened");
  } catch (thrown) {
    if (client.signal.aborted) throw clientGone();
    return hangUp.endedBy() ?? failureOf(thrown);
  } finally {
    hangUp.settle();
  }
}

export function clientGone(): ApiError {
  return new ApiError(
    "client_closed_request",
    "The client closed the connection before the answer was ready.",
  );
}

async function readFailure(out: Outbound, response: Response): Promise<UpstreamFailure> {
  const bytes = await readBounded(response, out.errorBytesMax);
  if (response.status < 400) return failed("bad_answer", `status ${response.status}`, response.status);
  const error = bytes === null ? null : readUpstreamError(parseJson(bytes));
  const { headers } = response;
  return classifyError(response.status, error, retryAfterMs(headers, out.nowMs()), resetOfUsedUp(headers));
}

/** Null when there is more than allowed. */
async function readBounded(response: Response, bytesMax: number): Promise<Uint8Array | null> {
  const length = Number(response.headers.get("content-length") ?? Number.NaN);
  if (length <= bytesMax) return response.bytes();
  if (response.body === null) return new Uint8Array(0);
  const chunks: Uint8Array[] = [];
  let total = 0;
  for await (const chunk of response.body) {
    total += chunk.length;
    if (total > bytesMax) return null;
    chunks.push(chunk);
  }
  return chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks);
}

function failureOf(thrown: unknown): UpstreamFailure {
  if (thrown instanceof DialError) return failed("connect", `dial: ${thrown.reason}`);
  const kind = classifyFetchError(thrown);
  switch (kind) {
    case "refused":
    case "dns":
    case "tls":
      return failed("connect", kind);
    case "timeout":
      return timedOut();
    case "reset":
    case "aborted":
      return failed("reset", "the connection broke");
    case "unknown":
      return failed("bad_answer", "the answer was not HTTP");
  }
}

function timedOut(): UpstreamFailure {
  return failed("timeout", "no answer within the deadline");
}

/** From here on a client that leaves is noticed; a prompt answer costs less than watching for that would. */
const WATCH_CLIENT_AFTER_MS = 100;
/** Headers later than this make it worth asking whether the host is there at all. */
const LATE_MS = 1_000;

interface OpenHangUp extends HangUp {
  readonly signal: AbortSignal;
  /** The host has spoken: whether it can be reached is no longer a question. */
  heard(): void;
  startDeadline(deadlineMs: number, isReachable: () => Promise<boolean>): void;
}

function openHangUp(client: Client, alarms: Alarms): OpenHangUp {
  const controller = new AbortController();
  let endedBy: UpstreamFailure | null = null;
  let alarm: Alarm | null = null;
  let watched: AbortSignal | null = null;
  let waiting = true;
  const abort = () => controller.abort();
  const end = (failure: UpstreamFailure) => {
    endedBy ??= failure;
    abort();
  };
  const watchClient = () => {
    watched = client.signal;
    watched.addEventListener("abort", abort);
    if (watched.aborted) abort();
  };
  const stopWaiting = () => {
    waiting = false;
    if (alarm !== null) alarms.cancel(alarm);
  };
  return {
    signal: controller.signal,
    abort,
    endedBy: () => endedBy,
    startDeadline(deadlineMs, isReachable) {
      const checkHost = () => {
        alarm = alarms.set(deadlineMs - LATE_MS, () => end(timedOut()));
        void isReachable().then((reachable) => {
          if (!reachable && waiting) end(failed("connect", "no connection"));
        });
      };
      alarm = alarms.set(WATCH_CLIENT_AFTER_MS, () => {
        watchClient();
        alarm = alarms.set(LATE_MS - WATCH_CLIENT_AFTER_MS, checkHost);
      });
    },
    heard() {
      waiting = false;
    },
    stopDeadline() {
      stopWaiting();
      // A stream may be silent for long before its first content.
      if (watched === null) watchClient();
    },
    settle() {
      stopWaiting();
      watched?.removeEventListener("abort", abort);
    },
  };
}
