/** What becomes of a response whose connection ends before it does: it stops, or goes on to its end without a reader. */

import type { EventsReply, ReaderLeft } from "./reply.ts";
import type { ResponseStore, StoredResponse } from "./response-store.ts";

export function onReaderLeft(
  response: StoredResponse,
  store: ResponseStore,
  detachedMs: number | null,
): ReaderLeft {
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

/** The output tokens of a stream that ended after it had shown so many. */
export function producedTokens(reply: EventsReply, shownTokens: number, isCut: boolean): number {
  const goesOn = isCut && reply.readerLeft?.() === true;
  return goesOn ? reply.usage.output : shownTokens + (reply.usage.hidden ?? 0);
}
