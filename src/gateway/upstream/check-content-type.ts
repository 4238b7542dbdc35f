/** Checks that a successful response has the type of content that the request asked for. */

import { type UpstreamFailure, upstreamFailure } from "../../accounts/failure.ts";
import type { ResponseHeaders } from "../../net/http-client/contract.ts";
import type { Endpoint } from "../../protocols/shared/endpoint.ts";

/** An HTML page of a captive portal or an unrequested stream must never pass as a response. */
export function checkJson(headers: ResponseHeaders): UpstreamFailure | null {
  return isOfType(headers.get("content-type") ?? "", "application/json") ? null : wrongType();
}

export function checkEventStream(headers: ResponseHeaders, endpoint: Endpoint): UpstreamFailure | null {
  const type = headers.get("content-type") ?? "";
  if (!isOfType(type, "text/event-stream")) {
    // Many image servers do not support streaming. Requests for streams must not put them into cool-down for other
    // requests.
    const isWholeImageResponse = endpoint.output === "image" && isOfType(type, "application/json");
    return isWholeImageResponse
      ? upstreamFailure("unstreamed", "expected a stream, received a whole response", 200)
      : wrongType();
  }
  const isCompressed = (headers.get("content-encoding") ?? "identity") !== "identity";
  return isCompressed ? upstreamFailure("bad_answer", "a compressed stream", 200) : null;
}

function isOfType(type: string, wanted: string): boolean {
  return type === wanted || type.toLowerCase().startsWith(wanted);
}

function wrongType(): UpstreamFailure {
  return upstreamFailure("bad_answer", "wrong content type", 200);
}
