/** What happens to a response whose connection ends early: it stops, or it continues to its end without a reader. */

import type { DisconnectHandler, EventsReply } from "../reply.ts";
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

/** The output tokens of a stream that ended after it had shown `shownTokens`. */
export function producedTokens(reply: EventsReply, shownTokens: number, isCut: boolean): number {
  const continues = isCut && reply.onDisconnect?.() === true;
  return continues ? reply.usage.output : shownTokens + (reply.usage.hidden ?? 0);
}
