/**
 * Limits drains: upstream responses that are read to their end after the client disconnected, so that their use is
 * known. Drains occupy account slots that other requests wait for, so their number is limited, in total and per user.
 * Beyond the limit a response is cancelled and, if the group charges, its unseen output is estimated and charged.
 */

import type { InFlightRequests } from "../request/in-flight-requests.ts";
import type { Client } from "../upstream/send-request.ts";

export interface Drains {
  /** Returns true if there is room; `leave` releases it. `owner` is the user, or the key if it has no user. */
  tryAcquire(owner: string): boolean;
  release(owner: string): void;
}

export function openDrains(max: number, perOwnerMax: number): Drains {
  const byOwner = new Map<string, number>();
  let count = 0;
  return {
    tryAcquire(owner) {
      const ownerCount = byOwner.get(owner) ?? 0;
      if (count >= max || ownerCount >= perOwnerMax) return false;
      count++;
      byOwner.set(owner, ownerCount + 1);
      return true;
    },
    release(owner) {
      count--;
      const ownerCount = byOwner.get(owner) ?? 0;
      if (ownerCount > 1) byOwner.set(owner, ownerCount - 1);
      else byOwner.delete(owner);
    },
  };
}

/** A client that counts as connected for some time after it disconnected, so that its response is drained. */
export interface LingeringClient extends Client {
  /** Call it when the response has arrived or has failed. */
  stopLingering(): void;
}

/** Stops lingering at shutdown. */
export function lingeringClient(
  client: Client,
  owner: string,
  drains: Drains,
  lingerMs: number,
  inFlight: Pick<InFlightRequests, "register">,
): LingeringClient {
  const controller = new AbortController();
  const abort = () => controller.abort();
  const endInFlight = inFlight.register(abort);
  let clientSignal: AbortSignal | null = null;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isLingering = false;
  const linger = () => {
    isLingering = drains.tryAcquire(owner);
    if (isLingering) timer = setTimeout(abort, lingerMs);
    else abort();
  };
  return {
    realClient: client,
    get signal() {
      if (clientSignal === null) {
        clientSignal = client.signal;
        if (clientSignal.aborted) linger();
        else clientSignal.addEventListener("abort", linger);
      }
      return controller.signal;
    },
    stopLingering() {
      clientSignal?.removeEventListener("abort", linger);
      clearTimeout(timer);
      if (isLingering) drains.release(owner);
      isLingering = false;
      endInFlight();
    },
  };
}
