/**
 * A stored response whose stream ended early in a group that charges: its client left, its connection broke, or it said
 * more than was held for. Its upstream may go on with it, and the client could fetch the whole by its id. So the
 * upstream is told to stop, and asked how the response stands until it has ended: then what it used is charged. One that
 * the upstream does not keep, or that does not end in time, is charged by what is known, and its id is forgotten.
 */

import type { AccountRoute } from "../../policy/snapshot.ts";
import type { Gateway } from "../gateway.ts";
import type { PaidRecord, RequestEnding } from "../request-record.ts";
import { settleRequest } from "../settlement/settle.ts";
import type { WholeResult } from "../upstream/send-request.ts";
import { askAfter, openPause, type Pause, type Standing, standingOf } from "./background.ts";

const FIRST_PAUSE_MS = 500;
const PAUSE_MS_MAX = 15_000;
const ASK_MS = 15_000;
/** An upstream that answers none of so many questions in a row is not asked again. */
const FAILURES_MAX = 5;
/** For the last question before the process ends. */
const LAST_ASK_MS = 2_000;

/** Resolves when the response is settled. `ending` is how its request ended here. */
export async function followLeft(
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
  const over = gateway.underWay.enter(pause.stop);
  try {
    await new LeftResponse(gateway, record, route, responseId, ending).follow(pause);
  } finally {
    over();
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
    const known = await gateway.responses.find(responseId, record.caller.key.id);
    const look = () => this.isSettledBy("GET", ASK_MS);
    if (known !== null) gateway.responses.remember(responseId, { ...known, look });
    const untilMs = gateway.clock.monotonicMs() + gateway.timing.drainOnDisconnectMs;
    // A client whose stream the upstream broke off may still want the rest. In all other cases it is not needed.
    const isWanted = this.ending.outcome === "upstream_cut";
    if (!isWanted && (await this.isSettledBy("POST", ASK_MS))) return;
    for (let pauseMs = FIRST_PAUSE_MS; gateway.clock.monotonicMs() < untilMs; pauseMs *= 1.5) {
      await pause.wait(Math.min(pauseMs, PAUSE_MS_MAX));
      if (pause.isStopped()) break;
      if (await look()) return;
    }
    if (await this.isSettledBy("GET", LAST_ASK_MS)) return;
    void askAfter(gateway, this.route, responseId, "DELETE", LAST_ASK_MS);
    await this.settleUnknown();
  }

  /** Asks the upstream how the response stands (`POST` asks to stop it), and settles it if it has ended. */
  private async isSettledBy(method: "GET" | "POST", deadlineMs: number): Promise<boolean> {
    const { gateway, record, route, responseId } = this;
    if (record.isClosed) return true;
    const asked = await askAfter(gateway, route, responseId, method, deadlineMs);
    const standing = standingOf(gateway, record, route, asked);
    switch (standing.kind) {
      case "gone":
      case "running":
        // Many servers cannot stop a response.
        if (method === "POST" || !this.isUnavailable(asked)) return false;
        await this.settleUnknown();
        return true;
      case "ended":
        await this.settleEnded(standing);
        return true;
    }
  }

  /** The upstream does not have the response, or cannot be asked: then no client can fetch it either. */
  private isUnavailable(asked: WholeResult): boolean {
    this.failures = asked.kind === "failed" ? this.failures + 1 : 0;
    if (asked.kind !== "failed") return false;
    return isRefused(asked.failure.status) || this.failures >= FAILURES_MAX;
  }

  private async settleEnded({ answer }: Extract<Standing, { kind: "ended" }>): Promise<void> {
    const { gateway, record, ending } = this;
    // One that was stopped and reports nothing is charged as if it were gone, but can be fetched: there is no more of it.
    const isWhole = answer.usage !== null;
    await settleRequest(gateway, record, { ...ending, usage: answer.usage, isWhole });
  }

  private async settleUnknown(): Promise<void> {
    const { gateway, record, responseId, ending } = this;
    gateway.responses.forget(responseId);
    await settleRequest(gateway, record, { ...ending, responseId: null });
  }
}

/** The upstream does not offer the call, or not for this response. */
function isRefused(status: number | null): boolean {
  return status !== null && [400, 404, 405, 410, 422, 501].includes(status);
}
