/**
 * Follows a background response, which its upstream continues without a connected client. For a paid response the
 * gateway polls the upstream until the response has ended and then settles it; until then the hold stays. A response
 * that takes too long is cancelled. If this process dies first, recovery charges the input alone.
 */

import { joinParts } from "../../net/wire/parts.ts";
import type { AccountRoute } from "../../policy/snapshot.ts";
import {
  type ResponseEnd,
  readResponseEnd,
  readWholeResponse,
  type UpstreamResponse,
} from "../../protocols/shared/whole-response.ts";
import type { Gateway } from "../gateway.ts";
import { countResponse } from "../metering/count-request.ts";
import type { PaidRecord, RequestEnding } from "../request-record.ts";
import { settleRequest } from "../settlement/settle.ts";
import { messageAudience } from "../upstream/dispatch.ts";
import { sendRequest, type WholeResult } from "../upstream/send-request.ts";

const FIRST_PAUSE_MS = 500;
const PAUSE_MS_MAX = 15_000;
/** The deadline of the last poll before the process exits. */
const LAST_POLL_MS = 2_000;
const NO_HEADERS = new Headers();
/** These requests have no client, so the signal never fires. */
const NO_CLIENT = { signal: new AbortController().signal };

export type Standing =
  | { kind: "ended"; outcome: ResponseEnd; answer: UpstreamResponse }
  /** Deleted or lost: its usage will never be known. */
  | { kind: "gone" }
  | { kind: "running" };

/**
 * Continues after the request was answered. `ending` is the state of the response at that time: if the upstream never
 * reports usage, the output that the client received until then is counted.
 */
export async function followBackgroundResponse(
  gateway: Gateway,
  record: PaidRecord,
  responseId: string,
  ending: RequestEnding,
): Promise<void> {
  const pause = openPause();
  const leaveInFlight = gateway.underWay.enter(pause.stop);
  try {
    await follow(gateway, record, responseId, ending, pause);
  } finally {
    leaveInFlight();
  }
}

async function follow(
  gateway: Gateway,
  record: PaidRecord,
  responseId: string,
  ending: RequestEnding,
  pause: Pause,
): Promise<void> {
  const { route } = record.trace;
  const close = async (standing: Standing): Promise<void> => {
    const answer = standing.kind === "ended" ? standing.answer : null;
    await settleRequest(gateway, record, {
      ...ending,
      outcome: standing.kind === "ended" ? standing.outcome : "upstream_cut",
      usage: answer?.usage ?? null,
      // The response is settled before its end, so it must not be retrievable afterwards.
      responseId: standing.kind === "running" ? null : ending.responseId,
      isServed: true,
      isWhole: standing.kind === "ended" && !isStopped(standing.outcome, answer),
      // The client of a background response may disconnect. Only a cancelled response has output that was not received.
      isAbandoned: standing.kind === "ended" && isStopped(standing.outcome, answer),
      countOutput: answer === null ? ending.countOutput : () => countResponse(joinParts(answer.body)),
    });
  };
  if (route === null) return close({ kind: "gone" });
  const pollOnce = async (method: "GET" | "POST", deadlineMs: number): Promise<boolean> => {
    if (record.isClosed) return true;
    const result = await askAfter(gateway, route, responseId, method, deadlineMs);
    const standing = standingOf(gateway, record, route, result);
    if (standing.kind === "running") return false;
    await close(standing);
    return true;
  };
  const look = () => pollOnce("GET", PAUSE_MS_MAX);
  const knownRoute = await gateway.responses.find(responseId, record.caller.key.id);
  if (knownRoute !== null) gateway.responses.remember(responseId, { ...knownRoute, look });
  const untilMs = gateway.clock.monotonicMs() + gateway.timing.backgroundMsMax;
  for (let pauseMs = FIRST_PAUSE_MS; gateway.clock.monotonicMs() < untilMs; pauseMs *= 1.5) {
    await pause.wait(Math.min(pauseMs, PAUSE_MS_MAX));
    // If the response is still running, its hold stays and the next process settles it.
    if (pause.isStopped()) return void (await pollOnce("GET", LAST_POLL_MS));
    if (await look()) return;
  }
  if (await pollOnce("POST", PAUSE_MS_MAX)) return;
  await pause.wait(FIRST_PAUSE_MS);
  if (await look()) return;
  gateway.responses.forget(responseId);
  await close({ kind: "running" });
}

/** The response was cancelled, and its upstream does not report what it had produced until then. */
export function isStopped(outcome: string, answer: Pick<UpstreamResponse, "usage"> | null): boolean {
  return outcome === "cancelled" && (answer?.usage ?? null) === null;
}

export interface Pause {
  wait(ms: number): Promise<void>;
  /** Ends the current wait and every later one. */
  stop(): void;
  isStopped(): boolean;
}

export function openPause(): Pause {
  let isStopped = false;
  let wake: (() => void) | null = null;
  return {
    async wait(ms) {
      if (isStopped) return;
      const { promise, resolve } = Promise.withResolvers<void>();
      wake = resolve;
      const timer = setTimeout(resolve, ms);
      await promise;
      clearTimeout(timer);
    },
    stop() {
      isStopped = true;
      wake?.();
    },
    isStopped: () => isStopped,
  };
}

/** POST cancels the response. GET and POST return its state. */
export function askAfter(
  gateway: Gateway,
  { account, upstreamModel }: AccountRoute,
  responseId: string,
  method: "GET" | "POST" | "DELETE",
  deadlineMs: number,
): Promise<WholeResult> {
  const path = `/responses/${encodeURIComponent(responseId)}`;
  return sendRequest(gateway.dispatcher, {
    account,
    method,
    path: method === "POST" ? `${path}/cancel` : path,
    upstreamModel,
    clientHeaders: NO_HEADERS,
    body: null,
    wantsEvents: false,
    deadlineMs,
    client: NO_CLIENT,
  });
}

export function standingOf(
  gateway: Gateway,
  record: PaidRecord,
  route: AccountRoute,
  result: WholeResult,
): Standing {
  if (result.kind === "left") return { kind: "running" };
  if (result.kind === "failed") return { kind: result.failure.status === 404 ? "gone" : "running" };
  const { jsonDepthMax } = gateway.dispatcher;
  const answer = readWholeResponse(
    result.body,
    "responses",
    messageAudience(record.request, route),
    jsonDepthMax,
  );
  if (answer.kind !== "answer") return { kind: "running" };
  const outcome = readResponseEnd(answer);
  return outcome === null ? { kind: "running" } : { kind: "ended", outcome, answer };
}
