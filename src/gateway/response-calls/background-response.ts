/**
 * Follows a background response, which its upstream continues without a connected client. For a paid response the
 * gateway polls the upstream until the response has ended and then settles it; until then the hold stays. A response
 * that takes too long is cancelled. If this process ends first, another one settles the response by its hold
 * (`held-responses.ts`).
 */

import type { AccountRoute } from "../../policy/snapshot.ts";
import { RESPONSES } from "../../protocols/responses/responses-endpoints.ts";
import type { Audience } from "../../protocols/shared/upstream-error.ts";
import {
  type EndedResponse,
  readResponseEnd,
  type UpstreamResponse,
} from "../../protocols/whole-response.ts";
import type { InFlightRequests } from "../request/in-flight-requests.ts";
import type { PaidRequest } from "../request-context.ts";
import type { RequestEnding } from "../settlement/request-ending.ts";
import { isSettlementStored, type SettlementServices, settleRequest } from "../settlement/settle.ts";
import type { ResponseRoutes } from "../stored-responses/response-routes.ts";
import { messageAudience } from "../upstream/message-audience.ts";
import { type PassedResponseServices, readPassedResponse } from "../upstream/passed-response.ts";
import { type OutboundRequest, sendRequest } from "../upstream/send-request.ts";
import type { WholeResult } from "../whole-result.ts";

export const FIRST_PAUSE_MS = 500;
export const PAUSE_MS_MAX = 15_000;
/** The deadline of the last poll before the process exits. */
export const LAST_POLL_MS = 2_000;
const NO_HEADERS = new Headers();
/** These requests have no client, so the signal never fires. */
const NO_CLIENT = { signal: new AbortController().signal };

export type ResponseProgress =
  | ({ kind: "ended" } & EndedResponse)
  /** Deleted or lost: its usage will never be known. */
  | { kind: "gone" }
  | { kind: "running" };

export interface StoredCallServices {
  readonly dispatcher: OutboundRequest & PassedResponseServices;
}

/** The services that following a response uses until it has ended. */
export interface PollServices extends SettlementServices {
  readonly inFlight: Pick<InFlightRequests, "register">;
  readonly responses: Pick<ResponseRoutes, "find" | "add" | "remove">;
  readonly dispatcher: SettlementServices["dispatcher"] & StoredCallServices["dispatcher"];
}

export interface BackgroundServices extends PollServices {
  readonly timing: { readonly backgroundMsMax: number };
}

/** The ending of a request whose response is stored under this id. */
export type StoredEnding = RequestEnding & { responseId: string };

/**
 * Continues after the request got its response. `ending` is the state of the response at that time: if the upstream never
 * reports usage, the output that the client received until then is counted.
 */
export async function followBackgroundResponse(
  services: BackgroundServices,
  context: PaidRequest,
  ending: StoredEnding,
): Promise<void> {
  const { route } = context.trace;
  const response = new BackgroundResponse(services, context, ending);
  const pause = openPause();
  const endInFlight = services.inFlight.register(pause.stop);
  try {
    if (route === null) await response.settle({ kind: "gone" });
    else await response.follow(route, pause);
  } finally {
    endInFlight();
  }
}

class BackgroundResponse {
  readonly #services: BackgroundServices;
  readonly #context: PaidRequest;
  readonly #ending: StoredEnding;

  constructor(services: BackgroundServices, context: PaidRequest, ending: StoredEnding) {
    this.#services = services;
    this.#context = context;
    this.#ending = ending;
  }

