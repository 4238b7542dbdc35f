/**
 * Upstreams that are read to their end though their clients have left, so that what they produced is known. They keep
 * places that others wait for, so there is room for few of them: beyond that a stream is cut as elsewhere.
 */

import type { Client } from "./send.ts";
import type { UnderWay } from "./under-way.ts";

export interface Drains {
  /** True if there is room; `leave` gives it back. */
  enter(): boolean;
  leave(): void;
}

export function openDrains(max: number): Drains {
  let count = 0;
  return {
    enter() {
      if (count >= max) return false;
      count++;
      return true;
    },
    leave() {
      count--;
    },
  };
}

/** A client that counts as present for a while after it left, so that the answer to it is read to the end. */
export interface LingeringClient extends Client {
  /** To be called when the answer is there, or when there will be none. */
  stopLingering(): void;
}

/** It stops lingering when the process ends. */
export function lingeringClient(
  client: Client,
  drains: Drains,
  lingerMs: number,
  underWay: Pick<UnderWay, "enter">,
): LingeringClient {
  const controller = new AbortController();
  const give = () => controller.abort();
  const over = underWay.enter(give);
  let watched: AbortSignal | null = null;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let lingers = false;
  const linger = () => {
    lingers = drains.enter();
    if (lingers) timer = setTimeout(give, lingerMs);
    else give();
  };
  return {
    inPerson: client,
    get signal() {
      if (watched === null) {
        watched = client.signal;
        if (watched.aborted) linger();
        else watched.addEventListener("abort", linger);
      }
      return controller.signal;
    },
    stopLingering() {
      watched?.removeEventListener("abort", linger);
      clearTimeout(timer);
      if (lingers) drains.leave();
      lingers = false;
      over();
    },
  };
}
