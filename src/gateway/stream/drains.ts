/**
 * Upstreams that are read to their end though their clients have left, so that what they produced is known. They keep
 * places that others wait for, so there is room for few of them, and for fewer of one user: beyond that an answer is cut,
 * and where the group charges, what was not seen of it is charged by estimate.
 */

import type { InFlightRequests } from "../request/in-flight-requests.ts";
import type { Client } from "../upstream/send-request.ts";

export interface Drains {
  /** True if there is room; `leave` gives it back. `owner` is the user, or the key that belongs to none. */
  enter(owner: string): boolean;
  leave(owner: string): void;
}

export function openDrains(max: number, perOwnerMax: number): Drains {
  const byOwner = new Map<string, number>();
  let count = 0;
  return {
    enter(owner) {
      const own = byOwner.get(owner) ?? 0;
      if (count >= max || own >= perOwnerMax) return false;
      count++;
      byOwner.set(owner, own + 1);
      return true;
    },
    leave(owner) {
      count--;
      const own = byOwner.get(owner) ?? 0;
      if (own > 1) byOwner.set(owner, own - 1);
      else byOwner.delete(owner);
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
  owner: string,
  drains: Drains,
  lingerMs: number,
  underWay: Pick<InFlightRequests, "enter">,
): LingeringClient {
  const controller = new AbortController();
  const give = () => controller.abort();
  const over = underWay.enter(give);
  let watched: AbortSignal | null = null;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let lingers = false;
  const linger = () => {
    lingers = drains.enter(owner);
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
      if (lingers) drains.leave(owner);
      lingers = false;
      over();
    },
  };
}
