/**
 * A request under a client's own `Idempotency-Key` is served once. A repeat gets the first answer again if it was
 * kept, and is told why not otherwise; it goes upstream again only where no account can have worked on the first.
 */

import type { IdempotencyClaim, StoredAnswer } from "../billing/idempotency.ts";
import { ApiError, storeUnavailable } from "../errors.ts";
import type { Endpoint, ModelRequest } from "../interfaces/request.ts";
import { WholeAnswer } from "../wire/http-message.ts";
import { bytesOf } from "../wire/splice.ts";
import type { Caller } from "./authenticate.ts";
import type { Call, Gateway } from "./gateway.ts";
import { fingerprintOf, idempotencyTokenOf, repeatRefused } from "./idempotency-key.ts";

/** The claim of the first one, or the answer to a repeat; null where the client claims nothing. */
export async function claimRequest(
  gateway: Pick<Gateway, "idempotency">,
  call: Pick<Call, "request" | "requestId">,
  caller: Caller,
  endpoint: Endpoint,
  request: ModelRequest,
): Promise<IdempotencyClaim | WholeAnswer | null> {
  const token = idempotencyTokenOf(call.request.headers);
  if (token === null) return null;
  const claim: IdempotencyClaim = {
    scope: caller.key.id,
    token,
    fingerprint: fingerprintFor(endpoint, request),
    requestId: call.requestId,
  };
  const begun = await gateway.idempotency.begin(claim).catch(() => {
    throw storeUnavailable();
  });
  if (begun.kind === "new") return claim;
  if (begun.kind !== "done" || begun.stored === null) throw repeatRefused(begun);
  const { status, contentType, body } = begun.stored;
  const headers = `content-type: ${contentType}\r\nx-request-id: ${begun.requestId}\r\nidempotency-replayed: true\r\n`;
  return new WholeAnswer(status, headers, Buffer.from(body));
}

function fingerprintFor(endpoint: Endpoint, { inputText }: ModelRequest): string {
  const fingerprint = fingerprintOf(endpoint.name);
  return fingerprint
    .add(inputText.kind === "json" ? bytesOf(inputText.body) : (inputText.formDigest ?? ""))
    .end();
}

/** A failure after which the same key is of no more use: who follows an advice to try again has to know. */
export function withSpentKey({ code, message, param, headers, resetsAtMs }: ApiError): ApiError {
  const advice =
    "An account may have worked on it, so its Idempotency-Key is used up: to ask again, use a new key.";
  return new ApiError(code, `${message} ${advice}`, {
    param,
    headers: { ...headers, "x-should-retry": "false" },
    resetsAtMs,
  });
}

/**
 * The first request under its key has ended. A store that cannot be told must not spoil an answer that is paid for: it
 * is told when it is back, and until then the key stays under way.
 */
export async function endClaim(
  { idempotency, log }: Pick<Gateway, "idempotency" | "log">,
  claim: IdempotencyClaim,
  end: "forget" | StoredAnswer | null,
): Promise<void> {
  try {
    if (end === "forget") await idempotency.forget(claim);
    else await idempotency.finish(claim, end);
  } catch (error) {
    const reason = error instanceof Error ? error.message : "unknown";
    log.error("idempotency_not_ended", { request_id: claim.requestId, reason });
  }
}
