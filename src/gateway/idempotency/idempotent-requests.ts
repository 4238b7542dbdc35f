/**
 * Executes a request with an `Idempotency-Key` once. A repeat gets the stored response of the first one, or an error if
 * there is none. It is sent upstream again only if no account can have processed the first one.
 */

import { partBytes } from "../../base/parts.ts";
import type { Idempotency, IdempotencyClaim, StoredResult } from "../../billing/idempotency/idempotency.ts";
import { ApiError, storeUnavailable } from "../../errors.ts";
import type { HeaderReader } from "../../net/wire/http-fields.ts";
import { WholeResponse } from "../../net/wire/http-message.ts";
import type { Log } from "../../observe/log.ts";
import type { Endpoint } from "../../protocols/shared/endpoint.ts";
import type { ModelRequest } from "../../protocols/shared/request.ts";
import type { Caller } from "../admission/authenticate.ts";
import { computeFingerprint, readIdempotencyKey, repeatError } from "./idempotency-key.ts";

/** The first request with its key, which now owns the claim; or a repeat, with the response of the first. */
export type IdempotencyClaimResult<Out> =
  | { kind: "first"; claim: IdempotencyClaim }
  | { kind: "repeat"; response: Out };

/** The part of the request context that a claim depends on. */
interface Claimant {
  readonly call: { readonly request: { readonly headers: HeaderReader }; readonly requestId: string };
  readonly caller: Caller;
  readonly endpoint: Endpoint;
  readonly request: ModelRequest;
  readonly fallback?: { readonly requested: { readonly request: ModelRequest } } | null;
}

/** Returns null without the header. Rejects with the error of a repeat that has no stored response. */
export function claimRequest(
  idempotency: Pick<Idempotency, "begin">,
  claimant: Claimant,
): Promise<IdempotencyClaimResult<WholeResponse>> | null {
  const token = readIdempotencyKey(claimant.call.request.headers);
  return token === null ? null : claimWithKey(idempotency, claimant, token);
}

async function claimWithKey(
  idempotency: Pick<Idempotency, "begin">,
  { call, caller, endpoint, request, fallback }: Claimant,
  token: string,
): Promise<IdempotencyClaimResult<WholeResponse>> {
  const claim: IdempotencyClaim = {
    scope: caller.key.id,
    token,
    // A fallback step may have changed the request, but not what the client has sent.
    fingerprint: await fingerprintRequest(endpoint, fallback?.requested.request ?? request),
    requestId: call.requestId,
  };
  const start = await idempotency.begin(claim).catch(() => {
    throw storeUnavailable();
  });
  if (start.kind === "new") return { kind: "first", claim };
  if (start.kind !== "done" || start.stored === null) throw repeatError(start);
  const { status, contentType, body } = start.stored;
  const headers = `content-type: ${contentType}\r\nx-request-id: ${start.requestId}\r\nidempotency-replayed: true\r\n`;
  return { kind: "repeat", response: new WholeResponse(status, headers, Buffer.from(body)) };
}

async function fingerprintRequest(
  endpoint: Endpoint,
  { inputText, publicModel }: ModelRequest,
): Promise<string> {
  const fingerprint = computeFingerprint(endpoint.name);
  // The other dialects have the model in the body.
  if (endpoint.api.hasModelInPath) fingerprint.add(endpoint.model ?? publicModel);
  if (inputText.kind === "texts") return fingerprint.add(inputText.formDigest ?? "").end();
  return (await fingerprint.addInTurns(partBytes(inputText.body))).end();
}

/** After such a failure the key is spent. The error states it, because clients would retry with it. */
export function withSpentKey({
  code,
  message,
  param,
  headers,
  resetsAtMs,
  limit,
  tried,
}: ApiError): ApiError {
  const advice =
    "The upstream may have processed the request, so its Idempotency-Key cannot be used again. To send the request again, use a new key.";
  return new ApiError(code, `${message} ${advice}`, {
    param,
    headers: { ...headers, "x-should-retry": "false" },
    resetsAtMs,
    limit,
    tried,
  });
}

export interface ClaimEndServices {
  readonly idempotency: Pick<Idempotency, "finish" | "releaseClaim">;
  readonly log: Pick<Log, "error">;
}

/**
 * Ends the claim of the first request. A database failure must not spoil a paid response: the write is retried when the
 * database is back, and until then the key stays in progress.
 */
export async function endClaim(
  { idempotency, log }: ClaimEndServices,
  claim: IdempotencyClaim,
  end: "forget" | StoredResult | null,
): Promise<void> {
  try {
    if (end === "forget") await idempotency.releaseClaim(claim);
    else await idempotency.finish(claim, end);
  } catch (error) {
    const reason = error instanceof Error ? error.message : "unknown";
    log.error("idempotency_not_ended", { request_id: claim.requestId, reason });
  }
}
