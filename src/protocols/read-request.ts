/** Reads the body of a model request in the dialect of its endpoint. */

import { type Part, wholeBytesPart } from "../base/parts.ts";
import { type GeminiInspection, inspectGeminiBody, readGeminiRequest } from "./gemini/gemini-request.ts";
import type { ChangedBody } from "./request-policy/policy-body.ts";
import type { Endpoint } from "./shared/endpoint.ts";
import {
  type BodyInspection,
  inspectJsonBody,
  type JsonRequestLimits,
  openInspectedRequest,
  openScannedRequest,
  readJsonRequest,
} from "./shared/json-request.ts";
import type { ModelRequest } from "./shared/request.ts";

/** What the inspection thread found in a long body. Plain data. */
export type RequestInspection = BodyInspection | GeminiInspection;

/** `onDispose` is called when the body is no longer needed, possibly more than once. */
export function readModelRequest(
  body: Part,
  endpoint: Endpoint,
  limits: JsonRequestLimits,
  onDispose: (() => void) | null = null,
): ModelRequest {
  return endpoint.api.hasModelInPath
    ? readGeminiRequest(body, endpoint, limits, { onDispose })
    : readJsonRequest(body, endpoint, limits, onDispose);
}

/** Builds the same request as `readModelRequest` from a body that a request policy has changed. */
export function openChanged(
  { bytes, scan }: ChangedBody,
  endpoint: Endpoint,
  limits: JsonRequestLimits,
  onDispose: (() => void) | null = null,
): ModelRequest {
  const part = wholeBytesPart(bytes);
  if (scan === null) return readModelRequest(part, endpoint, limits, onDispose);
  return endpoint.api.hasModelInPath
    ? readGeminiRequest(part, endpoint, limits, { scan, onDispose })
    : openScannedRequest({ part, scan }, endpoint, limits, onDispose);
}

/** Throws the error of a body that cannot be served, like `readModelRequest`. */
export function inspectBody(body: Part, endpoint: Endpoint, limits: JsonRequestLimits): RequestInspection {
  return endpoint.api.hasModelInPath
    ? inspectGeminiBody(body, endpoint, limits)
    : inspectJsonBody(body, endpoint, limits);
}

interface InspectedBody {
  readonly body: Part;
  readonly inspection: RequestInspection;
  readonly onDispose: (() => void) | null;
}

/** Builds the same request as `readModelRequest`, without walking through the body again. */
export function openInspected(
  { body, inspection, onDispose }: InspectedBody,
  endpoint: Endpoint,
  limits: JsonRequestLimits,
): ModelRequest {
  return "kind" in inspection
    ? readGeminiRequest(body, endpoint, limits, { inspection, onDispose })
    : openInspectedRequest(body, inspection, endpoint, limits, onDispose);
}
