/** Whole responses: what of an account's response the gateway keeps, counts and settles before the client receives it. */

import { joinParts, partsLength } from "../../base/parts.ts";
import type { StoredResult } from "../../billing/idempotency/idempotency.ts";
import { hasTextOutput } from "../../protocols/shared/endpoint.ts";
import type { UpstreamResponse } from "../../protocols/whole-response.ts";
import type { UsageRow } from "../../store/usage/usage.ts";
import type { InputCounter } from "../metering/count-input.ts";
import { isWholeCount } from "../metering/meter.ts";
import type { ReservedRequest } from "../request-context.ts";
import type { RequestEnding, ResponseState } from "../settlement/request-ending.ts";
import type { UpstreamResult, WholeUpstreamResult } from "../upstream/dispatch.ts";

/** The request occupies the account's slot from here on. */
export function acceptWhole(context: ReservedRequest, result: UpstreamResult): WholeUpstreamResult {
  if (result.kind !== "response") throw new Error("expected a whole response, received a stream");
  context.accountSlot = result.accountSlot;
  return result;
}

/** A response that the upstream continues is a background response. */
export function readWholeState({ status }: UpstreamResponse): ResponseState {
  return status === "queued" || status === "in_progress" ? "background" : "ended";
}

interface WholeEnd {
  readonly responseId: string | null;
  readonly responseState: ResponseState;
  readonly isClientGone: boolean;
}

interface WholeEndServices {
  readonly inputCounter: Pick<InputCounter, "countResponse">;
}

export function buildWholeEnding(
  { inputCounter }: WholeEndServices,
  { endpoint, caller }: ReservedRequest,
  response: UpstreamResponse,
  { responseId, responseState, isClientGone }: WholeEnd,
): RequestEnding {
  const { usage, body } = response;
  const isPending = responseState === "background";
  const isReported = usage !== null && isWholeCount(usage);
  return {
    outcome: isClientGone ? "client_gone" : isPending ? "pending" : readOutcome(response),
    status: 200,
    error: null,
    usage,
    images: response.images,
    imageKind: response.imageKind,
    responseId,
    responseState,
    isServed: true,
    isWhole: true,
    countOutput:
      hasTextOutput(endpoint) && !isReported ? () => inputCounter.countResponse(body, caller.key.id) : null,
    estimateShown: null,
    isAbandoned: false,
    describeResponse: response.describe,
  };
}

function readOutcome({ status }: UpstreamResponse): UsageRow["outcome"] {
  switch (status) {
    case "incomplete":
    case "failed":
    case "cancelled":
      return status;
    default:
      return "completed";
  }
}

/** Releases the concurrency of the caller and of the account. The use may be counted later. */
export function releaseConcurrency({ lease, accountSlot }: ReservedRequest): void {
  lease.release();
  accountSlot?.release(null);
}

/** The response that a repeat with the same Idempotency-Key receives. Null if it is too long to be stored. */
export function buildStoredResult({ body }: UpstreamResponse, bytesMax: number): StoredResult | null {
  // Before it is joined: decoding a long response would hold the event loop.
  if (partsLength(body) > bytesMax) return null;
  return { status: 200, contentType: "application/json", body: new TextDecoder().decode(joinParts(body)) };
}
