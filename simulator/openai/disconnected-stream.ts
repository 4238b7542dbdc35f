/** What happens to a response whose connection ends early: it stops, or it continues to its end without a reader. */

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
    response.status = "in_progress";
    setTimeout(() => {
      response.status = planned.end;
    }, detachedMs).unref();
    return true;
  };
}
