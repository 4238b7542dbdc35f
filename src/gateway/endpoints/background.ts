/**
 * A response that its upstream goes on making while nobody reads it. Where somebody pays, the gateway asks after it
 * until it has ended, and then books what it used; until then its money is held. One that takes too long is cancelled.
 * If this process dies first, recovery charges the input alone.
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
import { countAnswer } from "../metering/count-request.ts";
import type { PaidRecord, RequestEnding } from "../request-record.ts";
import { settleRequest } from "../settlement/settle.ts";
import { messageAudience } from "../upstream/dispatch.ts";
import { sendRequest, type WholeResult } from "../upstream/send-request.ts";

const FIRST_PAUSE_MS = 500;
const PAUSE_MS_MAX = 15_000;
/** For the last look before the process ends. */
const LAST_LOOK_MS = 2_000;
const NO_HEADERS = new Headers();
/** Nobody waits for these answers, so nobody leaves. */
const NOBODY = { signal: new AbortController().signal };

export type Standing =
  | { kind: "ended"; outcome: ResponseEnd; answer: UpstreamResponse }
  /** Deleted, or lost: what it used will never be known. */
  | { kind: "gone" }
  | { kind: "running" };

/**
 * Runs on after its request has been answered. `ending` is how the response stood then: if the upstream never reports
 * usage, what the client had received by then is counted.
 */
export async function followBackgroundResponse(
  gateway: Gateway,
  record: PaidRecord,
  responseId: string,
  ending: RequestEnding,
): Promise<void> {
  const pause = openPause();
  const over = gateway.underWay.enter(pause.stop);
  try {
    await follow(gateway, record, responseId, ending, pause);
  } finally {
    over();
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
      // It was settled before it ended, so it cannot be fetched afterwards.
      responseId: standing.kind === "running" ? null : ending.responseId,
      isServed: true,
      isWhole: standing.kind === "ended" && !isStopped(standing.outcome, answer),
      // The client of a background response need not stay. Only a response that was stopped was not seen to its end.
      isAbandoned: standing.kind === "ended" && isStopped(standing.outcome, answer),
      countOutput: answer === null ? ending.countOutput : () => countAnswer(joinParts(answer.body)),
    });
  };
  if (route === null) return close({ kind: "gone" });
  const asking = async (method: "GET" | "POST", deadlineMs: number): Promise<boolean> => {
    if (record.isClosed) return true;
    const asked = await askAfter(gateway, route, responseId, method, deadlineMs);
    const standing = standingOf(gateway, record, route, asked);
    if (standing.kind === "running") return false;
    await close(standing);
    return true;
  };
  const look = () => asking("GET", PAUSE_MS_MAX);
  const known = await gateway.responses.find(responseId, record.caller.key.id);
  if (known !== null) gateway.responses.remember(responseId, { ...known, look });
  const untilMs = gateway.clock.monotonicMs() + gateway.timing.backgroundMsMax;
  for (let pauseMs = FIRST_PAUSE_MS; gateway.clock.monotonicMs() < untilMs; pauseMs *= 1.5) {
    await pause.wait(Math.min(pauseMs, PAUSE_MS_MAX));
    // If it is still running, its hold stays, and the next process settles it.
    if (pause.isStopped()) return void (await asking("GET", LAST_LOOK_MS));
    if (await look()) return;
  }
  if (await asking("POST", PAUSE_MS_MAX)) return;
  await pause.wait(FIRST_PAUSE_MS);
  if (await look()) return;
  gateway.responses.forget(responseId);
  await close({ kind: "running" });
}

/** It was cancelled, and its upstream does not tell what it had produced by then. */
export function isStopped(outcome: string, answer: Pick<UpstreamResponse, "usage"> | null): boolean {
  return outcome === "cancelled" && (answer?.usage ?? null) === null;
}

export interface Pause {
  wait(ms: number): Promise<void>;
  /** Ends the wait, and every later one. */
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

/** POST cancels the response. GET and POST answer with how it stands. */
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
    client: NOBODY,
  });
}

export function standingOf(
  gateway: Gateway,
  record: PaidRecord,
  route: AccountRoute,
  asked: WholeResult,
): Standing {
  if (asked.kind === "left") return { kind: "running" };
  if (asked.kind === "failed") return { kind: asked.failure.status === 404 ? "gone" : "running" };
  const { jsonDepthMax } = gateway.dispatcher;
  const answer = readWholeResponse(
    asked.body,
    "responses",
    messageAudience(record.request, route),
    jsonDepthMax,
  );
  if (answer.kind !== "answer") return { kind: "running" };
  const outcome = readResponseEnd(answer);
  return outcome === null ? { kind: "running" } : { kind: "ended", outcome, answer };
}
