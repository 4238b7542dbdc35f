/**
 * A request under a client's own `Idempotency-Key` is served once. A repeat gets the first answer again if it was
 * kept, and is told why not otherwise; it goes upstream again only where no account can have worked on the first.
 */

import type { IdempotencyClaim, StoredAnswer } from "../../billing/idempotency/idempotency.ts";
import { ApiError, storeUnavailable } from "../../errors.ts";
import type { HeaderReader } from "../../net/wire/http-fields.ts";
import { WholeResponse } from "../../net/wire/http-message.ts";
import { partBytes } from "../../net/wire/parts.ts";
import type { Endpoint, ModelRequest } from "../../protocols/shared/request.ts";
import type { Caller } from "../admission/authenticate.ts";
import type { Gateway } from "../gateway.ts";
import { computeFingerprint, readIdempotencyKey, repeatError } from "./idempotency-key.ts";

/** The first request under its key, which now owns the claim; or a repeat, with the answer of the first. */
export type IdempotencyClaimResult<Out> =
  | { kind: "first"; claim: IdempotencyClaim }
  | { kind: "repeat"; answer: Out };

/** As much of an admitted request (`Passage`) as a claim needs. */
interface Claimant {
  readonly gateway: Pick<Gateway, "idempotency">;
  readonly call: { readonly request: { readonly headers: HeaderReader }; readonly requestId: string };
  readonly caller: Caller;
  readonly endpoint: Endpoint;
  readonly request: ModelRequest;
}

/** Null without the header. Rejects with the refusal of a repeat whose first answer cannot be given again. */
export function claimRequest(claimant: Claimant): Promise<IdempotencyClaimResult<WholeResponse>> | null {
  const token = readIdempotencyKey(claimant.call.request.headers);
  return token === null ? null : claimUnder(token, claimant);
}

async function claimUnder(token: string, claimant: Claimant): Promise<IdempotencyClaimResult<WholeResponse>> {
  const { gateway, call, caller, endpoint, request } = claimant;
  const claim: IdempotencyClaim = {
    scope: caller.key.id,
    token,
    fingerprint: await fingerprintFor(endpoint, request),
    requestId: call.requestId,
  };
  const begun = await gateway.idempotency.begin(claim).catch(() => {
    throw storeUnavailable();
  });
  if (begun.kind === "new") return { kind: "first", claim };
  if (begun.kind !== "done" || begun.stored === null) throw repeatError(begun);
  const { status, contentType, body } = begun.stored;
  const headers = `content-type: ${contentType}\r\nx-request-id: ${begun.requestId}\r\nidempotency-replayed: true\r\n`;
  return { kind: "repeat", answer: new WholeResponse(status, headers, Buffer.from(body)) };
}

async function fingerprintFor(endpoint: Endpoint, { inputText }: ModelRequest): Promise<string> {
  const fingerprint = computeFingerprint(endpoint.name);
  if (inputText.kind === "texts") return fingerprint.add(inputText.formDigest ?? "").end();
  return (await fingerprint.addInTurns(partBytes(inputText.body))).end();
}

/** After such a failure the same Idempotency-Key is used up: a client that is told to try again must know. */
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
