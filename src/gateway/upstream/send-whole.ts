/** Sends a request whose response is not streamed, in one body or in several. */

import type { TranslatedAttempt } from "../translation/translated-attempt.ts";
import type { WholeResult } from "../whole-result.ts";
import { type OutboundRequest, sendRequest, type UpstreamExchange } from "./send-request.ts";

export function sendWhole(
  out: OutboundRequest,
  exchange: UpstreamExchange,
  translated: TranslatedAttempt | null,
): Promise<WholeResult> {
  if (translated === null || translated.sendBatches === null) return sendRequest(out, exchange);
  let { capture = null } = exchange;
  return translated.sendBatches((content) => {
    const body = { contentType: "application/json", content };
    const sending = sendRequest(out, { ...exchange, body, capture });
    // A capture has one body: that of the first batch.
    capture = null;
    return sending;
  });
}
