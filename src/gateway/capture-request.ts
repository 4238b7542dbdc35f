/** Begins the capture of a request whose key or group has captures. */

import type { CaptureRecorder } from "../capture/capture-recorder.ts";
import type { RequestCapture } from "../capture/request-capture.ts";
import type { ApiError } from "../errors.ts";
import { publicPath } from "../protocols/shared/endpoint.ts";
import { presentedSecret } from "./admission/authenticate.ts";
import type { AuthenticatedRequest, ReadRequest, RequestContext } from "./request-context.ts";

export function beginCapture(
  captures: Pick<CaptureRecorder, "findReason" | "begin">,
  { call, caller, endpoint }: AuthenticatedRequest,
): RequestCapture | null {
  const reason = captures.findReason(caller);
  if (reason === null) return null;
  const { headers } = call.request;
  return captures.begin(reason, {
    path: publicPath(endpoint).replace("{model}", () => endpoint.model ?? "{model}"),
    transport: call.socketTurn === null ? "http" : "websocket",
    headers,
    secret: presentedSecret(headers),
  });
}

/**
 * Captures the body of a turn; that of an HTTP request was captured when it was read. A form is not captured: its files
 * are media, and they may be on disk.
 */
export function captureTurn(capture: RequestCapture, { call, request }: ReadRequest): void {
  if (call.socketTurn !== null && request.inputText.kind === "json") capture.addBody(request.inputText.body);
}

export function captureError(
  capture: RequestCapture,
  { endpoint, call }: RequestContext,
  error: ApiError,
): void {
  const { status, body } = endpoint.api.writeError(error, call.requestId);
  capture.addErrorResponse(status, body);
}
