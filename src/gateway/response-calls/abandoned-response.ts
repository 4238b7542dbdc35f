/**
 * Follows a stored response of a charging group whose stream ended early: its client disconnected, its connection
 * broke, or its output exceeded the hold. The upstream may continue it, and the client could fetch the whole by its id.
 * So the gateway cancels the response and polls it until it has ended, then charges its usage. A response that the
 * upstream does not store, or that does not end in time, is charged by what is known, and its id is forgotten.
 */

import type { AccountRoute } from "../../policy/snapshot.ts";
import type { PaidRequest } from "../request-context.ts";
import { isSettlementStored, settleRequest } from "../settlement/settle.ts";
import type { WholeResult } from "../whole-result.ts";
import {
  callStored,
  FIRST_PAUSE_MS,
  LAST_POLL_MS,
  openPause,
  PAUSE_MS_MAX,
  type Pause,
  type PollServices,
  pollStored,
  type ResponseProgress,
  type StoredEnding,
} from "./background-response.ts";

const POLL_MS = 15_000;
/** After this many failed polls in a row the upstream is not polled again. */
const FAILURES_MAX = 5;

export interface AbandonedServices extends PollServices {
  readonly timing: { readonly drainOnDisconnectMs: number };
}

/** Resolves when the response is settled. `ending` is how its request ended here. */
export async function followAbandonedResponse(
  services: AbandonedServices,
  context: PaidRequest,
  ending: StoredEnding,
): Promise<void> {
  const { route } = context.trace;
  if (route === null) {
    await settleRequest(services, context, { ...ending, responseId: null });
    return;
  }
  const pause = openPause();
  const endInFlight = services.inFlight.register(pause.stop);
  try {
    await new AbandonedResponse(services, { context, route, ending }).follow(pause);
  } finally {
    endInFlight();
  }
}

interface Abandonment {
  readonly context: PaidRequest;
  readonly route: AccountRoute;
  readonly ending: StoredEnding;
}

class AbandonedResponse {
  readonly #services: AbandonedServices;
  readonly #context: PaidRequest;
  readonly #route: AccountRoute;
  readonly #ending: StoredEnding;
  #failures = 0;

  constructor(services: AbandonedServices, { context, route, ending }: Abandonment) {
    this.#services = services;
    this.#context = context;
    this.#route = route;
    this.#ending = ending;
  }

  async follow(pause: Pause): Promise<void> {
    const { responses, clock, timing } = this.#services;
    const { responseId } = this.#ending;
    const knownRoute = await responses.find(responseId, this.#context.caller.key.id);
    const checkSettled = () => this.#pollAndSettle("GET", POLL_MS);
    if (knownRoute !== null) responses.add(responseId, { ...knownRoute, checkSettled });
    const untilMs = clock.monotonicMs() + timing.drainOnDisconnectMs;
    // If the upstream broke the stream off, the client may still want the rest. In all other cases it is cancelled.
    const isWanted = this.#ending.outcome === "upstream_cut";
    if (!isWanted && (await this.#pollAndSettle("POST", POLL_MS))) return;
    for (let pauseMs = FIRST_PAUSE_MS; clock.monotonicMs() < untilMs; pauseMs *= 1.5) {
      await pause.wait(Math.min(pauseMs, PAUSE_MS_MAX));
      if (pause.isStopped()) break;
      if (await checkSettled()) return;
    }
    if (await this.#pollAndSettle("GET", LAST_POLL_MS)) return;
    void callStored(this.#services, this.#route, {
      responseId,
      method: "DELETE",
      deadlineMs: LAST_POLL_MS,
    });
    await this.#settleUnknown();
  }

  /** Reads the state of the response (`POST` cancels it) and settles it if it has ended. */
  async #pollAndSettle(method: "GET" | "POST", deadlineMs: number): Promise<boolean> {
    if (await isSettlementStored(this.#context)) return true;
    const call = { responseId: this.#ending.responseId, method, deadlineMs };
    const { result, progress } = await pollStored(this.#services, this.#context, this.#route, call);
    switch (progress.kind) {
      case "gone":
      case "running":
        // Many servers cannot cancel a response.
        if (method === "POST" || !this.#isUnavailable(result)) return false;
        await this.#settleUnknown();
        return true;
      case "ended":
        await this.#settleEnded(progress);
        return true;
    }
  }

  /** The upstream does not have the response, or cannot be reached: then no client can fetch it either. */
  #isUnavailable(result: WholeResult): boolean {
    this.#failures = result.kind === "failed" ? this.#failures + 1 : 0;
    if (result.kind !== "failed") return false;
    return isUnsupportedStatus(result.failure.status) || this.#failures >= FAILURES_MAX;
  }

  async #settleEnded({ response }: Extract<ResponseProgress, { kind: "ended" }>): Promise<void> {
    // A cancelled response without usage is charged like a lost one, but stays retrievable: it does not grow any more.
    const { usage } = response;
    const isWhole = usage !== null;
    await settleRequest(this.#services, this.#context, { ...this.#ending, usage, isWhole });
  }

  async #settleUnknown(): Promise<void> {
    this.#services.responses.remove(this.#ending.responseId);
    await settleRequest(this.#services, this.#context, { ...this.#ending, responseId: null });
  }
}

/** The upstream does not support the call, or not for this response. */
function isUnsupportedStatus(status: number | null): boolean {
  return status !== null && [400, 404, 405, 410, 422, 501].includes(status);
}
