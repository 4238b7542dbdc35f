/** Responses without a reader: one whose connection ends early stops or continues, and one in the background continues. */

import type { DisconnectHandler } from "../reply.ts";
import type { ResponseStore, StoredResponse } from "./response-store.ts";

export function createDisconnectHandler(
  response: StoredResponse,
  store: ResponseStore,
  detachedMs: number | null,
): DisconnectHandler {
  const { planned } = response;
  return () => {
    if (planned.background) return true;
    if (detachedMs === null || store.get(planned.id) === undefined) {
      store.delete(planned.id);
      return false;
    }
    completeAfter(response, detachedMs);
    return true;
  };
}

/** The response is in progress for this time, unless it is cancelled. */
export function completeAfter(response: StoredResponse, ms: number): void {
  response.status = "in_progress";
  setTimeout(() => {
    if (response.status === "in_progress") response.status = response.planned.end;
  }, ms).unref();
}
