/** Sends a request whose response is not streamed, in one body or in several. */

import type { TranslatedAttempt } from "../translation/translated-attempt.ts";
import type { WholeResult } from "../whole-result.ts";
import { type OutboundRequest, sendRequest, type UpstreamAttempt } from "./send-request.ts";

export function sendWhole(
  out: OutboundRequest,
  attempt: UpstreamAttempt,
  translated: TranslatedAttempt | null,
): Promise<WholeResult> {
  if (translated === null || translated.sendBatches === null) return sendRequest(out, attempt);
  let { capture = null } = attempt;
  return translated.sendBatches((content) => {
    const body = { contentType: "application/json", content };
    const sending = sendRequest(out, { ...attempt, body, capture });
    // A capture has one body: that of the first batch.
    capture = null;
    return sending;
  });
}
