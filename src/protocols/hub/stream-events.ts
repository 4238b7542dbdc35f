/** The events of a stream that is being read: one end or one error is the last of them. */

import type { UpstreamError } from "../shared/upstream-error.ts";
import type { HubEvent, HubStop } from "./hub-response.ts";

const NO_EVENTS: readonly HubEvent[] = [];

export const BROKEN_OFF: UpstreamError = {
  code: "server_error",
  type: null,
  param: null,
  message: "The stream ended before the response was complete.",
};

export class StreamEvents {
  /** Those that have not been taken. */
  readonly list: HubEvent[] = [];
  #isOver = false;

  get isOver(): boolean {
    return this.#isOver;
  }

  add(event: HubEvent): void {
    this.list.push(event);
  }

  end(stop: HubStop, stopSequence: string | null = null): void {
    this.#isOver = true;
    this.list.push({ type: "end", stop, stopSequence });
  }

  fail(error: UpstreamError): void {
    this.#isOver = true;
    this.list.push({ type: "error", error });
  }

  take(): readonly HubEvent[] {
    return this.list.length === 0 ? NO_EVENTS : this.list.splice(0);
  }
}

/** Calls decide, whatever reason the upstream reports: clients would wait for the other. */
export function resolveStop(reported: HubStop | null, hasCalls: boolean): HubStop {
  if (hasCalls) return "tools";
  return reported === null || reported === "tools" ? "end" : reported;
}
