/**
 * Follows a stored response of a charging group whose stream ended early: its client disconnected, its connection
 * broke, or its output exceeded the hold. The upstream may continue it, and the client could fetch the whole by its id.
 * So the gateway cancels the response and polls it until it has ended, then charges its usage. A response that the
 * upstream does not store, or that does not end in time, is charged by what is known, and its id is forgotten.
 */

import type { AccountRoute } from "../../policy/snapshot.ts";
import type { Gateway } from "../gateway.ts";
import type { PaidRecord, RequestEnding } from "../request-record.ts";
import { settleRequest } from "../settlement/settle.ts";
import type { WholeResult } from "../upstream/send-request.ts";
import { askAfter, openPause, type Pause, type Standing, standingOf } from "./background.ts";

const FIRST_PAUSE_MS = 500;
const PAUSE_MS_MAX = 15_000;
const POLL_MS = 15_000;
/** After this many failed polls in a row the upstream is not polled again. */
const FAILURES_MAX = 5;
/** The deadline of the last poll before the process exits. */
const LAST_POLL_MS = 2_000;

/** Resolves when the response is settled. `ending` is how its request ended here. */
export async function followAbandonedResponse(
  gateway: Gateway,
  record: PaidRecord,
  responseId: string,
  ending: RequestEnding,
): Promise<void> {
  const { route } = record.trace;
  if (route === null) {
    await settleRequest(gateway, record, { ...ending, responseId: null });
    return;
  }
  const pause = openPause();
  const leaveInFlight = gateway.underWay.enter(pause.stop);
  try {
    await new LeftResponse(gateway, record, route, responseId, ending).follow(pause);
  } finally {
    leaveInFlight();
  }
}

class LeftResponse {
  private readonly gateway: Gateway;
  private readonly record: PaidRecord;
  private readonly route: AccountRoute;
  private readonly responseId: string;
  private readonly ending: RequestEnding;
  private failures = 0;

  constructor(
    gateway: Gateway,
    record: PaidRecord,
    route: AccountRoute,
    responseId: string,
    ending: RequestEnding,
  ) {
    this.gateway = gateway;
    this.record = record;
    this.route = route;
    this.responseId = responseId;
    this.ending = ending;
  }

  async follow(pause: Pause): Promise<void> {
    const { gateway, record, responseId } = this;
    const knownRoute = await gateway.responses.find(responseId, record.caller.key.id);
    const look = () => this.isSettledBy("GET", POLL_MS);
    if (knownRoute !== null) gateway.responses.remember(responseId, { ...knownRoute, look });
    const untilMs = gateway.clock.monotonicMs() + gateway.timing.drainOnDisconnectMs;
    // If the upstream broke the stream off, the client may still want the rest. In all other cases it is cancelled.
    const isWanted = this.ending.outcome === "upstream_cut";
    if (!isWanted && (await this.isSettledBy("POST", POLL_MS))) return;
    for (let pauseMs = FIRST_PAUSE_MS; gateway.clock.monotonicMs() < untilMs; pauseMs *= 1.5) {
      await pause.wait(Math.min(pauseMs, PAUSE_MS_MAX));
      if (pause.isStopped()) break;
      if (await look()) return;
    }
    if (await this.isSettledBy("GET", LAST_POLL_MS)) return;
    void askAfter(gateway, this.route, responseId, "DELETE", LAST_POLL_MS);
    await this.settleUnknown();
  }

  /** Reads the state of the response (`POST` cancels it) and settles it if it has ended. */
  private async isSettledBy(method: "GET" | "POST", deadlineMs: number): Promise<boolean> {
    const { gateway, record, route, responseId } = this;
    if (record.isClosed) return true;
    const result = await askAfter(gateway, route, responseId, method, deadlineMs);
    const standing = standingOf(gateway, record, route, result);
    switch (standing.kind) {
      case "gone":
      case "running":
        // Many servers cannot cancel a response.
        if (method === "POST" || !this.isUnavailable(result)) return false;
        await this.settleUnknown();
        return true;
      case "ended":
        await this.settleEnded(standing);
        return true;
    }
  }

  /** The upstream does not have the response, or cannot be reached: then no client can fetch it either. */
  private isUnavailable(result: WholeResult): boolean {
    this.failures = result.kind === "failed" ? this.failures + 1 : 0;
    if (result.kind !== "failed") return false;
    return isRefused(result.failure.status) || this.failures >= FAILURES_MAX;
  }

  private async settleEnded({ answer }: Extract<Standing, { kind: "ended" }>): Promise<void> {
    const { gateway, record, ending } = this;
    // A cancelled response without usage is charged like a lost one, but stays retrievable: it does not grow any more.
    const isWhole = answer.usage !== null;
    await settleRequest(gateway, record, { ...ending, usage: answer.usage, isWhole });
  }

  private async settleUnknown(): Promise<void> {
    const { gateway, record, responseId, ending } = this;
    gateway.responses.forget(responseId);
    await settleRequest(gateway, record, { ...ending, responseId: null });
  }
}

/** The upstream does not support the call, or not for this response. */
function isRefused(status: number | null): boolean {
  return status !== null && [400, 404, 405, 410, 422, 501].includes(status);
}