  /** Polls the response until it has ended, at most until it is cancelled. */
  async follow(route: AccountRoute, pause: Pause): Promise<void> {
    const { responses, clock, timing } = this.#services;
    const { responseId } = this.#ending;
    const checkSettled = async (ended?: EndedResponse) => {
      if (ended === undefined) return this.#poll(route, "GET", PAUSE_MS_MAX);
      await this.settle({ kind: "ended", ...ended });
      return true;
    };
    const knownRoute = await responses.find(responseId, this.#context.caller.key.id);
    if (knownRoute !== null) responses.add(responseId, { ...knownRoute, checkSettled });
    const untilMs = clock.monotonicMs() + timing.backgroundMsMax;
    for (let pauseMs = FIRST_PAUSE_MS; clock.monotonicMs() < untilMs; pauseMs *= 1.5) {
      await pause.wait(Math.min(pauseMs, PAUSE_MS_MAX));
      // If the response is still running, its hold is handed over, and another process settles it.
      if (pause.isStopped()) return void (await this.#poll(route, "GET", LAST_POLL_MS));
      if (await checkSettled()) return;
    }
    if (await this.#poll(route, "POST", PAUSE_MS_MAX)) return;
    await pause.wait(FIRST_PAUSE_MS);
    if (await checkSettled()) return;
    responses.remove(responseId);
    await this.settle({ kind: "running" });
  }

  /** Reads the state of the response (`POST` cancels it) and settles it unless it is running. */
  async #poll(route: AccountRoute, method: "GET" | "POST", deadlineMs: number): Promise<boolean> {
    if (await isSettlementStored(this.#context)) return true;
    const call = { responseId: this.#ending.responseId, method, deadlineMs };
    const { progress } = await pollStored(this.#services, this.#context, route, call);
    if (progress.kind === "running") return false;
    await this.settle(progress);
    return true;
  }

  async settle(progress: ResponseProgress): Promise<void> {
    const ending = this.#ending;
    const { inputCounter } = this.#services;
    const response = progress.kind === "ended" ? progress.response : null;
    const isCancelled = progress.kind === "ended" && isStopped(progress.outcome, response);
    await settleRequest(this.#services, this.#context, {
      ...ending,
      outcome: progress.kind === "ended" ? progress.outcome : "upstream_cut",
      usage: response?.usage ?? null,
      // The response is settled before its end, so it must not be retrievable afterwards.
      responseId: progress.kind === "running" ? null : ending.responseId,
      isServed: true,
      isWhole: progress.kind === "ended" && !isCancelled,
      // The client of a background response may disconnect. Only a cancelled response has output that was not received.
      isAbandoned: isCancelled,
      countOutput:
        response === null
          ? ending.countOutput
          : () => inputCounter.countResponse(response.body, this.#context.caller.key.id),
    });
  }
}

/** The response was cancelled, and its upstream does not report what it had produced until then. */
export function isStopped(outcome: string, response: Pick<UpstreamResponse, "usage"> | null): boolean {
  return outcome === "cancelled" && (response?.usage ?? null) === null;
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

interface StoredPoll {
  readonly responseId: string;
  /** POST cancels the response. GET and POST return its state. */
  readonly method: "GET" | "POST" | "DELETE";
  readonly deadlineMs: number;
}

export function callStored(
  { dispatcher }: StoredCallServices,
  { account, upstreamModel }: Pick<AccountRoute, "account" | "upstreamModel">,
  { responseId, method, deadlineMs }: StoredPoll,
): Promise<WholeResult> {
  const path = `/responses/${encodeURIComponent(responseId)}`;
  return sendRequest(dispatcher, {
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

/** Reads the state of the response of a request. */
export async function pollStored(
  services: StoredCallServices,
  { request }: Pick<PaidRequest, "request">,
  route: AccountRoute,
  call: StoredPoll,
): Promise<{ result: WholeResult; progress: ResponseProgress }> {
  const result = await callStored(services, route, call);
  return { result, progress: await readProgress(services, messageAudience(request, route), result) };
}

export async function readProgress(
  { dispatcher }: StoredCallServices,
  audience: Audience,
  result: WholeResult,
): Promise<ResponseProgress> {
  if (result.kind === "failed") return { kind: result.failure.status === 404 ? "gone" : "running" };
  const owner = audience.account?.name ?? "";
  const response = await readPassedResponse(dispatcher, result.body, {
    endpoint: RESPONSES,
    audience,
    owner,
  });
  if (response.kind !== "response") return { kind: "running" };
  const outcome = readResponseEnd(response);
  return outcome === null ? { kind: "running" } : { kind: "ended", outcome, response };
}
